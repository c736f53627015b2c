#include "engine/execute/resident_executor.h"

#include <concurrentqueue.h>

#include <algorithm>
#include <future>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/catalog.h"
#include "engine/threads/background_thread.h"
#include "engine/threads/parker.h"

namespace fermata::engine {
namespace {

class ResidentExecutor final : public Executor {
 public:
  ResidentExecutor(std::shared_ptr<Executor> inner, const WorkerOptions& options, uint32_t type)
      : limit_mb_(options.types[type].memory_mb),
        type_(type),
        emulated_(options.executor != ExecutorKind::kOnnxRuntime),
        inner_(std::move(inner)),
        loader_(1, 2,
                [this](absl::Span<Load> loads) {
                  carry_out(loads.front(), *inner_);
                  post(std::move(loads.front()));
                }),
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
  void load_ahead(VariantId id, absl::AnyInvocable<void(absl::Status)> done) override {
    post_in_order(Ahead{id, std::move(done)});
  }
  void let_go(VariantId id) override { post_in_order(LetGo{id}); }
  void run(BatchRun batch) override { post_in_order(std::move(batch)); }
  void terminate() override { inner_->terminate(); }
  void end_soon(Duration limit) override { inner_->end_soon(limit); }
  void when_back(VariantId id, absl::AnyInvocable<void()> there) override {
    inner_->when_back(id, std::move(there));
  }
  RunHealth health() const override { return inner_->health(); }
  void tell_deaths(Deaths deaths) override { inner_->tell_deaths(std::move(deaths)); }

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
    std::vector<VariantId> variants;  // those of them that could be loaded
  };
  struct Ahead {  // to be loaded while other things run
    VariantId variant;
    absl::AnyInvocable<void(absl::Status)> done;
  };
  struct LetGo {
    VariantId variant;
  };
  // Variants that are loaded together, and what became of it.
  struct Load {
    Loaded result;
    std::vector<std::shared_ptr<const Variant>> together;
    VariantId wanted;
    absl::Status status;  // of the one that is wanted
    absl::AnyInvocable<void(absl::Status)> done;
  };
  using Event = std::variant<std::monostate, Stop, Known, VariantId, BatchRun, Ahead, LetGo, Load>;

  void post(Event event) {
    events_.enqueue(std::move(event));
    parker_.unpark();
  }

  void post_in_order(Event event) {
    events_.enqueue(in_order_, std::move(event));
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
      } else {
        std::visit([this](auto& e) { handle(e); }, event);
      }
    }
  }

  void handle(std::monostate&) {}
  void handle(Stop&) {}

  void handle(Known& known) {
    std::promise<void>* taken = known.taken;
    evict(known.weights());  // it may be larger with one width more
    known_[known.variant->id] = std::move(known);
    taken->set_value();
  }

  void handle(VariantId& gone) {
    const auto it = known_.find(gone);
    if (it == known_.end()) return;
    evict(it->second.weights());
    known_.erase(it);
  }

  // One load at a time: what has to be loaded meanwhile waits, what is there runs.
  void handle(BatchRun& batch) {
    const auto it = known_.find(batch.variant);
    FERMATA_CHECK(it != known_.end());
    if (!use(it->second)) {
      if (loading_) {
        waiting_.push_back(std::move(batch));
        return;
      }
      Load load = begin(it->second);
      carry_out(load, *inner_);
      if (absl::Status there = end(load); !there.ok()) {
        BatchResult failed{.started = monotonic_now()};
        failed.parts.assign(batch.parts.size(), there);
        return batch.done(std::move(failed));
      }
    }
    inner_->run(std::move(batch));
  }

  void handle(Ahead& ahead) {
    const auto it = known_.find(ahead.variant);
    if (it == known_.end()) return ahead.done(not_found("the model was unloaded"));
    if (use(it->second)) return ahead.done(absl::OkStatus());
    if (loading_) {
      later_.push_back(std::move(ahead));
      return;
    }
    loading_ = true;
    Load load = begin(it->second);
    load.done = std::move(ahead.done);
    FERMATA_CHECK(loader_.submit(load));
  }

  void handle(LetGo& gone) {
    const auto it = known_.find(gone.variant);
    if (it != known_.end()) evict(it->second.weights());
  }

  void handle(Load& load) {
    loading_ = false;
    absl::Status there = end(load);
    if (load.done) load.done(std::move(there));
    for (BatchRun& batch : std::exchange(waiting_, {})) handle(batch);
    for (Ahead& ahead : std::exchange(later_, {})) handle(ahead);
  }

  std::vector<const Known*> with(VariantId weights) const {
    std::vector<const Known*> all;
    for (const auto& [id, known] : known_) {
      if (known.weights() == weights) all.push_back(&known);
    }
    return all;
  }

  std::vector<Loaded>::iterator find(VariantId weights) {
    return std::find_if(loaded_.begin(), loaded_.end(),
                        [&](const Loaded& l) { return l.weights == weights; });
  }

  // The most recently used stands last. False: it has to be loaded.
  bool use(const Known& known) {
    const auto it = find(known.weights());
    if (it == loaded_.end() || !contains(it->variants, known.variant->id)) return false;
    std::rotate(it, it + 1, loaded_.end());
    return true;
  }

  static bool contains(const std::vector<VariantId>& all, VariantId one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  }

  // Makes room for it. Of those whose siblings are there it alone is loaded: it failed before.
  Load begin(const Known& known) {
    Load load{.result = {.weights = known.weights()}, .wanted = known.variant->id};
    const auto there = find(known.weights());
    if (there != loaded_.end()) {
      load.together = {known.variant};
      return load;
    }
    for (const Known* one : with(known.weights())) {
      load.together.push_back(one->variant);
      load.result.memory_mb = std::max(load.result.memory_mb, one->memory_mb);
    }
    while (used_mb_ + load.result.memory_mb > limit_mb_ && !loaded_.empty()) {
      evict(loaded_.front().weights);
    }
    used_mb_ += load.result.memory_mb;
    return load;
  }

  // On either thread. A variant that does not load fails alone.
  void carry_out(Load& load, Executor& inner) const {
    const Time start = monotonic_now();
    double load_ms = 0;
    for (const auto& one : load.together) {
      absl::Status status = inner.load(one);
      if (status.ok()) load.result.variants.push_back(one->id);
      if (one->id != load.wanted) continue;
      load.status = std::move(status);
      load_ms = one->profile_on(type_).load_ms;
    }
    const Time end = start + Duration::from_millis(load_ms);
    Parker parker;
    while (emulated_ && monotonic_now() < end) parker.park_until(end);
  }

  absl::Status end(Load& load) {
    Loaded& result = load.result;
    for (const VariantId id : result.variants) {
      if (!known_.contains(id)) inner_->unload(id);  // it has gone meanwhile
    }
    std::erase_if(result.variants, [this](VariantId id) { return !known_.contains(id); });
    const auto there = find(result.weights);
    if (there != loaded_.end()) {
      there->variants.insert(there->variants.end(), result.variants.begin(), result.variants.end());
    } else if (load.status.ok() && !result.variants.empty()) {
      loaded_.push_back(std::move(result));
    } else {
      used_mb_ -= result.memory_mb;
      for (const VariantId id : result.variants) inner_->unload(id);
    }
    return std::move(load.status);
  }

  void evict(VariantId weights) {
    const auto it = find(weights);
    if (it == loaded_.end()) return;
    const Loaded gone = std::move(*it);
    used_mb_ -= gone.memory_mb;
    loaded_.erase(it);
    for (const VariantId id : gone.variants) inner_->unload(id);
  }

  const double limit_mb_;
  const uint32_t type_;
  const bool emulated_;
  const std::shared_ptr<Executor> inner_;
  moodycamel::ConcurrentQueue<Event> events_;
  moodycamel::ProducerToken in_order_{events_};  // runs, whichever threads they come from
  Parker parker_;
  // The thread's own:
  absl::flat_hash_map<VariantId, Known> known_;
  std::vector<Loaded> loaded_;
  double used_mb_ = 0;
  bool loading_ = false;           // ahead, on the other thread
  std::vector<BatchRun> waiting_;  // for that to end
  std::vector<Ahead> later_;       // the same
  BackgroundThread<Load> loader_;
  std::thread thread_;
};

}  // namespace

std::shared_ptr<Executor> make_resident_executor(std::shared_ptr<Executor> inner,
                                                 const WorkerOptions& options, uint32_t type) {
  return std::make_unique<ResidentExecutor>(std::move(inner), options, type);
}

}  // namespace fermata::engine
