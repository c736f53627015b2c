#include "plan/streams/stream_exact.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace fermata::plan {
namespace {

using ClientSet = uint32_t;
constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// By set of clients: what a number of workers makes of all of them.
using Values = std::vector<double>;

class ExactStreams {
 public:
  ExactStreams(const StreamTables& tables, uint32_t workers)
      : tables_(tables),
        clients_(tables.clients()),
        sets_(size_t{1} << clients_),
        workers_(std::min(workers, clients_)) {}

  StreamGroups solve();

 private:
  Values one_worker() const;
  // The best part of `set` for `a`, the rest for `b`, as value and part.
  std::pair<double, ClientSet> split(const Values& a, const Values& b, ClientSet set) const;
  Values together(const Values& a, const Values& b) const;
  ClientSet most_served(const Values& a, const Values& b) const;
  void assign(ClientSet set, uint32_t workers, StreamGroups& groups, uint32_t& next) const;
  const Values& of(uint32_t workers) const { return values_[workers]; }

  const StreamTables& tables_;
  const uint32_t clients_;
  const size_t sets_;
  const uint32_t workers_;
  std::vector<Values> values_;  // by number of workers; empty where nobody needs it
};

Values ExactStreams::one_worker() const {
  Values value(sets_, kImpossible), load(sets_), capacity(sets_);
  for (ClientSet s = 1; s < sets_; ++s) {
    load[s] = load[s & (s - 1)] + tables_.rate(static_cast<uint32_t>(std::countr_zero(s)));
  }
  value[0] = 0;
  for (uint32_t rank = 0; rank < tables_.ranks(); ++rank) {
    capacity[0] = std::numeric_limits<double>::infinity();
    for (ClientSet s = 1; s < sets_; ++s) {
      const double own = tables_.capacity(rank)[static_cast<size_t>(std::countr_zero(s))];
      capacity[s] = std::min(capacity[s & (s - 1)], own);
      if (value[s] == kImpossible && load[s] <= capacity[s]) {
        value[s] = load[s] * tables_.accuracy(rank);
      }
    }
  }
  return value;
}

std::pair<double, ClientSet> ExactStreams::split(const Values& a, const Values& b,
                                                 ClientSet set) const {
  // Who has more workers makes as much of the larger part; so the part of `a` has the first
  // client where both have as many.
  const ClientSet fixed = &a == &b ? set & (~set + 1) : 0, free = set & ~fixed;
  std::pair<double, ClientSet> best(kImpossible, 0);
  for (ClientSet part = free;; part = (part - 1) & free) {
    const double value = a[part | fixed] + b[set & ~(part | fixed)];
    if (value > best.first) best = {value, part | fixed};
    if (part == 0) break;
  }
  return best;
}

Values ExactStreams::together(const Values& a, const Values& b) const {
  Values value(sets_);
  for (ClientSet s = 1; s < sets_; ++s) value[s] = split(a, b, s).first;
  return value;
}

ClientSet ExactStreams::most_served(const Values& a, const Values& b) const {
  std::vector<std::vector<ClientSet>> by_count(clients_ + 1);
  for (ClientSet s = 0; s < sets_; ++s) by_count[std::popcount(s)].push_back(s);
  for (uint32_t count = clients_; count > 0; --count) {
    std::pair<double, ClientSet> best(kImpossible, 0);
    for (const ClientSet s : by_count[count]) {
      best = std::max(best, {split(a, b, s).first, s},
                      [](const auto& x, const auto& y) { return x.first < y.first; });
    }
    if (best.first != kImpossible) return best.second;
  }
  return 0;
}

void ExactStreams::assign(ClientSet set, uint32_t workers, StreamGroups& groups,
                          uint32_t& next) const {
  if (set == 0) return;
  if (workers == 1) {
    for (; set != 0; set &= set - 1) groups[std::countr_zero(set)] = next;
    ++next;
    return;
  }
  const uint32_t half = workers - workers / 2;
  const ClientSet part = split(of(half), of(workers / 2), set).second;
  assign(part, half, groups, next);
  assign(set & ~part, workers / 2, groups, next);
}

StreamGroups ExactStreams::solve() {
  StreamGroups groups(clients_, kNoGroup);
  if (clients_ == 0) return groups;
  values_.resize(workers_ + 1);
  values_[1] = one_worker();
  std::vector<bool> needed(workers_ + 1);
  needed[workers_] = true;
  for (uint32_t n = workers_; n > 1; --n) {
    if (needed[n]) needed[n / 2] = needed[n - n / 2] = true;
  }
  for (uint32_t n = 2; n < workers_; ++n) {
    if (needed[n]) values_[n] = together(of(n - n / 2), of(n / 2));
  }
  ClientSet served = 0;
  if (workers_ == 1) {
    for (ClientSet s = 1; s < sets_; ++s) {
      const auto worth = [&](ClientSet x) { return std::pair(std::popcount(x), of(1)[x]); };
      if (of(1)[s] != kImpossible && worth(s) > worth(served)) served = s;
    }
  } else {
    served = most_served(of(workers_ - workers_ / 2), of(workers_ / 2));
  }
  uint32_t next = 0;
  assign(served, workers_, groups, next);
  return groups;
}

}  // namespace

double exact_stream_steps(uint32_t workers, uint32_t clients) {
  workers = std::min(workers, clients);
  const double levels = workers > 1 ? 2 * std::ceil(std::log2(workers)) - 1 : 1;
  return levels * std::pow(3.0, clients) / 2;
}

StreamGroups exact_streams(const StreamTables& tables, uint32_t workers) {
  FERMATA_CHECK(tables.clients() <= kExactStreamClients);
  return ExactStreams(tables, workers).solve();
}

}  // namespace fermata::plan
