#include "engine/execute/emulated_executor.h"

#include <concurrentqueue.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "engine/catalog.h"
#include "engine/execute/by_variant.h"
#include "engine/threads/parker.h"

namespace fermata::engine {
namespace {

struct Alarm {
  Time at;
  uint64_t order = 0;
  absl::AnyInvocable<void()> ring;
};

// Rings alarms at their times, in order of time, then of arrival.
class Timer {
 public:
  Timer() : thread_([this] { loop(); }) {}
  ~Timer() {
    stopped_ = true;
    parker_.unpark();
    thread_.join();
  }

  void set(Time at, absl::AnyInvocable<void()> ring) {
    incoming_.enqueue({at, order_.fetch_add(1), std::move(ring)});
    parker_.unpark();
  }

 private:
  static bool later(const Alarm& a, const Alarm& b) {
    return std::pair(a.at, a.order) > std::pair(b.at, b.order);
  }

  void loop() {
    while (!stopped_) {
      Alarm alarm;
      while (incoming_.try_dequeue(alarm)) {
        waiting_.push_back(std::move(alarm));
        std::push_heap(waiting_.begin(), waiting_.end(), later);
      }
      const Time next = waiting_.empty() ? Time::infinite() : waiting_.front().at;
      if (next > monotonic_now()) {
        parker_.park_until(next);
        continue;
      }
      std::pop_heap(waiting_.begin(), waiting_.end(), later);
      alarm = std::move(waiting_.back());
      waiting_.pop_back();
      alarm.ring();
    }
  }

  moodycamel::ConcurrentQueue<Alarm> incoming_;
  Parker parker_;
  std::atomic<uint64_t> order_{0};
  std::atomic<bool> stopped_{false};
  std::vector<Alarm> waiting_;  // the thread's own, a heap
  std::thread thread_;
};

std::vector<Tensor> answer(const Signature& signature, const BatchPart& part) {
  std::vector<Tensor> outputs;
  for (const TensorSpec& spec : signature.outputs) {
    const auto& wanted = *part.outputs;
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), spec.name) != wanted.end()) {
      Shape item = spec.dims;
      std::replace(item.begin(), item.end(), int64_t{-1}, int64_t{1});
      outputs.push_back(zeros(spec, std::move(item), signature.batches ? part.items : 0));
    }
  }
  return outputs;
}

struct Emulated {
  std::shared_ptr<const Variant> variant;
  std::shared_ptr<const LatencyTable> latency;  // null: as long as `inner` takes
};

class EmulatedExecutor : public Executor {
 public:
  EmulatedExecutor(std::shared_ptr<Timer> timer, uint32_t type, std::shared_ptr<Executor> inner)
      : timer_(std::move(timer)), type_(type), inner_(std::move(inner)) {}

  absl::Status load(std::shared_ptr<const Variant> variant) override {
    const Profile& profile = variant->profile_on(type_);
    if (!profile.measured() && inner_ == nullptr) {
      return invalid("model '{}': an emulated worker needs profile.json beside the model",
                     variant->model);
    }
    std::shared_ptr<const LatencyTable> latency;
    if (profile.measured()) {
      ASSIGN_OR_RETURN(latency,
                       LatencyTable::make(latency_at(profile, 0.5), variant->signature.max_batch));
    }
    if (inner_ != nullptr) RETURN_IF_ERROR(inner_->load(variant));
    variants_.put(variant->id, std::make_shared<Emulated>(Emulated{variant, std::move(latency)}));
    return absl::OkStatus();
  }

  void unload(VariantId id) override {
    if (inner_ != nullptr) inner_->unload(id);
    variants_.remove(id);
  }

  void run(BatchRun batch) override {
    auto emulated = variants_.at(batch.variant);
    if (emulated->latency == nullptr) return inner_->run(std::move(batch));
    const Time start = std::max(monotonic_now(), busy_until_);
    const Duration took = (*emulated->latency)(items_of(batch.parts));
    busy_until_ = start + took;
    if (inner_ != nullptr) {
      batch.done = [timer = timer_, start, took, ended = ended_,
                    done = std::move(batch.done)](BatchResult result) mutable {
        result.started = std::max(start, *ended);  // the batch before may have taken longer
        result.run = std::max(took, monotonic_now() - result.started);
        result.input = result.output = Duration();
        *ended = result.started + result.run;
        timer->set(*ended, [done = std::move(done), result = std::move(result)]() mutable {
          done(std::move(result));
        });
      };
      return inner_->run(std::move(batch));
    }
    timer_->set(busy_until_, [batch = std::move(batch), emulated, start, took]() mutable {
      BatchResult result{.started = start, .run = took};
      for (const BatchPart& part : batch.parts) {
        result.parts.push_back(answer(emulated->variant->signature, part));
      }
      batch.done(std::move(result));
    });
  }

  void terminate() override {
    if (inner_ != nullptr) inner_->terminate();
  }
  void end_soon(Duration limit) override {
    if (inner_ != nullptr) inner_->end_soon(limit);
  }
  void when_back(VariantId id, absl::AnyInvocable<void()> there) override {
    if (inner_ == nullptr) return there();
    inner_->when_back(id, std::move(there));
  }
  RunHealth health() const override {
    return inner_ != nullptr ? inner_->health() : Executor::health();
  }
  void pin(const std::vector<uint32_t>& processors) override {
    if (inner_ != nullptr) inner_->pin(processors);
  }
  void tell_deaths(Deaths deaths) override {
    if (inner_ != nullptr) inner_->tell_deaths(std::move(deaths));
  }
  double memory_mb() const override {
    return inner_ != nullptr ? inner_->memory_mb() : Executor::memory_mb();
  }

 private:
  const std::shared_ptr<Timer> timer_;
  const uint32_t type_;
  const std::shared_ptr<Executor> inner_;  // null: zeros are answered
  Time busy_until_;                        // of the one thread that calls run()
  // When the last batch of `inner` ended; of the one thread that calls its done().
  const std::shared_ptr<Time> ended_ = std::make_shared<Time>();
  ByVariant<const Emulated> variants_;
};

class EmulatedExecutors : public ExecutorFactory {
 public:
  EmulatedExecutors(uint32_t type, std::unique_ptr<ExecutorFactory> inner)
      : type_(type), inner_(std::move(inner)) {}
  std::shared_ptr<Executor> make() override {
    return std::make_shared<EmulatedExecutor>(timer_, type_,
                                              inner_ != nullptr ? inner_->make() : nullptr);
  }

  absl::StatusOr<inference::ModelConfig> complete(const Variant& variant) override {
    return inner_ != nullptr ? inner_->complete(variant) : ExecutorFactory::complete(variant);
  }
  std::vector<ProcessStatistics> processes() const override {
    return inner_ != nullptr ? inner_->processes() : ExecutorFactory::processes();
  }
  void serve_calls(std::shared_ptr<ModelCalls> calls) override {
    if (inner_ != nullptr) inner_->serve_calls(std::move(calls));
  }
  std::string why_away(const Variant& variant) const override {
    return inner_ != nullptr ? inner_->why_away(variant) : "";
  }
  void be_quiet() override {
    if (inner_ != nullptr) inner_->be_quiet();
  }
  void stop_loading() override {
    if (inner_ != nullptr) inner_->stop_loading();
  }

 private:
  const uint32_t type_;
  const std::unique_ptr<ExecutorFactory> inner_;
  std::shared_ptr<Timer> timer_ = std::make_shared<Timer>();
};

}  // namespace

std::unique_ptr<ExecutorFactory> make_emulated_executors(uint32_t worker_type,
                                                         std::unique_ptr<ExecutorFactory> inner) {
  return std::make_unique<EmulatedExecutors>(worker_type, std::move(inner));
}

}  // namespace fermata::engine
