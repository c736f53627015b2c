#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace fermata::policy {

// How a policy for single models decides, as data: one batcher (batch/rule_batcher.h) and one
// ranker (pool/pool_ranker.h) read it. A policy is a row of policy_rows(). Every rule can be
// switched off by itself, a number by 0; all_rules() says of each what it means and where it comes
// from. `bench/policies/run.py ablate` measures what each is worth, and docs/policies.md has that
// table.
struct Rules {
  // -- When a batch starts: as soon as a worker is free, or held until its latest start, when one
  // item more would make its first request late. A held batch starts before that --
  bool defer = false;       // holds batches at all
  bool enough = false;      // with more items than λ brings in the time of its fixed cost
  bool no_mates = false;    // where λ promises no item before the latest start
  bool no_growth = false;   // where nobody came lately while so many waited
  double spare = 0;         // where all items alone would keep at most this share of the pool busy
  double longest_hold = 0;  // after so many of its own runs
  double margin = 0;        // by this share of its run time, as workers come free late
  double gain = 0;          // by the time in which λ lets a worker second serve this share more
  double burst = 0;         // by the wait that one in so many requests will find
  double busiest = 0;       // ... where each counts alone as far as this share of the workers bears
  double run_cap = 0;       // ... and no run for more than so many times what requests can wait
  bool others_share = false;  // by the share of worker time that goes to services of several models
  bool planned = false;       // when a pipeline has planned it; what has had worker time goes first
  // burst and others_share count for less
  bool fade_load = false;   // from a load of 0.8 to one of 0.95
  bool fade_alone = false;  // ... but for the square of the efficiency that an item alone has
  bool fade_cost = false;   // where the fixed cost takes 0.4 to 0.5 of what a deadline leaves
  bool long_later = false;  // (gain too) in proportion, where it runs longer than others can wait

  // -- Whom it gives up: requests that would be late even alone, or by window --
  bool window = false;        // who stands in the way of a batch of the target size
  double smaller_target = 0;  // which is no larger than recent ones, or this less efficient
  // As this share of the model's recent requests is rejected, what starts batches before their
  // latest start and smaller_target fade: the largest batches bear the largest load.
  double overload = 0;

  // -- Who is first: the least slack, or --
  bool by_deadline = false;  // the earliest deadline

  // -- What the pool is kept free for --
  bool hold = false;         // the last free worker waits with a batch that makes others late
  bool last_few = false;     // the last free ones do
  bool cap = false;          // a batch on the last free worker is cut to where an item costs least
  double negligible = 0;     // so many late items by item of the batch count as none
  bool best_effort = false;  // work without deadline ends before those who may come need the worker

  // Services of variants and of ensembles pay for worker time what this model's requests lose.
  bool tells = false;

  friend bool operator==(const Rules&, const Rules&) = default;
};

// One of them, by its name in Rules.
struct Rule {
  std::string_view name;
  std::variant<bool Rules::*, double Rules::*> field;
  double most = 1;        // of a number; at least 0, which switches it off
  std::string_view unit;  // of a number
  std::string_view meaning;
  std::string_view source;  // where it comes from: a paper's section, or the file that derives it
};
std::span<const Rule> all_rules();

struct PolicyRow {
  std::string_view policy;
  Rules rules;
};
std::span<const PolicyRow> policy_rows();            // the default first
const Rules* policy_rules(std::string_view policy);  // of its row; nullptr: it has none

// A change of one rule, as on a command line: "hold=off", "margin=0.2". INVALID_ARGUMENT lists the
// names and says which values the rule takes.
absl::Status set_rule(Rules& rules, std::string_view change);
// The changes that make `to` of `from`: {"hold=off", "margin=0.2"}.
std::vector<std::string> rule_changes(const Rules& from, const Rules& to);

}  // namespace fermata::policy
