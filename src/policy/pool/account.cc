#include "policy/pool/account.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "policy/batch/instants.h"

namespace fermata::policy {
namespace {

// What of those with a deadline may come at once, by what comes on average.
constexpr double kSurge = 3;
constexpr double kEnough = 0.04;  // of what those with a deadline can wait
constexpr double kForEver = 1e6;  // seconds
constexpr double kSaved = 0.5;    // of what one key loses, by one worker more

// Of a key whose arrivals have stopped, nothing tells: its silence counts instead.
double expected_rate(const Outlook& outlook, Time now) {
  const double silent = (now - outlook.seen).seconds();
  return silent * outlook.rate > kFewGaps ? kFewGaps / silent : outlook.rate;
}

// Of `items` whose last moments are spread from `first` to `last`, those before `until`.
double between(uint32_t items, Time first, Time last, Time start, Time until) {
  if (first >= until || last < start) return 0;
  if (last <= first) return items;
  const double span = (last - first).seconds();
  const double lost =
      (std::min(last, until) - std::max(first, start)).seconds() / span * (items - 1) +
      (first >= start);
  return std::min<double>(lost, items);
}

// The least slack of the other keys to which something may still come; infinite for none.
Duration tightest(const PoolView& view, KeyId key, Time now) {
  Duration slack = Duration::infinite();
  for (const Offer& offer : view.offers()) {
    const Outlook& outlook = offer.outlook;
    if (offer.key == key || outlook.slack >= slack || !has_come_lately(outlook, now)) continue;
    slack = outlook.slack;
  }
  return slack;
}

// Calls visit(other) for every other worker as fast as it that may get batches.
template <class Visit>
void each_other(const PoolView& view, WorkerId worker, const Visit& visit) {
  const uint32_t alike = view.alike(view.worker(worker).type);
  for (size_t w = 0; w < view.workers().size(); ++w) {
    const WorkerView& other = view.workers()[w];
    if (w != worker.index() && !other.away && (alike >> other.type & 1) != 0) visit(other);
  }
}

// Of these, how many are free by then, and nobody has been granted them.
uint32_t free_by(const PoolView& view, WorkerId worker, Time then) {
  uint32_t free = 0;
  each_other(view, worker,
             [&](const WorkerView& other) { free += !other.granted && other.free_at <= then; });
  return free;
}

// Calls visit(outlook, rate, batched, unbatched) for every key that has deadlines: how many are
// expected to come a second, and the workers that these keep busy, see Load.
template <class Visit>
void each_expected(const PoolView& view, Time now, const Visit& visit) {
  for (const Offer& offer : view.offers()) {
    const Outlook& outlook = offer.outlook;
    if (outlook.slack.is_infinite() || outlook.rate == 0) continue;
    const double rate = expected_rate(outlook, now);
    visit(outlook, rate, outlook.load * rate / outlook.rate, outlook.alone.seconds() * rate);
  }
}

// As long as they come: a gap of three times the usual length is no sign that they will not.
Work expected_work(const PoolView& view, Time now) {
  Work work;
  for (const Offer& offer : view.offers()) {
    const Outlook& outlook = offer.outlook;
    if (outlook.slack.is_infinite() || !has_come_lately(outlook, now)) continue;
    work.add(outlook.rate, outlook.load, outlook.variation,
             view.serving() * (outlook.slack + outlook.alone).seconds());
  }
  return work;
}

}  // namespace

void Work::add(double rate, double busy, double variation, double deadline_s) {
  if (busy <= 0) return;
  const double run_s = busy / rate;
  const double clumps = rate * std::min(variation, std::max(1.0, deadline_s / run_s));
  Runs& runs = runs_[static_cast<size_t>(std::clamp(std::ilogb(run_s) + 32, 0, 63))];
  runs.rate += clumps;
  runs.variance += clumps * run_s * run_s;
  busy_ += busy;
  clumped_ += clumps * run_s;
}

// What waits is a random walk that the workers' spare time keeps down: it is above x with
// probability exp(-2 spare x / variance), where all workers are busy; that they are is likely as
// the normal distribution says of the number that the work would keep busy.
Duration Work::burst(double workers, Duration slack, double one_in, double run_cap) const {
  if (busy_ <= 0 || one_in <= 0) return Duration();
  const double spare = workers - busy_;
  if (spare <= 0) return Duration::from_seconds(kForEver);
  if (clumped_ <= 0) return Duration();
  const double most = run_cap > 0 ? run_cap * slack.seconds() : kForEver;
  double variance = 0;
  for (const Runs& runs : runs_) variance += std::min(runs.variance, runs.rate * most * most);
  const double all_busy = portable_erfc(spare / std::sqrt(2 * clumped_)) / 2;
  if (all_busy * one_in <= 1) return Duration();
  const double waits = variance / (2 * spare * workers) * portable_log(all_busy * one_in);
  return Duration::from_seconds(std::min(waits, kForEver));
}

bool has_come_lately(const Outlook& outlook, Time now) {
  return has_come_lately(outlook.rate, outlook.seen, now);
}

double made_late(const PoolView& view, KeyId key, uint32_t type, Time start, Time until,
                 uint32_t left) {
  if (until <= start) return 0;
  double late = 0, offered = 0;
  view.each_pressed(until - start, until, [&](const Offer& offer) {
    const Outlook& outlook = offer.outlook;
    if (offer.key == key || outlook.slack.is_infinite() || (offer.types >> type & 1) == 0) return;
    const Duration short_of = until - start - outlook.slack;
    if (short_of > Duration()) {
      const double rate = expected_rate(outlook, start);
      const double loose = outlook.loose_rate > 0 ? rate * outlook.loose_rate / outlook.rate : 0;
      late += (rate - loose) * short_of.seconds() +
              loose * std::max(0.0, (until - start - outlook.loose_slack).seconds());
      offered += rate * outlook.alone.seconds();
    }
    if (offer.items > 0 && !offer.best_effort) {
      late += between(outlook.waiting, outlook.first_by, outlook.last_by, start, until);
    }
  });
  double blocked = 1;
  for (uint32_t n = 1; n <= left; ++n) blocked = offered * blocked / (n + offered * blocked);
  return late * blocked;
}

Load load(const PoolView& view, Time now, const Rules& rules) {
  double batched = 0, unbatched = 0;
  each_expected(view, now, [&](const Outlook&, double, double own_batched, double own_unbatched) {
    batched += own_batched;
    unbatched += own_unbatched;
  });
  const double workers = std::max(view.serving(), 1u), most = rules.busiest * workers;
  double alone = 1;  // how far each is from its share of a batch of the target size
  if (unbatched > most) alone = std::clamp((most - batched) / (unbatched - batched), 0.0, 1.0);
  Work work;
  each_expected(view, now,
                [&](const Outlook& outlook, double rate, double own_batched, double own_unbatched) {
                  const double deadline_s = workers * (outlook.slack + outlook.alone).seconds();
                  work.add(rate, own_batched + alone * (own_unbatched - own_batched),
                           outlook.variation, deadline_s);
                });
  return {batched / workers, unbatched / workers, work, workers};
}

double price(const PoolView& view, KeyId key, Time now) {
  double most = 0;
  for (const Offer& offer : view.offers()) {
    const Outlook& outlook = offer.outlook;
    if (offer.key == key || outlook.lost == 0 || outlook.rate == 0) continue;
    most = std::max(most, outlook.lost * expected_rate(outlook, now) / outlook.rate);
  }
  return kSaved * most;
}

Time needed_by(const PoolView& view, KeyId key, WorkerId worker, Time now) {
  const Duration slack = tightest(view, key, now);
  if (slack.is_infinite() || free_by(view, worker, now + slack) > 0) return Time::infinite();
  return now + slack;
}

Time next_free(const PoolView& view, WorkerId worker) {
  Time next = Time::infinite();
  each_other(view, worker, [&](const WorkerView& other) { next = std::min(next, other.free_at); });
  return next;
}

Time free_again_by(const PoolView& view, KeyId key, WorkerId worker, Time now) {
  const Duration slack = tightest(view, key, now);
  if (slack.is_infinite()) return Time::infinite();
  const Work work = expected_work(view, now);
  const uint32_t others = free_by(view, worker, now + slack);
  if (others > 0 && work.burst(others, slack, kOneIn, kRunCap) <= slack.scaled(kEnough))
    return Time::infinite();
  return now + slack.scaled(1 / (1 + kSurge * work.busy() / std::max(view.serving(), 1u)));
}

bool others_bear(const PoolView& view, KeyId key, WorkerId worker, Time now) {
  const Duration slack = tightest(view, key, now);
  if (slack.is_infinite()) return true;
  bool only = true;
  for (size_t w = 0; w < view.workers().size(); ++w) {
    const WorkerView& other = view.workers()[w];
    const bool may_run = !other.away && (view.offer(key).types >> other.type & 1) != 0;
    only = only && (w == worker.index() || !may_run);
  }
  if (only) return true;
  const uint32_t others = free_by(view, worker, now + slack);
  return others > 0 && expected_work(view, now).burst(others, slack, kOneIn, kRunCap) <= slack;
}

}  // namespace fermata::policy
