#include "engine/execute/resident_executor.h"

#include <concurrentqueue.h>

#include <algorithm>
#include <future>
#include <thread>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/catalog.h"
#include "engine/schedule/parker.h"

namespace fermata::engine {
namespace {

class ResidentExecutor final : public Executor {
 public:
  ResidentExecutor(std::unique_ptr<Executor> inner, const WorkerOptions& options, uint32_t type)
      : limit_mb_(options.types[type].memory_mb),
        type_(type),
        emulated_(options.executor == ExecutorKind::kEmulated),
        inner_(std::move(inner)),
        thread_([this] { loop(); }) {}

  ~ResidentExecutor() override {
    post(Stop());
    thread_.join();
  }

  absl::Status load(std::shared_ptr<const Variant> variant) override {
    const double memory_mb = variant->memory.static_mb + variant->memory.dynamic_mb;
    if (memory_mb > limit_mb_) {
      return error(absl::StatusCode::kResourceExhausted,
                   "no room: it needs {:.0f} MiB, a worker has {:.0f} MiB", memory_mb, limit_mb_);
    }
    std::promise<void> taken;  // what other threads post may overtake it
    post(Known{std::move(variant), memory_mb, &taken});
    taken.get_future().wait();
    return absl::OkStatus();
  }
  void unload(VariantId id) override { post(id); }
  void run(BatchRun batch) override {
    events_.enqueue(in_order_, std::move(batch));
    parker_.unpark();
  }
  void terminate() override { inner_->terminate(); }
  void end_soon(Duration limit) override { inner_->end_soon(limit); }
  RunHealth health() const override { return inner_->health(); }

 private:
  struct Stop {};
  struct Known {
    std::shared_ptr<const Variant> variant;
    double memory_mb = 0;
    std::promise<void>* taken = nullptr;
    // Variants of the same ones are loaded together: the widths of a dynamic network.
    VariantId weights() const { return variant->loads(); }
  };
  struct Loaded {
    VariantId weights;
    double memory_mb = 0;
  };
  using Event = std::variant<std::monostate, Stop, Known, VariantId, BatchRun>;

  void post(Event event) {
    events_.enqueue(std::move(event));
    parker_.unpark();
  }

  void loop() {
    moodycamel::ConsumerToken token(events_);
    while (true) {
      Event event;
      if (!events_.try_dequeue(token, event)) {
        parker_.park_until(Time::infinite());
      } else if (std::holds_alternative<Stop>(event)) {
        return;
      } else if (auto* known = std::get_if<Known>(&event)) {
        std::promise<void>* taken = known->taken;
        evict(known->weights());  // it may be larger with one width more
        known_[known->variant->id] = std::move(*known);
        taken->set_value();
      } else if (auto* gone = std::get_if<VariantId>(&event)) {
        const auto it = known_.find(*gone);
        if (it == known_.end()) continue;
        evict(it->second.weights());
        known_.erase(it);
      } else if (auto* batch = std::get_if<BatchRun>(&event)) {
        run_loaded(std::move(*batch));
      }
    }
  }

  void run_loaded(BatchRun batch) {
    const auto it = known_.find(batch.variant);
    FERMATA_CHECK(it != known_.end());
    if (absl::Status there = make_resident(it->second); !there.ok()) {
      BatchResult failed{.started = monotonic_now()};
      failed.parts.assign(batch.parts.size(), there);
      return batch.done(std::move(failed));
    }
    inner_->run(std::move(batch));
  }

  std::vector<const Known*> with(VariantId weights) const {
    std::vector<const Known*> all;
    for (const auto& [id, known] : known_) {
      if (known.weights() == weights) all.push_back(&known);
    }
    return all;
  }

  // The most recently used stands last.
  absl::Status make_resident(const Known& known) {
    const VariantId weights = known.weights();
    const auto it = std::find_if(loaded_.begin(), loaded_.end(),
                                 [&](const Loaded& l) { return l.weights == weights; });
    if (it != loaded_.end()) {
      std::rotate(it, it + 1, loaded_.end());
      return absl::OkStatus();
    }
    const std::vector<const Known*> together = with(weights);
    double memory_mb = 0;
    for (const Known* one : together) memory_mb = std::max(memory_mb, one->memory_mb);
    while (used_mb_ + memory_mb > limit_mb_ && !loaded_.empty()) evict(loaded_.front().weights);
    const Time start = monotonic_now();
    for (auto one = together.begin(); one != together.end(); ++one) {
      absl::Status there = inner_->load((*one)->variant);
      if (there.ok()) continue;
      while (one != together.begin()) inner_->unload((*--one)->variant->id);
      return there;
    }
    const Time end = start + Duration::from_millis(known.variant->profile_on(type_).load_ms);
    while (emulated_ && monotonic_now() < end) parker_.park_until(end);
    loaded_.push_back({weights, memory_mb});
    used_mb_ += memory_mb;
    return absl::OkStatus();
  }

  void evict(VariantId weights) {
    const auto it = std::find_if(loaded_.begin(), loaded_.end(),
                                 [&](const Loaded& l) { return l.weights == weights; });
    if (it == loaded_.end()) return;
    used_mb_ -= it->memory_mb;
    loaded_.erase(it);
    for (const Known* one : with(weights)) inner_->unload(one->variant->id);
  }

  const double limit_mb_;
  const uint32_t type_;
  const bool emulated_;
  const std::unique_ptr<Executor> inner_;
  moodycamel::ConcurrentQueue<Event> events_;
  moodycamel::ProducerToken in_order_{events_};  // runs, whichever threads they come from
  Parker parker_;
  // The thread's own:
  absl::flat_hash_map<VariantId, Known> known_;
  std::vector<Loaded> loaded_;
  double used_mb_ = 0;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Executor> make_resident_executor(std::unique_ptr<Executor> inner,
                                                 const WorkerOptions& options, uint32_t type) {
  return std::make_unique<ResidentExecutor>(std::move(inner), options, type);
}

}  // namespace fermata::engine
