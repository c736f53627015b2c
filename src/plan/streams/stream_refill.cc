#include "plan/streams/stream_refill.h"

#include <algorithm>

namespace fermata::plan {
namespace {

constexpr uint64_t kSlices = 16;
constexpr double kHotDeal = 1;                    // in what a client of mean rate is worth at most
constexpr double kPerClient[] = {3, 1};           // the same, in turn by slice
constexpr double kTradesFirst = 0.6;              // of all steps, before the first slice
constexpr size_t kMostDealt = 3;                  // workers at once
constexpr uint64_t kRefill = 100, kPerDealt = 8;  // steps, about

}  // namespace

StreamRefill::StreamRefill(const StreamTables& tables, uint32_t workers, const StreamGroups& start,
                           Random& random)
    : tables_(tables),
      random_(random),
      workers_(workers),
      best_(start),
      traded_(size_t{workers} * workers) {
  add_settings();
  load(start);
  keep_best();
}

void StreamRefill::add_settings() {
  for (uint32_t r = 0; r < tables_.ranks(); ++r) {
    std::vector<double> own;
    for (const double capacity : tables_.capacity(r)) {
      if (capacity > 0) own.push_back(capacity);
    }
    std::sort(own.rbegin(), own.rend());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    for (const double capacity : own) by_rank_.push_back({r, capacity});
  }
  by_capacity_ = by_rank_;
  std::stable_sort(by_capacity_.begin(), by_capacity_.end(),
                   [](const Setting& a, const Setting& b) { return a.capacity > b.capacity; });
}

void StreamRefill::load(const StreamGroups& start) {
  std::vector<Pool> clients(workers_.size());
  unmapped_.clear();
  for (uint32_t c = 0; c < tables_.clients(); ++c) {
    if (start[c] != kNoGroup) {
      clients[start[c]].push_back(c);
    } else if (tables_.servable(c)) {
      unmapped_.push_back(c);
    }
  }
  ++now_;
  for (size_t w = 0; w < workers_.size(); ++w) {
    const uint32_t rank = best_rank(tables_, clients[w]);
    set(workers_[w], rank, std::move(clients[w]));
    workers_[w].changed = now_;
  }
}

void StreamRefill::set(Worker& worker, uint32_t rank, Pool clients) const {
  worker.rank = rank;
  worker.clients = std::move(clients);
  worker.load = 0;
  for (const uint32_t c : worker.clients) worker.load += tables_.rate(c);
  worker.worth = worker.clients.empty() ? 0 : worker.load * tables_.accuracy(rank);
}

StreamGroups StreamRefill::groups() const {
  StreamGroups groups(tables_.clients(), kNoGroup);
  for (uint32_t w = 0; w < workers_.size(); ++w) {
    for (const uint32_t c : workers_[w].clients) groups[c] = w;
  }
  return groups;
}

void StreamRefill::keep_best() {
  Worth worth;
  for (const Worker& worker : workers_) {
    worth.first += worker.clients.size();
    worth.second += worker.worth;
  }
  if (worth <= best_worth_) return;
  best_worth_ = worth;
  best_ = groups();
}

StreamRefill::Pool StreamRefill::pool_of(const std::vector<uint32_t>& workers, Pool pool) const {
  for (const uint32_t w : workers) {
    pool.insert(pool.end(), workers_[w].clients.begin(), workers_[w].clients.end());
  }
  std::sort(pool.begin(), pool.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(tables_.rate(a), a) < std::pair(tables_.rate(b), b);
  });
  return pool;
}

// A setting by chance, and clients by their rates, but for some chance.
StreamRefill::Worker StreamRefill::fill_at_random(const Pool& pool) {
  const Setting& setting = by_capacity_[random_.below(by_capacity_.size())];
  const bool largest_first = random_.below(2) == 0;
  std::vector<std::pair<double, uint32_t>> order;
  for (const uint32_t c : pool) {
    if (!allows(setting, c)) continue;
    const double key = tables_.rate(c) * (0.5 + random_.uniform());
    order.emplace_back(largest_first ? -key : key, c);
  }
  steps_ += pool.size() * 2;
  std::sort(order.begin(), order.end());
  Pool clients;
  double load = 0;
  for (const auto& [key, c] : order) {
    if (load + tables_.rate(c) > setting.capacity) continue;
    load += tables_.rate(c);
    clients.push_back(c);
  }
  Worker filled;
  set(filled, setting.rank, std::move(clients));
  return filled;
}

// How many it can serve.
size_t StreamRefill::count(const Setting& setting, const Pool& pool) {
  size_t count = 0;
  double load = 0;
  for (const uint32_t c : pool) {
    if (!allows(setting, c)) continue;
    load += tables_.rate(c);
    if (load > setting.capacity) break;
    ++count;
  }
  steps_ += pool.size();
  return count;
}

void StreamRefill::raise(const Setting& setting, Pool& clients, double& load, Pool& others) const {
  for (size_t i = clients.size(); i-- > 0;) {
    const double own = tables_.rate(clients[i]), most = setting.capacity - load + own;
    const auto after = std::partition_point(others.begin(), others.end(),
                                            [&](uint32_t c) { return tables_.rate(c) <= most; });
    if (after == others.begin() || tables_.rate(*std::prev(after)) <= own) continue;
    clients[i] = *std::prev(after);
    others.erase(std::prev(after));
    load += tables_.rate(clients[i]) - own;
  }
}

// As many as it can serve, then each of them for one of a higher rate.
StreamRefill::Worker StreamRefill::fill(const Setting& setting, const Pool& pool) {
  Pool clients, others;
  double load = 0;
  for (const uint32_t c : pool) {
    if (!allows(setting, c)) continue;
    const bool fits = others.empty() && load + tables_.rate(c) <= setting.capacity;
    if (fits) load += tables_.rate(c);
    (fits ? clients : others).push_back(c);
  }
  steps_ += pool.size();
  raise(setting, clients, load, others);
  Worker filled;
  set(filled, setting.rank, std::move(clients));
  return filled;
}

// The setting that serves most of the pool, of these the one that is worth most.
StreamRefill::Worker StreamRefill::fill_best(const Pool& pool) {
  Worker best;
  Worth worth;
  std::vector<double> sums;
  for (const uint32_t c : pool) sums.push_back((sums.empty() ? 0 : sums.back()) + tables_.rate(c));
  for (const Setting& setting : by_capacity_) {
    const auto end = std::upper_bound(sums.begin(), sums.end(), setting.capacity);
    const auto most = static_cast<size_t>(end - sums.begin());
    if (most < worth.first) break;
    if (Worth(most, worth_at_most(setting)) <= worth) continue;
    if (Worth(count(setting, pool), worth_at_most(setting)) <= worth) continue;
    Worker next = fill(setting, pool);
    if (Worth(next.clients.size(), next.worth) <= worth) continue;
    worth = {next.clients.size(), next.worth};
    best = std::move(next);
  }
  return best;
}

std::vector<uint32_t> StreamRefill::draw_workers() {
  const size_t count = std::min<size_t>(1 + random_.below(kMostDealt), workers_.size());
  std::vector<uint32_t> drawn;
  while (drawn.size() < count) {
    const auto w = static_cast<uint32_t>(random_.below(workers_.size()));
    if (std::find(drawn.begin(), drawn.end(), w) == drawn.end()) drawn.push_back(w);
  }
  return drawn;
}

void StreamRefill::refill() {
  const std::vector<uint32_t> dealt = draw_workers();
  Pool pool = pool_of(dealt, unmapped_);
  steps_ += kRefill + kPerDealt * pool.size();
  double before = 0, after = 0;
  std::vector<Worker> filled;
  for (const uint32_t w : dealt) {
    const Worker& old = workers_[w];
    before += old.worth + per_client_ * static_cast<double>(old.clients.size());
    const bool last = filled.size() + 1 == dealt.size();
    const Worker& own = filled.emplace_back(last ? fill_best(pool) : fill_at_random(pool));
    after += own.worth + per_client_ * static_cast<double>(own.clients.size());
    std::erase_if(pool, [&](uint32_t c) {
      return std::find(own.clients.begin(), own.clients.end(), c) != own.clients.end();
    });
  }
  const double worse = before - after;
  if (worse > 0 && worse >= -temperature_ * portable_log(random_.positive())) return;
  ++now_;
  for (size_t i = 0; i < dealt.size(); ++i) {
    filled[i].changed = now_;
    workers_[dealt[i]] = std::move(filled[i]);
  }
  unmapped_ = std::move(pool);
  keep_best();
}

const StreamGroups& StreamRefill::run(uint64_t max_steps) {
  if (by_rank_.empty()) return best_;
  double unit = 0;
  for (uint32_t c = 0; c < tables_.clients(); ++c) unit += tables_.rate(c);
  unit *= tables_.accuracy(0) / tables_.clients();
  trade_all(static_cast<uint64_t>(static_cast<double>(max_steps) * kTradesFirst));
  keep_best();
  const uint64_t slice = max_steps / kSlices + 1;
  for (size_t i = 0; steps_ < max_steps; ++i) {
    if (i > 0) load(best_);
    per_client_ = unit * kPerClient[i % std::size(kPerClient)];
    for (uint64_t end = steps_ + slice; steps_ < std::min(end, max_steps);) {
      temperature_ =
          unit * kHotDeal * static_cast<double>(end - steps_) / static_cast<double>(slice);
      refill();
    }
    trade_all(max_steps);
    exchange_all(max_steps);
    keep_best();
  }
  return best_;
}

}  // namespace fermata::plan
