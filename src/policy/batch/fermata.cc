#include "policy/batch/fermata.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "estimate/growth.h"
#include "policy/batch/window.h"

namespace fermata::policy {
namespace {

// fermata.h says what each stands for, docs/trials.md what other values do.
constexpr double kLeastMargin = 0.1;  // of ℓ(b)
constexpr double kNotWorth = 0.1;     // of items per worker second
constexpr double kRoom = 0.25;        // of the pool's load, were each item alone; of a worker
// Of the pool's load: from where to where it no longer starts early.
constexpr double kDense = 0.8, kFull = 0.95;
constexpr double kCheap = 0.4, kDear = 0.5;  // fixed cost of a batch by what a deadline leaves
constexpr double kOverload = 0.2;            // of the requests
constexpr double kLossWeight = 1.0 / 1024;   // of a request in the recent ones
constexpr double kBatchWeight = 0.05;        // of a batch in the recent ones
constexpr double kPriceInCalm = 0.01;        // of the items that a worker second serves
constexpr double kFarFromNow = 1e6;          // items: more than any wait brings
constexpr double kNobodyComes = 1e9;         // seconds

class Fermata final : public QueueBatcher {
 public:
  Fermata(KeyId key, KeyInfo info, DelayBound delay) : QueueBatcher(key, std::move(info), delay) {
    retarget();
  }

  void see(const PoolView& pool) override { pool_ = &pool; }

 protected:
  // Beside an idle worker nobody is given up for a larger batch.
  Cut cut(const Moment& m) override {
    if (pool_ != nullptr && pool_->any_idle(offer().types)) return prefix_cut(queue(), times(), m);
    return window_cut(queue(), times(), size_to_save(), m);
  }

  void schedule(Time deadline, Time now, Offer& offer) override {
    const Time latest = deadline - times().run(offer.items + 1);
    const bool full = offer.items >= times().max_batch();
    const bool may_grow = !full && (latest - now).seconds() > gap_s_;
    const bool room = room_ && others_slack_ >= offer.run;
    offer.rule = full        ? StartRule::kFullBatch
                 : !may_grow ? StartRule::kNoMatesExpected
                             : StartRule::kSpareWorkers;
    offer.start_at = may_grow && !room ? start(offer, latest, now) : now;
    const Task& head = queue()[0];
    wanted_ = offer.start_at = std::max(offer.start_at, std::min(now, wanted_));
    offer.planned = !head.start_from.is_infinite();
    if (offer.planned) {
      offer.start_at = std::min(head.start_from, latest);
      offer.rule = StartRule::kPlanned;
    }
    offer.outlook.load = load_;
    offer.outlook.lost = loss_ * std::min(rate().per_second(), capacity_);
    offer.urgency = deadline - offer.run;
    // Worker time would be lost with it.
    if (head.begun) offer.urgency = std::min(offer.urgency, head.arrival);
    offer.planned = offer.planned || head.begun;
  }

  void learned(const Grant& grant) override {
    wanted_ = Time::infinite();
    pool_wait_ = grant.wait;
    harm_ = grant.harm;
    others_slack_ = grant.others_slack;
    room_ = grant.singly <= kRoom;
    burst_ = grant.burst;
    early_ = grant.at_any_time;
    sparse_ = 1 - rising(grant.load, kDense, kFull) * (1 - alone_ * alone_);
  }

  // The size at which an item costs least: items of others that are made late, and the items that
  // the time is worth to its own model, all of them in overload, next to none in calm.
  size_t cap(size_t first, size_t take) override {
    if (harm_.late.back() == 0) return take;
    const double theta = kPriceInCalm + std::min(1.0, loss_ / kOverload);
    const double price = theta * capacity_;
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
    for (uint32_t i = 0; i < items; ++i) loss_ -= kLossWeight * loss_;
  }
  void refused() override { loss_ += kLossWeight * (1 - loss_); }
  void holds(size_t waiting, Time now) override { growth_.length(waiting, now, tasks_rate()); }

  void retarget() override {
    target_ = target_size(times(), rate(), budget());
    nearly_target_ = 1;
    capacity_ = efficiency(target_);
    while (efficiency(nearly_target_) < (1 - kNotWorth) * capacity_) ++nearly_target_;
    load_ = rate().per_second() / capacity_;
    alone_ = std::min(1.0, efficiency(1) / capacity_);
    const double fixed_s = fixed_cost(times(), target_).seconds();
    spare_ = 1 - rising(fixed_s, (budget().seconds() - fixed_s) * kCheap,
                        (budget().seconds() - fixed_s) * kDear);
    gap_s_ = rate().per_second() > 0 ? 1 / rate().per_second() : kNobodyComes;
    find_worth_waiting_for();
  }

 private:
  static double rising(double x, double from, double to) {
    return from < to ? std::clamp((x - from) / (to - from), 0.0, 1.0) : 1;
  }
  double efficiency(uint32_t b) const { return b / times().run(b).seconds(); }
  double calm() const { return std::max(0.0, 1 - loss_ / kOverload); }

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

  // Of a batch that may grow.
  Time start(Offer& offer, Time latest, Time now) const {
    const Time came = queue()[0].arrival;
    const Time wanted = latest - margin(offer, latest - came);
    const bool harmless = others_slack_ >= offer.run;
    const Time at_most = harmless ? came + offer.run.scaled(1 / kRoom) : latest;
    const Time hope = growth_.hope();
    const Time held = std::max(now, std::min(hope, at_most));
    offer.rule = held < wanted
                     ? hope <= at_most ? StartRule::kNoMatesExpected : StartRule::kHeldLongEnough
                 : wanted < latest ? StartRule::kEarly
                                   : StartRule::kLatestStart;
    return std::min(wanted, held);
  }

  // At most `longest`, which is to start when the head came. What it waits for a worker is counted
  // from its start and widens the next margins: an earlier start would make them grow by
  // themselves. What runs longer than others can wait starts early for its own sake by less.
  Duration margin(const Offer& offer, Duration longest) const {
    const Duration worth = Duration::from_seconds(worth_waiting_for_[offer.items] * gap_s_);
    const double patience = std::min(1.0, others_slack_.seconds() / offer.run.seconds());
    const Duration early = std::max(std::min(burst_, longest), longest.scaled(early_));
    const double calmness = calm();
    const Duration own = std::max(std::min(worth.scaled(calmness), longest),
                                  early.scaled(sparse_ * spare_ * calmness));
    const Duration least = std::max(offer.run.scaled(kLeastMargin), pool_wait_).scaled(calmness);
    return std::min(std::max(least, own.scaled(patience)), longest);
  }

  // The batch for which heads may be dropped.
  uint32_t size_to_save() const {
    const double least = std::min<double>(nearly_target_, recent_batch_);
    return std::max(1u, static_cast<uint32_t>(least + (target_ - least) * (1 - calm()) + 0.5));
  }

  // By batch size: how many more items make a difference.
  void find_worth_waiting_for() {
    const uint32_t most = times().max_batch();
    worth_waiting_for_.assign(most + 1, 0);
    uint32_t grown = 1;
    for (uint32_t b = 1; b <= most; ++b) {
      while (grown < most && (1 - kNotWorth) * efficiency(grown + 1) <= efficiency(b)) ++grown;
      worth_waiting_for_[b] = grown < most ? grown - b : kFarFromNow;
    }
  }

  uint32_t target_ = 1, nearly_target_ = 1;
  double capacity_ = 0;  // items a second in batches of the target size
  std::vector<double> worth_waiting_for_;
  double gap_s_ = kNobodyComes;  // 1/λ
  estimate::QueueGrowth growth_;
  double recent_batch_ = 1;
  double loss_ = 0;  // share of the recent requests that were refused
  Duration pool_wait_;
  Harm harm_;
  Duration others_slack_ = Duration::infinite();
  const PoolView* pool_ = nullptr;
  // From when on it has wanted to start since it last did; what it waits is counted from there, so
  // not from before it wanted to.
  Time wanted_ = Time::infinite();
  double load_ = 0;    // see Outlook
  bool room_ = false;  // for every item alone
  double alone_ = 1;   // efficiency of one item, by that of the target
  Duration burst_;     // see Load
  double early_ = 0;   // see Grant::at_any_time
  double sparse_ = 1;  // how far the pool's load lets batches start early
  double spare_ = 0;   // how far the own fixed cost lets them
};

}  // namespace

std::unique_ptr<Batcher> make_fermata(KeyId key, KeyInfo info, DelayBound delay) {
  return std::make_unique<Fermata>(key, std::move(info), delay);
}

}  // namespace fermata::policy
