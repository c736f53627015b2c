#include "policy/batch/rule_batcher.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "estimate/growth.h"
#include "policy/batch/queue_batcher.h"
#include "policy/batch/window.h"

namespace fermata::policy {
namespace {

// rules.h says what each stands for, docs/trials.md what other values do.
constexpr double kDense = 0.8, kFull = 0.95;  // of the pool's load: fade_load
constexpr double kCheap = 0.4, kDear = 0.5;   // of what a deadline leaves: fade_cost
constexpr double kLossWeight = 1.0 / 1024;    // of a request in the recent ones
constexpr double kBatchWeight = 0.05;         // of a batch in the recent ones
constexpr double kFarFromNow = 1e6;           // items: more than any wait brings
constexpr double kNobodyComes = 1e9;          // seconds
constexpr double kPatient = 2;                // budgets: who can wait for longer is in no hurry
constexpr double kRestTimes = 6;              // as long as all that waits would run

class RuleBatcher final : public QueueBatcher {
 public:
  RuleBatcher(const Rules& rules, KeyId key, KeyInfo info, DelayBound delay)
      : QueueBatcher(key, std::move(info), delay), rules_(rules) {
    retime();
    retarget();
  }

  void set_rules(const Rules& rules, Time now, Decisions& out) override {
    rules_ = rules;
    retime();
    retarget();
    sparse_ = sparse();
    tell(outlook());
    tick(now, out);
  }

 protected:
  Cut cut(const Moment& m) override {
    if (!rules_.window) return prefix_cut(queue(), times(), m);
    if (const auto all = whole_cut(queue(), times(), m)) return *all;
    return window_cut(queue(), times(), size_to_save(), m);
  }

  void schedule(const Task& head, Time now, Offer& offer) override {
    const Time latest = head.deadline - times().run(offer.items + 1);
    offer.start_at = start(offer, head.arrival, latest, now);
    tell(offer.outlook);
    offer.urgency = rules_.by_deadline ? head.deadline : head.deadline - offer.run;
    offer.planned = false;
    if (rules_.planned) follow_plan(head, latest, offer);
  }

  void learned(const Grant& grant) override {
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
  size_t cap(size_t first, size_t take) override {
    if (!rules_.cap) return take;
    if (!others_slack_.is_infinite()) take = hurried(first, take);
    if (harm_.late.back() == 0) return take;
    const double price = losing() * capacity_;
    size_t best = take;
    double least = std::numeric_limits<double>::infinity();
    for (size_t n = 1; n <= take; ++n) {
      const uint32_t b = static_cast<uint32_t>(queue().items(first, n));
      const Duration run = times().run(b);
      const double cost = (late(run) + price * run.seconds()) / b;
      if (cost <= least) {
        least = cost;
        best = n;
      }
    }
    return best;
  }

  void ran(uint32_t items) override {
    recent_batch_ += kBatchWeight * (items - recent_batch_);
    if (loss_ == 0) return;
    for (uint32_t i = 0; i < items; ++i) loss_ -= kLossWeight * loss_;
    calm_ = calm();
  }
  void refused() override {
    loss_ += kLossWeight * (1 - loss_);
    calm_ = calm();
  }
  void holds(size_t waiting, Time now) override { growth_.length(waiting, now, tasks_rate()); }

  void retime() override {
    least_in_way_ = least_in_way();
    find_early();
  }
  void retarget() override {
    target_ = target_size(times(), rate(), budget());
    capacity_ = efficiency(target_);
    nearly_target_ = 1;
    while (efficiency(nearly_target_) < (1 - rules_.smaller_target) * capacity_) ++nearly_target_;
    load_ = rate().per_second() / capacity_;
    alone_ = std::min(1.0, efficiency(1) / capacity_);
    const double fixed_s = fixed_cost(times(), target_).seconds();
    enough_ = fixed_s * rate().per_second();
    cheap_ = 1;
    if (rules_.fade_cost) {
      cheap_ -= rising(fixed_s, (budget().seconds() - fixed_s) * kCheap,
                       (budget().seconds() - fixed_s) * kDear);
    }
    gap_s_ = rate().per_second() > 0 ? 1 / rate().per_second() : kNobodyComes;
    calm_ = calm();
  }

 private:
  static double rising(double x, double from, double to) {
    return from < to ? std::clamp((x - from) / (to - from), 0.0, 1.0) : 1;
  }
  double efficiency(uint32_t b) const { return b / times().run(b).seconds(); }
  // How far the rejections are from what switches early starts off: 1 at that.
  double losing() const { return rules_.overload > 0 ? std::min(1.0, loss_ / rules_.overload) : 0; }
  double calm() const {
    return rules_.overload > 0 ? std::max(0.0, 1 - loss_ / rules_.overload) : 1;
  }
  double sparse() const {
    if (!rules_.fade_load) return 1;
    const double kept = rules_.fade_alone ? alone_ * alone_ : 0;
    return 1 - rising(pool_load_, kDense, kFull) * (1 - kept);
  }

  void tell(Outlook& outlook) const {
    outlook.load = load_;
    const bool loses = rules_.tells && loss_ > 0;
    outlook.lost = loses ? loss_ * std::min(rate().per_second(), capacity_) : 0;
  }

  static void follow_plan(const Task& head, Time latest, Offer& offer) {
    offer.planned = !head.start_from.is_infinite();
    if (offer.planned) {
      offer.start_at = std::min(head.start_from, latest);
      offer.rule = StartRule::kPlanned;
    }
    // Worker time would be lost with it.
    if (head.begun) offer.urgency = std::min(offer.urgency, head.arrival);
    offer.planned = offer.planned || head.begun;
  }

  // Others wait for half of a run and meet it the more often the longer it is: for run(b)² / 2. The
  // size at which that is least by item.
  uint32_t least_in_way() const {
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
  size_t hurried(size_t first, size_t take) const {
    if (budget().is_infinite()) return take;
    const double others = load_ > 0 ? std::max(1.0, pool_load_ / load_) : 1;
    const double item_s = others * times().run(least_in_way_).seconds() / least_in_way_;
    const size_t patient = queue().first(first, [&](const Task& task, uint64_t items) {
      const double left_s = (task.deadline - free_at_).seconds();
      return left_s > kPatient * budget().seconds() &&
             left_s > kRestTimes * item_s * static_cast<double>(items);
    });
    const size_t few = std::max<size_t>(1, queue().most_within(first, least_in_way_));
    return std::min(take, std::max(patient - first, few));
  }

  // Of other keys, by what the last grant said.
  double late(Duration run) const {
    const double at = std::min(run.seconds() / harm_.run.seconds(), 1.0) * kHarmSteps;
    const size_t i = static_cast<size_t>(at);
    const double low = i == 0 ? 0 : harm_.late[i - 1];
    return i == kHarmSteps ? low : low + (at - static_cast<double>(i)) * (harm_.late[i] - low);
  }

  // Tasks a second, as large as those that wait.
  double tasks_rate() const {
    const size_t tasks = queue().size();
    const uint64_t items = queue().items_from(0);
    if (tasks == items) [[likely]]
      return rate().per_second();
    return rate().per_second() * static_cast<double>(tasks) / static_cast<double>(items);
  }

  Time start(Offer& offer, Time came, Time latest, Time now) const {
    const auto at_once = [&](StartRule rule) {
      offer.rule = rule;
      return now;
    };
    if (!rules_.defer) return at_once(StartRule::kAtOnce);
    if (offer.items >= times().max_batch()) return at_once(StartRule::kFullBatch);
    if (rules_.enough && offer.items > enough_) return at_once(StartRule::kHeldLongEnough);
    if (rules_.no_mates && (latest - now).seconds() <= gap_s_) {
      return at_once(StartRule::kNoMatesExpected);
    }
    if (rules_.spare > 0 && alone_load_ <= rules_.spare && others_slack_ >= offer.run) {
      return at_once(StartRule::kSpareWorkers);
    }
    return hold(offer, came, latest, now);
  }

  // Until the first rule that ends it.
  Time hold(Offer& offer, Time came, Time latest, Time now) const {
    const Time wanted = latest - margin(offer, std::max(latest - came, Duration()));
    const bool harmless = rules_.longest_hold > 0 && others_slack_ >= offer.run;
    const Time at_most = harmless ? came + early_[offer.items].longest_hold : latest;
    const Time hope = rules_.no_growth ? growth_.hope() : Time::infinite();
    const Time held = std::max(now, std::min(hope, at_most));
    offer.rule = held < wanted
                     ? hope <= at_most ? StartRule::kNoMatesExpected : StartRule::kHeldLongEnough
                 : wanted < latest ? StartRule::kEarly
                                   : StartRule::kLatestStart;
    return std::min(wanted, held);
  }

  // What is mostly all of it, without rounding.
  static Duration part(Duration of, double share) { return share == 1 ? of : of.scaled(share); }

  // At most `longest`, which is to start when the head came.
  Duration margin(const Offer& offer, Duration longest) const {
    const Early& own_early = early_[offer.items];
    const Duration worth = Duration::from_seconds(own_early.worth_waiting_for * gap_s_);
    Duration early = std::min(burst_, longest);
    if (rules_.others_share && others_share_ > 0)
      early = std::max(early, longest.scaled(others_share_));
    Duration own =
        std::max(std::min(part(worth, calm_), longest), part(early, sparse_ * cheap_ * calm_));
    if (rules_.long_later && others_slack_ < offer.run) {
      own = part(own, others_slack_.seconds() / offer.run.seconds());
    }
    const Duration least = part(own_early.margin, calm_);
    return std::min(std::max(least, own), longest);
  }

  // The batch for which heads may be dropped.
  uint32_t size_to_save() const {
    if (rules_.smaller_target == 0) return target_;
    const double least = std::min<double>(nearly_target_, recent_batch_);
    return std::max(1u, static_cast<uint32_t>(least + (target_ - least) * (1 - calm_) + 0.5));
  }

  void find_early() {
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

  Rules rules_;
  uint32_t target_ = 1, nearly_target_ = 1;
  double capacity_ = 0;  // items a second in batches of the target size
  double enough_ = 0;    // items that come in the time of a batch's fixed cost
  struct Early {
    double worth_waiting_for = 0;  // so many more items make a difference
    Duration margin, longest_hold;
  };
  std::vector<Early> early_;     // by batch size
  double gap_s_ = kNobodyComes;  // 1/λ
  uint32_t least_in_way_ = 1;
  estimate::QueueGrowth growth_;
  double recent_batch_ = 1;
  double loss_ = 0;    // share of the recent requests that were refused
  double calm_ = 1;    // see calm()
  double load_ = 0;    // see Outlook
  double alone_ = 1;   // efficiency of one item, by that of the target
  double cheap_ = 1;   // how far the own fixed cost lets batches start early
  double sparse_ = 1;  // how far the pool's load lets them
  // What the last grant said.
  Harm harm_;
  Duration others_slack_ = Duration::infinite();
  Time free_at_;
  double pool_load_ = 0, alone_load_ = std::numeric_limits<double>::infinity();
  Duration burst_;
  double others_share_ = 0;
};

}  // namespace

std::unique_ptr<Batcher> make_batcher(const Rules& rules, KeyId key, KeyInfo info,
                                      DelayBound delay) {
  return std::make_unique<RuleBatcher>(rules, key, std::move(info), delay);
}

}  // namespace fermata::policy
