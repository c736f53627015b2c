// What two workers make of all their clients together.
#include <algorithm>
#include <tuple>

#include "plan/streams/stream_refill.h"

namespace fermata::plan {
namespace {

constexpr size_t kMostTraded = 64;  // clients, as bits
constexpr int kMostNodes = 300;
constexpr double kNear = 1e-4, kSame = 1e-9;  // relative

// A set of items whose sum is about the largest up to `most`: depth first, with the items in the
// order that is given, at most kMostNodes of them.
class SubsetSum {
 public:
  SubsetSum(const std::vector<double>& items, double most)
      : items_(items), most_(most), rest_(items.size() + 1) {
    for (size_t i = items.size(); i-- > 0;) rest_[i] = rest_[i + 1] + items[i];
    search(0, 0, 0);
  }
  uint64_t chosen() const { return chosen_; }
  uint64_t nodes() const { return static_cast<uint64_t>(nodes_); }

 private:
  void search(size_t i, double sum, uint64_t set) {
    if (sum > best_) {
      best_ = sum;
      chosen_ = set;
    }
    if (i == items_.size() || ++nodes_ > kMostNodes || best_ >= most_ * (1 - kNear)) return;
    if (sum + rest_[i] <= best_) return;
    if (sum + items_[i] <= most_) search(i + 1, sum + items_[i], set | uint64_t{1} << i);
    search(i + 1, sum, set);
  }

  const std::vector<double>& items_;
  const double most_;
  std::vector<double> rest_;  // the sum from each on
  double best_ = -1;
  uint64_t chosen_ = 0;
  int nodes_ = 0;
};

}  // namespace

// The most accurate first; without those that allow no client more than one of a higher capacity.
std::vector<StreamRefill::Setting> StreamRefill::settings_of(const Pool& pool) {
  std::vector<Setting> settings;
  for (Setting setting : by_rank_) {
    for (size_t i = 0; i < pool.size(); ++i) {
      setting.allowed |= static_cast<uint64_t>(allows(setting, pool[i])) << i;
    }
    const bool more = settings.empty() || settings.back().rank != setting.rank ||
                      settings.back().allowed != setting.allowed;
    if (more && setting.allowed != 0) settings.push_back(setting);
  }
  steps_ += by_rank_.size() * pool.size() / 4;
  return settings;
}

// All of the pool, as much of it as possible to `a`. False: that does not serve all.
bool StreamRefill::split(const Pool& pool, const Setting& a, const Setting& b, Worker& to_a,
                         Worker& to_b) {
  Pool both, only_a, only_b;
  std::vector<double> rates;
  double forced = 0;
  for (size_t i = pool.size(); i-- > 0;) {  // the highest rate first
    const bool in_a = a.allowed >> i & 1, in_b = b.allowed >> i & 1;
    (in_a && in_b ? both : in_a ? only_a : only_b).push_back(pool[i]);
    if (in_a && in_b) rates.push_back(tables_.rate(pool[i]));
    if (in_a && !in_b) forced += tables_.rate(pool[i]);
  }
  if (forced > a.capacity) return false;
  const SubsetSum sums(rates, a.capacity - forced);
  steps_ += sums.nodes() + pool.size();
  for (size_t i = 0; i < both.size(); ++i) {
    (sums.chosen() >> i & 1 ? only_a : only_b).push_back(both[i]);
  }
  set(to_a, a.rank, std::move(only_a));
  set(to_b, b.rank, std::move(only_b));
  return to_a.load <= a.capacity && to_b.load <= b.capacity;
}

// Whether the two are worth more now.
bool StreamRefill::trade(uint32_t a, uint32_t b) {
  const Pool pool = pool_of({a, b}, {});
  if (pool.empty() || pool.size() > kMostTraded) return false;
  const double load = workers_[a].load + workers_[b].load;
  const uint64_t all = ~uint64_t{0} >> (kMostTraded - pool.size());
  double best = (workers_[a].worth + workers_[b].worth) * (1 + kSame);
  const std::vector<Setting> settings = settings_of(pool);
  bool better = false;
  Worker next_a, next_b;
  for (size_t i = 0; i < settings.size(); ++i) {
    const Setting& first = settings[i];
    const double accuracy = tables_.accuracy(first.rank), most = std::min(first.capacity, load);
    if (accuracy * load <= best) break;
    steps_ += (settings.size() - i) / 4;
    for (size_t j = i; j < settings.size(); ++j) {
      const Setting& second = settings[j];
      if (accuracy * most + tables_.accuracy(second.rank) * (load - most) <= best) break;
      if (first.capacity + second.capacity < load || (first.allowed | second.allowed) != all) {
        continue;
      }
      if (!split(pool, first, second, next_a, next_b)) continue;
      if (next_a.worth + next_b.worth <= best) continue;
      best = (next_a.worth + next_b.worth) * (1 + kSame);
      workers_[a] = next_a;
      workers_[b] = next_b;
      better = true;
    }
  }
  return better;
}

// Until no two of them gain anything.
void StreamRefill::trade_all(uint64_t max_steps) {
  const auto workers = static_cast<uint32_t>(workers_.size());
  for (bool any = true; any;) {
    any = false;
    for (uint32_t a = 0; a < workers; ++a) {
      for (uint32_t b = a + 1; b < workers; ++b) {
        if (steps_ >= max_steps) return;
        uint64_t& traded = traded_[a * workers + b];
        if (traded > std::max(workers_[a].changed, workers_[b].changed)) continue;
        const bool better = trade(a, b);
        if (better) workers_[a].changed = workers_[b].changed = ++now_;
        traded = ++now_;
        any = any || better;
        ++steps_;
      }
    }
  }
}

// The clients of the lowest rates that the two can serve together, each of a higher rate as far as
// there is room; what is worth more than `than`.
bool StreamRefill::serve_most(const Pool& pool, const Setting& a, const Setting& b,
                              const Worth& than, Worker& to_a, Worker& to_b) {
  Setting first = a, second = b;
  first.allowed = second.allowed = 0;
  Pool taken;
  double room = a.capacity + b.capacity, room_a = a.capacity, room_b = b.capacity;
  for (size_t i = 0; i < pool.size(); ++i) {
    const bool in_a = a.allowed >> i & 1, in_b = b.allowed >> i & 1;
    const double rate = tables_.rate(pool[i]);
    if (rate > room) break;
    if (!in_a && !in_b) continue;
    if (double* only = in_a == in_b ? nullptr : in_a ? &room_a : &room_b; only != nullptr) {
      if (rate > *only) continue;
      *only -= rate;
    }
    room -= rate;
    first.allowed |= (a.allowed >> i & 1) << taken.size();
    second.allowed |= (b.allowed >> i & 1) << taken.size();
    taken.push_back(pool[i]);
  }
  steps_ += pool.size();
  for (; !taken.empty() && taken.size() >= than.first; taken.pop_back()) {
    if (!split(taken, first, second, to_a, to_b)) continue;
    for (const auto& [setting, own, other] :
         {std::tuple(&a, &to_a, &to_b), std::tuple(&b, &to_b, &to_a)}) {
      Pool clients = own->clients, others;
      for (size_t i = 0; i < pool.size(); ++i) {
        const auto has = [&](const Worker* worker) {
          return std::find(worker->clients.begin(), worker->clients.end(), pool[i]) !=
                 worker->clients.end();
        };
        if ((setting->allowed >> i & 1) && !has(own) && !has(other)) others.push_back(pool[i]);
      }
      double carried = own->load;
      raise(*setting, clients, carried, others);
      set(*own, setting->rank, std::move(clients));
      steps_ += 2 * pool.size();
    }
    return Worth(taken.size(), to_a.worth + to_b.worth) > than;
  }
  return false;
}

// With the clients that nobody serves: whether the two serve more now, or are worth more.
bool StreamRefill::exchange(uint32_t a, uint32_t b) {
  const Pool pool = pool_of({a, b}, unmapped_);
  if (pool.size() > kMostTraded) return false;
  Worth best(workers_[a].clients.size() + workers_[b].clients.size(),
             (workers_[a].worth + workers_[b].worth) * (1 + kSame));
  const std::vector<Setting> settings = settings_of(pool);
  std::vector<double> sums;
  for (const uint32_t c : pool) sums.push_back((sums.empty() ? 0 : sums.back()) + tables_.rate(c));
  bool better = false;
  Worker next_a, next_b;
  for (size_t i = 0; i < settings.size(); ++i) {
    steps_ += (settings.size() - i) / 4;
    for (size_t j = i; j < settings.size(); ++j) {
      const double capacity = settings[i].capacity + settings[j].capacity;
      const auto most = std::upper_bound(sums.begin(), sums.end(), capacity) - sums.begin();
      const double worth = worth_at_most(settings[i]) + worth_at_most(settings[j]);
      if (Worth(static_cast<size_t>(most), worth) <= best) continue;
      if (!serve_most(pool, settings[i], settings[j], best, next_a, next_b)) continue;
      best = {next_a.clients.size() + next_b.clients.size(),
              (next_a.worth + next_b.worth) * (1 + kSame)};
      workers_[a] = next_a;
      workers_[b] = next_b;
      better = true;
    }
  }
  if (!better) return false;
  unmapped_ = pool;
  std::erase_if(unmapped_, [&](uint32_t c) {
    const auto has = [&](const Worker& worker) {
      return std::find(worker.clients.begin(), worker.clients.end(), c) != worker.clients.end();
    };
    return has(workers_[a]) || has(workers_[b]);
  });
  return true;
}

// Until no two of them gain anything.
void StreamRefill::exchange_all(uint64_t max_steps) {
  const auto workers = static_cast<uint32_t>(workers_.size());
  for (bool any = !unmapped_.empty(); any;) {
    any = false;
    for (uint32_t a = 0; a < workers; ++a) {
      for (uint32_t b = a + 1; b < workers && steps_ < max_steps; ++b) {
        if (!exchange(a, b)) continue;
        workers_[a].changed = workers_[b].changed = ++now_;
        any = true;
      }
    }
  }
}

}  // namespace fermata::plan
