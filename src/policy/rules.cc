#include "policy/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "policy/pool/account.h"

namespace fermata::policy {
namespace {

constexpr Rule kRules[] = {
    {"defer", &Rules::defer, 1, "", "hold a batch until its latest start", "Symphony 4.3"},
    {"enough", &Rules::enough, 1, "",
     "start with more items than come in the time of the fixed cost", "Symphony 4.3, βλ"},
    {"no_mates", &Rules::no_mates, 1, "", "start where no item is expected before the latest start",
     "estimate/rate.h"},
    {"no_growth", &Rules::no_growth, 1, "", "start where nobody came lately while so many waited",
     "estimate/growth.h"},
    {"spare", &Rules::spare, 1, "share of the pool",
     "start where all items alone keep at most this share busy", "policy/pool/account.h"},
    {"longest_hold", &Rules::longest_hold, 1e6, "runs of the batch", "hold for no longer than this",
     ""},
    {"margin", &Rules::margin, 1, "share of the run time", "start earlier by this", ""},
    {"gain", &Rules::gain, 0.9, "share of the items by worker second",
     "start where waiting serves less than this more", ""},
    {"burst", &Rules::burst, 1e9, "requests", "start earlier by the wait of one in so many",
     "policy/pool/account.h, Work"},
    {"busiest", &Rules::busiest, 1, "share of the workers",
     "count requests of a burst alone as far as this bears them", "policy/pool/account.h, Load"},
    {"run_cap", &Rules::run_cap, 1e6, "times what requests can wait",
     "count no run of a burst for more than this", "policy/pool/account.h, Work"},
    {"others_share", &Rules::others_share, 1, "",
     "start earlier by the share of time that services of several models take", ""},
    {"planned", &Rules::planned, 1, "", "follow what a pipeline has planned or begun",
     "policy/tree/pipeline.h"},
    {"fade_load", &Rules::fade_load, 1, "", "start less early from a load of 0.8 on", ""},
    {"fade_alone", &Rules::fade_alone, 1, "", "but not models that gain nothing by batches", ""},
    {"fade_cost", &Rules::fade_cost, 1, "", "start less early where the fixed cost is large", ""},
    {"long_later", &Rules::long_later, 1, "",
     "start less early what runs longer than others can wait", ""},
    {"window", &Rules::window, 1, "", "give up who keeps batches below the target size",
     "Symphony 4.3"},
    {"smaller_target", &Rules::smaller_target, 1, "share of its efficiency",
     "save no batch larger than recent ones, or this below the target", ""},
    {"overload", &Rules::overload, 1, "share of the recent requests",
     "start early and save less no more where this is rejected", ""},
    {"by_deadline", &Rules::by_deadline, 1, "", "serve the earliest deadline first", ""},
    {"hold", &Rules::hold, 1, "", "keep the last free worker for those who cannot wait",
     "policy/pool/account.h"},
    {"last_few", &Rules::last_few, 1, "", "keep the last free workers, by Erlang's loss formula",
     "policy/pool/account.h"},
    {"cap", &Rules::cap, 1, "", "cut a batch on the last free worker for others' sake", ""},
    {"negligible", &Rules::negligible, 1, "late items by item",
     "make so many of others late without a wait or a cut", ""},
    {"best_effort", &Rules::best_effort, 1, "",
     "keep workers from work without deadline for those to come", "policy/pool/account.h"},
    {"tells", &Rules::tells, 1, "", "let services of several models pay for what this one loses",
     "policy/lookahead/worker_time.h"},
};

constexpr Rules kDefault = {.defer = true,
                            .no_mates = true,
                            .no_growth = true,
                            .spare = 0.25,
                            .longest_hold = 4,
                            .margin = 0.1,
                            .gain = 0.1,
                            .burst = kOneIn,
                            .busiest = 0.8,
                            .run_cap = kRunCap,
                            .others_share = true,
                            .planned = true,
                            .fade_load = true,
                            .fade_alone = true,
                            .fade_cost = true,
                            .long_later = true,
                            .window = true,
                            .smaller_target = 0.1,
                            .overload = 0.2,
                            .hold = true,
                            .last_few = true,
                            .cap = true,
                            .negligible = kNegligible,
                            .best_effort = true,
                            .tells = true};

constexpr Rules without_long_later() {
  Rules rules = kDefault;
  rules.long_later = false;
  return rules;
}

constexpr Rules without_window() {
  Rules rules = without_long_later();
  rules.window = false;
  return rules;
}

constexpr PolicyRow kRows[] = {
    {"fermata", kDefault},
    {"fermata-early", without_long_later()},
    {"fermata-prefix", without_window()},
    {"deferred", {.defer = true, .window = true}},
    {"deferred-beta-lambda", {.defer = true, .enough = true, .window = true}},
    {"deferred-prefix", {.defer = true}},
    {"eager", {.window = true}},
    {"clockwork", {}},
    {"edf", {.by_deadline = true}},
};

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const Rule& rule : kRules) all.push_back(rule.name);
  return all;
}

}  // namespace

std::span<const Rule> all_rules() { return kRules; }
std::span<const PolicyRow> policy_rows() { return kRows; }

const Rules* policy_rules(std::string_view policy) {
  for (const PolicyRow& row : kRows) {
    if (row.policy == policy) return &row.rules;
  }
  return nullptr;
}

absl::Status set_rule(Rules& rules, std::string_view change) {
  const size_t equals = change.find('=');
  const std::string_view name = change.substr(0, equals);
  const std::string value(equals == change.npos ? "" : change.substr(equals + 1));
  for (const Rule& rule : kRules) {
    if (rule.name != name) continue;
    const bool off = value == "off";
    if (const auto* flag = std::get_if<bool Rules::*>(&rule.field)) {
      if (!off && value != "on") return invalid("rule {} is '{}', expected on or off", name, value);
      rules.*(*flag) = !off;
      return absl::OkStatus();
    }
    double number = 0;
    if (!off && (!absl::SimpleAtod(value, &number) || !(number >= 0 && number <= rule.most))) {
      return invalid("rule {} is '{}', expected off or a number from 0 to {} ({})", name, value,
                     rule.most, rule.unit);
    }
    rules.*std::get<double Rules::*>(rule.field) = number;
    return absl::OkStatus();
  }
  return invalid("no rule is called '{}', expected RULE=VALUE with one of {}", name,
                 fmt::join(names(), ", "));
}

std::vector<std::string> rule_changes(const Rules& from, const Rules& to) {
  std::vector<std::string> changes;
  for (const Rule& rule : kRules) {
    if (const auto* flag = std::get_if<bool Rules::*>(&rule.field)) {
      const bool value = to.*(*flag);
      if (from.*(*flag) != value) {
        changes.push_back(fmt::format("{}={}", rule.name, value ? "on" : "off"));
      }
      continue;
    }
    const auto number = std::get<double Rules::*>(rule.field);
    if (from.*number == to.*number) continue;
    changes.push_back(to.*number == 0 ? fmt::format("{}=off", rule.name)
                                      : fmt::format("{}={}", rule.name, to.*number));
  }
  return changes;
}

}  // namespace fermata::policy
