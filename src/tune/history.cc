#include "tune/history.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace fermata::tune {
namespace {

constexpr size_t kEntryBytes = 64;  // of a map, about

void add(ServiceCounts& to, const ServiceCounts& more) {
  for (size_t i = 0; i < to.outcomes.size(); ++i) to.outcomes[i] += more.outcomes[i];
  to.came += more.came;
  for (const auto& [items, count] : more.batches) to.batches[items] += count;
  for (const auto& [name, count] : more.answered_by) to.answered_by[name] += count;
  if (more.accuracy) {
    const uint64_t all = to.judged + more.judged;
    const double sum = to.accuracy.value_or(0) * static_cast<double>(to.judged) +
                       *more.accuracy * static_cast<double>(more.judged);
    to.accuracy = sum / static_cast<double>(all);
    to.judged = all;
  }
}

std::map<std::string, ServiceCounts> rows_of(const engine::EngineSnapshot& snapshot) {
  std::map<std::string, ServiceCounts> rows;
  for (const engine::ServiceStatistics& row : snapshot.services) {
    ServiceCounts& counts = rows[row.service];
    for (size_t i = 0; i < counts.outcomes.size(); ++i) counts.outcomes[i] += row.outcomes[i];
    for (const auto& [items, batch] : row.batches) {
      counts.batches[items] += batch.compute_infer.count;
    }
    counts.waiting = std::max(counts.waiting, row.pending);  // the same for all of its versions
    counts.drift = std::max(counts.drift, row.drift);
  }
  for (auto& [service, counts] : rows) counts.came = counts.ended() + counts.waiting;
  return rows;
}

ServiceCounts difference(const ServiceCounts& now, const ServiceCounts& before) {
  ServiceCounts counts{.came = now.came - before.came, .waiting = now.waiting, .drift = now.drift};
  for (size_t i = 0; i < counts.outcomes.size(); ++i) {
    counts.outcomes[i] = now.outcomes[i] - before.outcomes[i];
  }
  for (const auto& [items, count] : now.batches) {
    const auto old = before.batches.find(items);
    const uint64_t more = count - (old == before.batches.end() ? 0 : old->second);
    if (more > 0) counts.batches[items] = more;
  }
  return counts;
}

}  // namespace

uint64_t ServiceCounts::ended() const {
  return std::accumulate(outcomes.begin(), outcomes.end(), uint64_t{0});
}

bool ServiceCounts::empty() const { return ended() == 0 && batches.empty() && waiting == 0; }

ServiceCounts Period::pool() const {
  ServiceCounts sum;
  for (const auto& [name, counts] : services) {
    sum.waiting += counts.waiting;
    if (counts.called) add(sum, counts);
  }
  return sum;
}

size_t Period::bytes() const {
  size_t sum = sizeof(Period);
  for (const auto& [name, counts] : services) {
    sum += sizeof(ServiceCounts) + kEntryBytes +
           kEntryBytes * (counts.batches.size() + counts.answered_by.size());
  }
  return sum;
}

const Period* History::add(const engine::EngineSnapshot& now, const std::set<std::string>& called,
                           std::map<std::string, Answers> answers, double memory_mb) {
  Rows rows = rows_of(now);
  Period period{.at = now.now, .memory_mb = memory_mb, .control_delay = now.control_delay};
  Duration busy;
  uint64_t renewals = 0;
  for (const engine::WorkerStatistics& worker : now.workers) {
    busy += worker.busy;
    renewals += worker.health.renewals;
    period.workers += worker.serving ? 1 : 0;
  }
  const std::optional<Time> before = std::exchange(last_at_, now.now);
  if (before) {
    period.length = now.now - *before;
    period.renewals = renewals - last_renewals_;
    const double time = period.length.seconds() * std::max(period.workers, 1u);
    if (time > 0) period.busy = std::min(1.0, (busy - last_busy_).seconds() / time);
  }
  last_busy_ = busy;
  last_renewals_ = renewals;
  if (now.autoscale.window != Duration()) {
    period.workers_wanted = int64_t{period.workers} + now.autoscale.workers_to_add;
  }
  for (auto& [name, row] : rows) {
    // What has left the queue and has not ended is not forgotten until it has.
    row.came = std::max(row.came, last_[name].came);
    ServiceCounts counts = difference(row, last_[name]);
    if (counts.empty()) continue;
    counts.called = called.contains(name);
    if (const auto found = answers.find(name); found != answers.end()) {
      const Answers& own = found->second;
      counts.answered_by = own.by_name;
      counts.judged = own.judged;
      if (own.judged > 0) counts.accuracy = own.accuracy / static_cast<double>(own.judged);
      counts.p50 = own.latency.quantile(0.5);
      counts.p99 = own.latency.quantile(0.99);
      if (before) latencies_[name].merge(own.latency);
    }
    period.services[name] = std::move(counts);
  }
  last_ = std::move(rows);
  if (!before) return nullptr;
  seconds_.push_back(std::move(period));
  add_to_coarse(seconds_.back());
  bound();
  return &seconds_.back();
}

void History::add_to_coarse(const Period& second) {
  if (!growing_) growing_.emplace();
  Period& sum = *growing_;
  sum.at = second.at;
  const double weight = second.length.seconds(), all = weight + sum.length.seconds();
  if (all > 0) sum.busy = (sum.busy * sum.length.seconds() + second.busy * weight) / all;
  sum.length += second.length;
  sum.workers = second.workers;
  sum.renewals += second.renewals;
  sum.memory_mb = std::max(sum.memory_mb, second.memory_mb);
  sum.workers_wanted = second.workers_wanted;
  sum.control_delay = std::max(sum.control_delay, second.control_delay);
  for (const auto& [name, counts] : second.services) {
    ServiceCounts& own = sum.services[name];
    tune::add(own, counts);
    own.waiting = counts.waiting;
    own.called = counts.called;
    own.drift = counts.drift;
  }
  if (++grown_ < kCoarseSeconds) return;
  for (auto& [name, latency] : latencies_) {
    const auto found = sum.services.find(name);
    if (found == sum.services.end()) continue;
    found->second.p50 = latency.quantile(0.5);
    found->second.p99 = latency.quantile(0.99);
  }
  latencies_.clear();
  coarse_.push_back(std::move(sum));
  growing_.reset();
  grown_ = 0;
}

void History::bound() {
  if (seconds_.size() > kSeconds) seconds_.pop_front();
  if (coarse_.size() > kCoarse) coarse_.pop_front();
  size_t bytes = 0;
  for (const Period& each : seconds_) bytes += each.bytes();
  for (const Period& each : coarse_) bytes += each.bytes();
  while (bytes > most_bytes_ && seconds_.size() + coarse_.size() > 1) {
    auto& from = seconds_.size() > coarse_.size() ? seconds_ : coarse_;
    bytes -= from.front().bytes();
    from.pop_front();
  }
}

}  // namespace fermata::tune
