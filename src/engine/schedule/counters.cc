#include "engine/schedule/counters.h"

#include <algorithm>
#include <chrono>

#include "engine/observer.h"

namespace fermata::engine {

const std::array<double, 15> Counters::kSlackBounds = {-1000, -300, -100, -30, -10, -3,  -1,  0,
                                                       1,     3,    10,   30,  100, 300, 1000};
const std::array<double, 14> Counters::kTimeBounds = {0.1, 0.3, 1,   2,   5,    10,   20,
                                                      50,  100, 200, 500, 1000, 3000, 10000};

std::string_view name(Outcome outcome) {
  static constexpr std::array<std::string_view, kOutcomes> kNames = {
      "on_time",     "late",    "rejected_deadline", "rejected_queue",
      "unavailable", "invalid", "cancelled",         "failed"};
  return kNames[static_cast<size_t>(outcome)];
}

Counters::Counters(std::string_view service, Observer* observer)
    : observer_(observer), number_(observer == nullptr ? 0 : observer->service(service)) {}

Counters::~Counters() {
  for (auto& size : sizes_) delete size.load();
}

void Counters::count_end(Outcome outcome, const RequestTimes& times) {
  outcomes_[static_cast<size_t>(outcome)].fetch_add(1, std::memory_order_relaxed);
  if (outcome == Outcome::kRejectedDeadline && times.deadline - times.run >= times.arrival) {
    lacking_.fetch_add(1, std::memory_order_relaxed);
  }
  const Duration took = times.ended - times.arrival;
  if (outcome != Outcome::kOnTime && outcome != Outcome::kLate) {
    fail_.add(took);
    return;
  }
  success_.add(took);
  queue_.add(times.queueing);
  input_.add(times.input);
  run_.add(times.run);
  output_.add(times.output);
  queueing_ms_.count(times.queueing.millis());
  latency_ms_.count(took.millis());
  if (!times.deadline.is_infinite()) slack_ms_.count((times.deadline - times.ended).millis());
  inferences_.fetch_add(times.items, std::memory_order_relaxed);
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  last_inference_ms_.store(
      std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count(),
      std::memory_order_relaxed);
}

Counters::BySize& Counters::by_size(uint32_t items) {
  std::atomic<BySize*>& slot = sizes_[std::min<size_t>(items, kMaxSize)];
  BySize* known = slot.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  auto fresh = std::make_unique<BySize>();
  if (slot.compare_exchange_strong(known, fresh.get())) return *fresh.release();
  return *known;
}

void Counters::count_batch(uint32_t items, Duration input, Duration run, Duration output) {
  executions_.fetch_add(1, std::memory_order_relaxed);
  BySize& size = by_size(items);
  size.input.add(input);
  size.run.add(run);
  size.output.add(output);
}

void Counters::count_stages(const std::vector<StageRun>& stages) {
  bool wider = false;
  // What a model's process or another host says is no more than that.
  for (size_t s = 0; s < std::min(stages.size(), exits_.size()); ++s) {
    const uint32_t onward = s + 1 < stages.size() ? stages[s + 1].items : 0;
    const uint32_t left = stages[s].items - std::min(stages[s].items, onward);
    exits_[s].fetch_add(left, std::memory_order_relaxed);
    wider = wider || stages[s].widened;
  }
  widened_.fetch_add(wider, std::memory_order_relaxed);
}

std::atomic<uint64_t>& Counters::answered_by(const std::string& model) {
  const std::lock_guard lock(answers_mutex_);
  return answers_[model];
}

ServiceStatistics Counters::snapshot() const {
  ServiceStatistics result;
  result.widened = widened_.load();
  for (const auto& exits : exits_) result.exits.push_back(exits.load());
  while (!result.exits.empty() && result.exits.back() == 0) result.exits.pop_back();
  result.last_inference_ms = last_inference_ms_.load();
  result.inference_count = inferences_.load();
  result.execution_count = executions_.load();
  for (size_t i = 0; i < kOutcomes; ++i) result.outcomes[i] = outcomes_[i].load();
  result.lacking = lacking_.load();
  result.success = success_.snapshot();
  result.fail = fail_.snapshot();
  result.queue = queue_.snapshot();
  result.compute_input = input_.snapshot();
  result.compute_infer = run_.snapshot();
  result.compute_output = output_.snapshot();
  for (size_t i = 0; i <= kMaxSize; ++i) {
    if (const BySize* size = sizes_[i].load(std::memory_order_acquire)) {
      result.batches[static_cast<uint32_t>(i)] = {size->input.snapshot(), size->run.snapshot(),
                                                  size->output.snapshot()};
    }
  }
  result.slack_ms = slack_ms_.snapshot();
  result.queueing_ms = queueing_ms_.snapshot();
  result.latency_ms = latency_ms_.snapshot();
  result.drift = drift_.load();
  const std::lock_guard lock(answers_mutex_);
  for (const auto& [model, items] : answers_) result.answers[model] = items.load();
  return result;
}

}  // namespace fermata::engine
