#include <algorithm>

#include "absl/algorithm/container.h"
#include "policy/batch/instants.h"
#include "policy/ensemble/ensemble_lookahead.h"

namespace fermata::policy {
namespace {

constexpr size_t kStarts = 6;           // heads of a batch that are compared for what they earn
constexpr double kLeastWorth = 0.05;    // of any answer, where all are served
constexpr double kBeforeAll = 1e9;      // seconds of urgency
constexpr double kShorterFirst = 1e-3;  // decides between equal deadlines
constexpr double kUtilityParts =
    1e12;  // of utility, that are summed as integers: in any order the same

}  // namespace

double EnsembleLookahead::worth(const Item& item, plan::Subset more, Time finish) const {
  double gain = item.utility[item.has | more] - item.utility[item.has];
  if (item.serve_all && item.has == 0) gain = std::max(gain, kLeastWorth);
  if (finish <= item.deadline) return gain;
  // With an answer it ends at its deadline.
  if (!item.serve_all || item.has != 0) return 0;
  const double slo = item.slo.seconds();
  return gain * slo / (slo + (finish - item.deadline).seconds());
}

// The first of those that wait for a model, so many, whom it could still answer. Into seen_.
void EnsembleLookahead::see(Model& model, const LatencyTable& latency, Time now, size_t most) {
  const std::vector<Wait>& waiting = model.waiting;
  // No worker can answer it on time from now on.
  const auto is_gone = [&](const Wait& wait) {
    return now + model.fastest > wait.deadline && !may_be_late(wait);
  };
  while (model.gone < waiting.size() && is_gone(waiting[model.gone])) ++model.gone;
  seen_.clear();
  const Time alone = now + latency(1);
  for (uint32_t p = model.gone; p < waiting.size() && seen_.size() < most; ++p) {
    const Wait& wait = waiting[p];
    if (wait.next > now) break;
    if (wait.arrival > now || (alone > wait.deadline && !may_be_late(wait))) continue;
    seen_.push_back({p, 0});
  }
}

// What all of them earn who are on time, up to each.
void EnsembleLookahead::sum_earned(const Model& model, Time now) {
  int64_t sum = 0;
  for (Seen& seen : seen_) {
    const Wait& wait = model.waiting[seen.place];
    seen.before = sum;
    sum += static_cast<int64_t>(worth(items_[wait.item], wait.bit, now) * kUtilityParts);
  }
  seen_.push_back({0, sum});
}

// The batch whose first is one of seen_: as many more as leave that one on time, and where it is
// late all who can be on time. Into taken_.
void EnsembleLookahead::take(const Model& model, size_t from, const LatencyTable& latency,
                             Time now) {
  taken_.clear();
  Time limit = Time::infinite();
  for (size_t n = from; n < seen_.size() && taken_.size() < latency.max_batch(); ++n) {
    const Wait& wait = model.waiting[seen_[n].place];
    const Time finish = now + latency(static_cast<uint32_t>(taken_.size()) + 1);
    if (finish > limit) break;
    if (finish > wait.deadline && !may_be_late(wait)) continue;
    if (n == from && finish <= wait.deadline) limit = wait.deadline;
    taken_.push_back(seen_[n].place);
  }
}

void EnsembleLookahead::consider(const Move& move) {
  if (found_ && move.rank >= best_move_.rank) return;
  best_move_ = move;
  found_ = true;
}

// Of a query's models the shorter runs first: what it has by then may be enough when others have
// come.
double EnsembleLookahead::urgency(const Wait& head, Time now, Duration run) const {
  const bool late = head.deadline <= start_;
  return (head.deadline - now).seconds() + kShorterFirst * run.seconds() - (late ? kBeforeAll : 0);
}

// The batches of a model that could run next.
void EnsembleLookahead::moves_of(uint32_t m, uint32_t worker, Time now) {
  Model& model = models_[m];
  const LatencyTable& latency = this->latency(model, worker);
  const size_t starts = playing_.by_earnings ? kStarts : 1;
  if (found_ && !playing_.by_earnings) {
    see(model, latency, now, 1);
    if (seen_.empty()) return;
    const Wait& head = model.waiting[seen_[0].place];
    if (urgency(head, now, latency(1)) >= best_move_.rank) return;
  }
  see(model, latency, now,
      any_serve_all_ ? model.waiting.size() : latency.max_batch() + starts - 1);
  if (seen_.empty()) return;
  const auto seen = static_cast<uint32_t>(seen_.size());
  if (playing_.by_earnings) sum_earned(model, now);
  for (uint32_t from = 0; from < std::min<size_t>(starts, seen); ++from) {
    const Wait& head = model.waiting[seen_[from].place];
    const bool in_time = now + latency(1) <= head.deadline;
    Move move{m, from};
    uint32_t items = std::min(seen - from, latency.max_batch());
    if (!in_time) {
      take(model, from, latency, now);
      items = static_cast<uint32_t>(taken_.size());
    } else if (now + latency(items) > head.deadline) {
      items = std::min(items, latency.largest_within(head.deadline - now));
    }
    move.run = latency(items);
    if (!playing_.by_earnings || head.deadline <= start_) {
      move.rank = urgency(head, now, move.run);
      return consider(move);
    }
    double earned =
        static_cast<double>(seen_[from + items].before - seen_[from].before) / kUtilityParts;
    if (!in_time) {
      earned = 0;
      for (const uint32_t p : taken_) {
        const Wait& wait = model.waiting[p];
        earned += worth(items_[wait.item], wait.bit, now + move.run);
      }
    }
    move.rank = -earned / move.run.seconds();
    consider(move);
  }
}

bool EnsembleLookahead::best_move(uint32_t worker, Time now) {
  found_ = false;
  for (uint32_t m = 0; m < models_.size(); ++m) moves_of(m, worker, now);
  return found_;
}

Time EnsembleLookahead::run(uint32_t worker, Time now) {
  const Move& move = best_move_;
  Model& model = models_[move.model];
  const LatencyTable& latency = this->latency(model, worker);
  see(model, latency, now, any_serve_all_ ? model.waiting.size() : latency.max_batch() + move.from);
  take(model, move.from, latency, now);
  const Time finish = now + move.run;
  const double seconds = move.run.seconds() / static_cast<double>(taken_.size()) *
                         time_.seconds_of(problem_->workers[worker].type);
  const bool first = worker == problem_->worker && now == start_ && !started_;
  if (first) {
    started_ = true;
    played_.model = move.model;
    played_.run = move.run;
  }
  for (const uint32_t p : taken_) {
    const Wait& wait = model.waiting[p];
    Item& item = items_[wait.item];
    const double net = worth(item, wait.bit, finish) - item.charged_price * seconds;
    played_.value += time_.free() ? std::max(0.0, net) : net;
    item.has |= wait.bit;
    item.finish = std::max(item.finish, finish);
    if (first && item.real) played_.queries.push_back(wait.item);
  }
  forget_taken(model);
  return finish;
}

void EnsembleLookahead::forget_taken(Model& model) {
  std::vector<Wait>& waiting = model.waiting;
  if (taken_.front() == model.gone && taken_.back() - taken_.front() + 1 == taken_.size()) {
    model.gone += static_cast<uint32_t>(taken_.size());
    return;
  }
  size_t kept = taken_.front();
  auto taken = taken_.begin();
  for (size_t p = kept; p < waiting.size(); ++p) {
    if (taken != taken_.end() && *taken == p) {
      ++taken;
    } else {
      waiting[kept++] = waiting[p];
    }
  }
  waiting.resize(kept);
}

// Nobody is in a batch before it has come.
Time EnsembleLookahead::next_arrival(Time after) {
  while (arrived_ < arrivals_.size() && arrivals_[arrived_] <= after) ++arrived_;
  return arrived_ < arrivals_.size() ? arrivals_[arrived_] : Time::infinite();
}

double EnsembleLookahead::play(Style style) {
  playing_ = style;
  clear_waiting();
  arrivals_.clear();
  arrived_ = 0;
  for (size_t n = 0; n < by_deadline_.size(); ++n) {
    Item& item = items_[by_deadline_[n]];
    item.has = item.had;
    item.named = item.had | named_[n];
    item.finish = start_;
    wait_for(by_deadline_[n], named_[n]);
    if (named_[n] != 0 && item.arrival > start_) arrivals_.push_back(item.arrival);
  }
  absl::c_sort(arrivals_);
  set_waiting();
  play_.clear(problem_->worker_types.size());
  for (uint32_t w = 0; w < problem_->workers.size(); ++w) {
    const auto& worker = problem_->workers[w];
    const Time free_at = std::max(worker.free_at, start_ + Duration::nanos(1));
    play_.add(worker.type, w, w == problem_->worker ? start_ : free_at);
  }
  played_.model.reset();
  played_.queries.clear();
  played_.value = 0;
  started_ = false;
  const auto is_done = [](const Model& model) { return model.gone == model.waiting.size(); };
  play_.run(
      [&](uint32_t worker, Time now) {
        ++turns_;
        const bool found =
            best_move(worker, now) || (name_for_nothing(now) && best_move(worker, now));
        if (found) return std::optional(run(worker, now));
        if (absl::c_all_of(models_, is_done) && !may_name_more(now)) play_.end();
        return std::optional<Time>();
      },
      [this](Time now) { return next_arrival(now); });
  time_.set_free(false);
  return played_.value;
}

}  // namespace fermata::policy
