#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "engine/execute/executor.h"
#include "engine/snapshot.h"
#include "model/dynamic_network.h"

namespace fermata::engine {

class Observer;  // engine/observer.h

// A histogram that several threads count into and one reads, without a lock. A reading
// beside writers may miss what is being counted, never tears a count.
template <size_t N>
class AtomicHistogram {
 public:
  explicit constexpr AtomicHistogram(const std::array<double, N>& bounds) : bounds_(bounds) {}
  void count(double value) {
    size_t i = 0;
    while (i < N && value > bounds_[i]) ++i;
    counts_[i].fetch_add(1, std::memory_order_relaxed);
    micros_.fetch_add(static_cast<int64_t>(value * 1e3), std::memory_order_relaxed);
  }
  HistogramSnapshot snapshot() const {
    HistogramSnapshot result{{bounds_.begin(), bounds_.end()}, {}, 0};
    for (const auto& count : counts_) result.counts.push_back(count.load());
    result.sum = static_cast<double>(micros_.load()) * 1e-3;
    return result;
  }

 private:
  const std::array<double, N>& bounds_;
  std::array<std::atomic<uint64_t>, N + 1> counts_{};
  std::atomic<int64_t> micros_{0};  // thousandths of the values' unit
};

class AtomicDuration {
 public:
  void add(Duration took, uint64_t times = 1) {
    count_.fetch_add(times, std::memory_order_relaxed);
    nanos_.fetch_add(took.nanos() * static_cast<int64_t>(times), std::memory_order_relaxed);
  }
  DurationCount snapshot() const { return {count_.load(), Duration::nanos(nanos_.load())}; }

 private:
  std::atomic<uint64_t> count_{0};
  std::atomic<int64_t> nanos_{0};
};

// How one request went, for counting.
struct RequestTimes {
  Time arrival, deadline, ended;
  Duration queueing, input, run, output;  // where it ran; of one refused, run is what it needs
  uint32_t items = 0;
};

// One service and version since the engine started.
class Counters {
 public:
  Observer* observer() const { return observer_; }
  uint32_t number() const { return number_; }

  void count_end(Outcome outcome, const RequestTimes& times);
  void count_batch(uint32_t items, Duration input, Duration run, Duration output);
  // Of a dynamic network: how many items left after each stage.
  void count_stages(const std::vector<StageRun>& stages);
  // Of a service of several models: the count of the items that this one answered, which stays.
  std::atomic<uint64_t>& answered_by(const std::string& model);
  void set_drift(double drift) { drift_.store(drift, std::memory_order_relaxed); }
  double drift() const { return drift_.load(std::memory_order_relaxed); }
  uint64_t executions() const { return executions_.load(std::memory_order_relaxed); }
  // Leaves service, version and pending to the caller.
  ServiceStatistics snapshot() const;

 private:
  Observer* observer_ = nullptr;
  uint32_t number_ = 0;
  static constexpr size_t kMaxSize = 1024;  // larger batches count as this one
  struct BySize {
    AtomicDuration input, run, output;
  };
  BySize& by_size(uint32_t items);

  static const std::array<double, 15> kSlackBounds;
  static const std::array<double, 14> kTimeBounds;
  std::array<std::atomic<uint64_t>, kOutcomes> outcomes_{};
  std::atomic<uint64_t> lacking_{0};
  AtomicDuration success_, fail_, queue_, input_, run_, output_;
  AtomicHistogram<15> slack_ms_{kSlackBounds};
  AtomicHistogram<14> queueing_ms_{kTimeBounds}, latency_ms_{kTimeBounds};
  std::atomic<uint64_t> inferences_{0}, executions_{0}, widened_{0};
  std::array<std::atomic<uint64_t>, kMostStages> exits_{};
  std::atomic<int64_t> last_inference_ms_{0};
  std::atomic<double> drift_{1};
  std::array<std::atomic<BySize*>, kMaxSize + 1> sizes_{};
  mutable std::mutex answers_mutex_;  // of the map, not of what it counts
  std::map<std::string, std::atomic<uint64_t>> answers_;

 public:
  Counters() = default;
  // `observer` is told of the requests of this service too; null: nobody is.
  Counters(std::string_view service, Observer* observer);
  ~Counters();
};

}  // namespace fermata::engine
