// When a batch starts, and whom it gives up, as the rules of rules.h say.
#include "policy/batch/rule_batcher.h"

#include <algorithm>
#include <limits>

namespace fermata::policy {
namespace {

// rules.h says what each stands for, docs/trials.md what other values do.
constexpr double kDense = 0.8, kFull = 0.95;  // of the pool's load: fade_load
constexpr double kCheap = 0.4, kDear = 0.5;   // of what a deadline leaves: fade_cost
constexpr double kLossWeight = 1.0 / 1024;    // of a request in the recent ones
constexpr double kBatchWeight = 0.05;         // of a batch in the recent ones
constexpr double kFarFromNow = 1e6;           // items: more than any wait brings
constexpr double kPatient = 2;                // budgets: who can wait for longer is in no hurry
constexpr double kRestTimes = 6;              // as long as all that waits would run

double rising(double x, double from, double to) {
  return from < to ? std::clamp((x - from) / (to - from), 0.0, 1.0) : 1;
}

// What is mostly all of it, without rounding.
Duration part(Duration of, double share) { return share == 1 ? of : of.scaled(share); }

}  // namespace

void RuleBatcher::set_rules(const Rules& rules, Time now, Decisions& out) {
  rules_ = rules;
  retime();
  retarget();
  sparse_ = sparse();
  tell();
  tick(now, out);
}

Cut RuleBatcher::cut(const Moment& m) const {
  if (!rules_.window) return prefix_cut(queue_, times(), m);
  if (const auto all = whole_cut(queue_, times(), m)) return *all;
  return window_cut(queue_, times(), size_to_save(), m);
}

void RuleBatcher::schedule(const Task& head, Time now) {
  const Time latest = head.deadline - times().run(offer_.items + 1);
  offer_.start_at = start(head.arrival, latest, now);
  tell();
  offer_.urgency = rules_.by_deadline ? head.deadline : head.deadline - offer_.run;
  offer_.planned = false;
  if (rules_.planned) follow_plan(head, latest);
}

void RuleBatcher::learn(const Grant& grant) {
  harm_ = grant.harm;
  others_slack_ = grant.others_slack;
  free_at_ = grant.free_at;
  alone_load_ = grant.unbatched;
  burst_ = grant.burst;
  others_share_ = grant.at_any_time;
  pool_load_ = grant.load;
  sparse_ = sparse();
}

// The size at which an item costs least: items of others that are made late, and in overload the
// items that the time is worth to its own model.
size_t RuleBatcher::cap(size_t first, size_t take) const {
  if (!rules_.cap) return take;
  if (!others_slack_.is_infinite()) take = hurried(first, take);
  if (harm_.late.back() == 0) return take;
  const double price = losing() * capacity_;
  size_t best = take;
  double least = std::numeric_limits<double>::infinity();
  for (size_t n = 1; n <= take; ++n) {
    const uint32_t b = static_cast<uint32_t>(queue_.items(first, n));
    const Duration run = times().run(b);
    const double cost = (late(run) + price * run.seconds()) / b;
    if (cost <= least) {
      least = cost;
      best = n;
    }
  }
  return best;
}

void RuleBatcher::ran(uint32_t items) {
  recent_batch_ += kBatchWeight * (items - recent_batch_);
  if (loss_ == 0) return;
  for (uint32_t i = 0; i < items; ++i) loss_ -= kLossWeight * loss_;
  calm_ = calm();
}
void RuleBatcher::refused() {
  loss_ += kLossWeight * (1 - loss_);
  calm_ = calm();
}
void RuleBatcher::retime() {
  least_in_way_ = least_in_way();
  find_early();
}
void RuleBatcher::retarget() {
  target_ = target_size(times(), rate_, budget_);
  capacity_ = efficiency(target_);
  nearly_target_ = 1;
  while (efficiency(nearly_target_) < (1 - rules_.smaller_target) * capacity_) ++nearly_target_;
  load_ = rate_.per_second() / capacity_;
  single_ = std::min(1.0, efficiency(1) / capacity_);
  const double fixed_s = fixed_cost(times(), target_).seconds();
  enough_ = fixed_s * rate_.per_second();
  cheap_ = 1;
  if (rules_.fade_cost) {
    cheap_ -= rising(fixed_s, (budget_.seconds() - fixed_s) * kCheap,
                     (budget_.seconds() - fixed_s) * kDear);
  }
  gap_s_ = rate_.per_second() > 0 ? 1 / rate_.per_second() : kNobodyComes;
  calm_ = calm();
}

double RuleBatcher::sparse() const {
  if (!rules_.fade_load) return 1;
  const double kept = rules_.fade_alone ? single_ * single_ : 0;
  return 1 - rising(pool_load_, kDense, kFull) * (1 - kept);
}

void RuleBatcher::tell() {
  Outlook& outlook = offer_.outlook;
  outlook.load = load_;
  const bool loses = rules_.tells && loss_ > 0;
  outlook.lost = loses ? loss_ * std::min(rate_.per_second(), capacity_) : 0;
}

void RuleBatcher::follow_plan(const Task& head, Time latest) {
  offer_.planned = !head.start_from.is_infinite();
  if (offer_.planned) {
    offer_.start_at = std::min(head.start_from, latest);
    offer_.rule = StartRule::kPlanned;
  }
  // Worker time would be lost with it.
  if (head.begun) offer_.urgency = std::min(offer_.urgency, head.arrival);
  offer_.planned = offer_.planned || head.begun;
}

// Others wait for half of a run and meet it the more often the longer it is: for run(b)² / 2. The
// size at which that is least by item.
uint32_t RuleBatcher::least_in_way() const {
  const auto wait = [this](uint32_t b) {
    const double run_s = times().run(b).seconds();
    return run_s * run_s / b;
  };
  uint32_t best = 1;
  while (best < times().max_batch() && wait(best + 1) < wait(best)) ++best;
  return best;
}

// Of these, how many run though others come, whom they would keep waiting: not those that can
// wait for much longer than is usual here, and for all that waits, in batches of that size and
// with as much of the pool as this key has of its load: others' queues are not known here.
size_t RuleBatcher::hurried(size_t first, size_t take) const {
  if (budget_.is_infinite()) return take;
  const double others = load_ > 0 ? std::max(1.0, pool_load_ / load_) : 1;
  const double item_s = others * times().run(least_in_way_).seconds() / least_in_way_;
  const size_t patient = queue_.first(first, [&](const Task& task, uint64_t items) {
    const double left_s = (task.deadline - free_at_).seconds();
    return left_s > kPatient * budget_.seconds() &&
           left_s > kRestTimes * item_s * static_cast<double>(items);
  });
  const size_t few = std::max<size_t>(1, queue_.most_within(first, least_in_way_));
  return std::min(take, std::max(patient - first, few));
}

// Of other keys, by what the last grant said.
double RuleBatcher::late(Duration run) const {
  const double at = std::min(run.seconds() / harm_.run.seconds(), 1.0) * kHarmSteps;
  const size_t i = static_cast<size_t>(at);
  const double low = i == 0 ? 0 : harm_.late[i - 1];
  return i == kHarmSteps ? low : low + (at - static_cast<double>(i)) * (harm_.late[i] - low);
}

Time RuleBatcher::start(Time came, Time latest, Time now) {
  const auto at_once = [&](StartRule rule) {
    offer_.rule = rule;
    return now;
  };
  if (!rules_.defer) return at_once(StartRule::kAtOnce);
  if (offer_.items >= times().max_batch()) return at_once(StartRule::kFullBatch);
  if (rules_.enough && offer_.items > enough_) return at_once(StartRule::kHeldLongEnough);
  if (rules_.no_mates && (latest - now).seconds() <= gap_s_) {
    return at_once(StartRule::kNoMatesExpected);
  }
  if (rules_.spare > 0 && alone_load_ <= rules_.spare && others_slack_ >= offer_.run) {
    return at_once(StartRule::kSpareWorkers);
  }
  return hold(came, latest, now);
}

// Until the first rule that ends it.
Time RuleBatcher::hold(Time came, Time latest, Time now) {
  const Time wanted = latest - margin(std::max(latest - came, Duration()));
  const bool harmless = rules_.longest_hold > 0 && others_slack_ >= offer_.run;
  const Time at_most = harmless ? came + early_[offer_.items].longest_hold : latest;
  const Time hope = rules_.no_growth ? growth_.hope() : Time::infinite();
  const Time held = std::max(now, std::min(hope, at_most));
  offer_.rule = held < wanted
                    ? hope <= at_most ? StartRule::kNoMatesExpected : StartRule::kHeldLongEnough
                : wanted < latest ? StartRule::kEarly
                                  : StartRule::kLatestStart;
  return std::min(wanted, held);
}

// At most `longest`, which is to start when the head came.
Duration RuleBatcher::margin(Duration longest) const {
  const Early& own_early = early_[offer_.items];
  const Duration worth = Duration::from_seconds(own_early.worth_waiting_for * gap_s_);
  Duration early = std::min(burst_, longest);
  if (rules_.others_share && others_share_ > 0)
    early = std::max(early, longest.scaled(others_share_));
  Duration own =
      std::max(std::min(part(worth, calm_), longest), part(early, sparse_ * cheap_ * calm_));
  if (rules_.long_later && others_slack_ < offer_.run) {
    own = part(own, others_slack_.seconds() / offer_.run.seconds());
  }
  const Duration least = part(own_early.margin, calm_);
  return std::min(std::max(least, own), longest);
}

// The batch for which heads may be dropped.
uint32_t RuleBatcher::size_to_save() const {
  if (rules_.smaller_target == 0) return target_;
  const double least = std::min<double>(nearly_target_, recent_batch_);
  return std::max(1u, static_cast<uint32_t>(least + (target_ - least) * (1 - calm_) + 0.5));
}

void RuleBatcher::find_early() {
  const uint32_t most = times().max_batch();
  early_.assign(most + 1, Early());
  uint32_t grown = 1;
  for (uint32_t b = 1; b <= most; ++b) {
    early_[b].margin = times().run(b).scaled(rules_.margin);
    early_[b].longest_hold = times().run(b).scaled(rules_.longest_hold);
    if (rules_.gain == 0) continue;
    while (grown < most && (1 - rules_.gain) * efficiency(grown + 1) <= efficiency(b)) ++grown;
    early_[b].worth_waiting_for = grown < most ? grown - b : kFarFromNow;
  }
}

}  // namespace fermata::policy
