#include "engine/execute/run_watch.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/catalog.h"

namespace fermata::engine {
namespace {

// An executor that was given up, until all that it was given to run has ended.
struct LeftBehind {
  std::shared_ptr<Executor> executor;
  std::shared_ptr<const std::atomic<size_t>> running;
};

std::mutex g_mutex;
std::vector<LeftBehind>* g_left_behind = nullptr;  // of a process that ends, some never do

void leave_behind(LeftBehind left) {
  const std::lock_guard lock(g_mutex);
  if (g_left_behind == nullptr) g_left_behind = new std::vector<LeftBehind>();
  g_left_behind->push_back(std::move(left));
}

// Frees those whose runs have ended.
void forget_ended() {
  std::vector<LeftBehind> ended;
  const std::lock_guard lock(g_mutex);
  if (g_left_behind == nullptr) return;
  const auto over = [](const LeftBehind& left) { return *left.running == 0; };
  std::copy_if(g_left_behind->begin(), g_left_behind->end(), std::back_inserter(ended), over);
  std::erase_if(*g_left_behind, over);
}

std::map<const Variant*, uint32_t> g_given_up;  // on how many workers

// That a worker runs it no more, for as long as this lives.
class GivenUp {
 public:
  explicit GivenUp(std::shared_ptr<const Variant> variant) : variant_(std::move(variant)) {
    const std::lock_guard lock(g_mutex);
    ++g_given_up[variant_.get()];
  }
  ~GivenUp() {
    const std::lock_guard lock(g_mutex);
    const auto count = g_given_up.find(variant_.get());
    if (--count->second == 0) g_given_up.erase(count);
  }
  GivenUp(const GivenUp&) = delete;
  GivenUp& operator=(const GivenUp&) = delete;

 private:
  const std::shared_ptr<const Variant> variant_;  // its address is its own
};

BatchResult failed(size_t parts, Time started, const absl::Status& why) {
  BatchResult result{.started = started, .run = monotonic_now() - started};
  for (size_t i = 0; i < parts; ++i) result.parts.emplace_back(why);
  return result;
}

}  // namespace

uint64_t abandoned_runs() {
  const std::lock_guard lock(g_mutex);
  return g_left_behind == nullptr ? 0 : g_left_behind->size();
}

bool is_given_up(const Variant& variant) {
  const std::lock_guard lock(g_mutex);
  return g_given_up.contains(&variant);
}

class RunWatch::Watched final : public Executor {
 public:
  explicit Watched(Make make) : make_(std::move(make)), inner_(make_()) {}

  absl::Status load(std::shared_ptr<const Variant> variant) override {
    std::shared_ptr<Executor> inner;
    {
      const std::lock_guard lock(queue_->mutex);
      inner = inner_;
    }
    RETURN_IF_ERROR(inner->load(variant));
    const std::lock_guard lock(queue_->mutex);
    const VariantId id = variant->id;
    variants_[id] = std::move(variant);
    return absl::OkStatus();
  }

  void unload(VariantId id) override {
    const std::lock_guard lock(queue_->mutex);
    variants_.erase(id);
    given_up_.erase(id);
    inner_->unload(id);
  }

  void run(BatchRun batch) override {
    auto run = std::make_shared<Run>();
    run->variant = batch.variant;
    run->parts = batch.parts.size();
    run->limit = batch.limit;
    run->done = std::move(batch.done);
    batch.done = [queue = queue_, run](BatchResult result) {
      ended(*queue, run, std::move(result));
    };
    // Given to it without the lock, which its thread wants as soon as it has run. Where it is
    // renewed in between, the run is among those that were lost.
    std::shared_ptr<Executor> inner;
    {
      const std::lock_guard lock(queue_->mutex);
      run->started = monotonic_now();
      if (!fails_at_once(run->variant)) {
        queue_->runs.push_back(run);
        if (renewing_) return held_.push_back(std::move(batch));
        inner = inner_;
      }
    }
    if (inner != nullptr) return inner->run(std::move(batch));
    run->done(failed(run->parts, run->started,
                     error(absl::StatusCode::kUnavailable,
                           "{} runs of this model were given up on this worker and have not ended "
                           "yet: try again later, or load it again",
                           kMostLeftBehind)));
  }

  void end_soon(Duration limit) override {
    const std::lock_guard lock(queue_->mutex);
    latest_ = std::min(latest_, monotonic_now() + limit);
  }

  void pin(const std::vector<uint32_t>& processors) override {
    const std::lock_guard lock(queue_->mutex);
    processors_ = processors;
    inner_->pin(processors);
  }

  RunHealth health() const override {
    const std::lock_guard lock(queue_->mutex);
    return {!queue_->runs.empty() && queue_->runs.front()->told_at.has_value(), renewals_};
  }

  // What the watch does now and then.
  void look(Time now, Duration grace) {
    VariantId stuck;
    {
      const std::lock_guard lock(queue_->mutex);
      for (const auto& [id, _] : given_up_) (void)fails_at_once(id);
      if (queue_->runs.empty() || renewing_) return;
      Run& head = *queue_->runs.front();
      if (now < std::min(head.started + head.limit, latest_)) return;
      if (!head.told_at) {
        head.told_at = now;
        spdlog::error("a run of model '{}' has not ended after {:.1f} s and is told to stop",
                      name_of(head.variant), (now - head.started).seconds());
        return inner_->terminate();
      }
      if (now < *head.told_at + grace) return;
      renewing_ = true;
      stuck = head.variant;
    }
    renew(stuck);
  }

  void terminate() override {
    const std::lock_guard lock(queue_->mutex);
    inner_->terminate();
  }

 private:
  struct Run {
    VariantId variant;
    size_t parts = 0;
    // The next three are guarded by the mutex of its queue.
    Time started;  // of the run itself: when it was given, or the one before it ended
    Duration limit;
    std::optional<Time> told_at;  // to stop
    std::atomic<bool> ended{false};
    // Of the executor that it was left behind with: how much of that goes on. Set before `ended`.
    std::shared_ptr<std::atomic<size_t>> left_behind;
    // Called once, but kept for as long as an executor may read the inputs: what it holds owns
    // them.
    absl::AnyInvocable<void(BatchResult)> done;
  };
  // Of a variant: what goes on of each executor that was left behind for it, and that it fails
  // because of that.
  struct GoesOn {
    std::vector<std::shared_ptr<std::atomic<size_t>>> running;
    std::unique_ptr<GivenUp> given_up;
  };
  // What it was given to run, in the order of their start; the first is under way.
  struct Queue {
    std::mutex mutex;
    std::deque<std::shared_ptr<Run>> runs;
  };

  // On the executor's thread, which must not be the last to hold the executor.
  static void ended(Queue& queue, const std::shared_ptr<Run>& run, BatchResult result) {
    if (run->ended.exchange(true)) {  // it was given up
      if (run->left_behind != nullptr) --*run->left_behind;
      return;
    }
    {
      const std::lock_guard lock(queue.mutex);
      std::erase(queue.runs, run);
      if (!queue.runs.empty()) queue.runs.front()->started = monotonic_now();
    }
    if (run->told_at) {
      for (auto& part : result.parts) {
        if (!part.ok()) part = stopped(*run);
      }
    }
    run->done(std::move(result));
  }

  static absl::Status stopped(const Run& run) {
    if (!run.told_at) return internal("the worker was replaced: the run before did not end");
    return internal("the model was stopped after {:.1f} s: it did not end by itself",
                    (*run.told_at - run.started).seconds());
  }

  std::string name_of(VariantId id) const {
    const auto it = variants_.find(id);
    return it == variants_.end() ? "" : it->second->model;
  }

  // Under the lock: what has ended meanwhile counts no more.
  bool fails_at_once(VariantId id) {
    const auto of_it = given_up_.find(id);
    if (of_it == given_up_.end()) return false;
    GoesOn& goes_on = of_it->second;
    std::erase_if(goes_on.running, [](const auto& running) { return *running == 0; });
    const auto known = variants_.find(id);
    if (goes_on.running.size() < kMostLeftBehind || known == variants_.end()) {
      goes_on.given_up.reset();
      return false;
    }
    if (goes_on.given_up == nullptr) goes_on.given_up = std::make_unique<GivenUp>(known->second);
    return true;
  }

  // The thread that is in the model is left alone with all that it may still use.
  void renew(VariantId stuck) {
    std::vector<std::shared_ptr<const Variant>> variants;
    std::vector<uint32_t> processors;
    {
      const std::lock_guard lock(queue_->mutex);
      for (const auto& [id, variant] : variants_) variants.push_back(variant);
      processors = processors_;
    }
    std::shared_ptr<Executor> next = make_();
    if (!processors.empty()) next->pin(processors);
    for (const auto& variant : variants) {
      if (absl::Status loaded = next->load(variant); !loaded.ok()) {
        spdlog::error("model '{}' cannot be loaded again: {}", variant->model, message(loaded));
      }
    }
    std::deque<std::shared_ptr<Run>> lost;
    {
      const std::lock_guard lock(queue_->mutex);
      const auto kept = queue_->runs.end() - static_cast<std::ptrdiff_t>(held_.size());
      // Where one has ended after all, its reply is on its way.
      auto running = std::make_shared<std::atomic<size_t>>(0);
      for (auto run = queue_->runs.begin(); run != kept; ++run) {
        (*run)->left_behind = running;
        ++*running;
        if ((*run)->ended.exchange(true)) {
          --*running;
        } else {
          lost.push_back(*run);
        }
      }
      given_up_[stuck].running.push_back(running);
      (void)fails_at_once(stuck);
      queue_->runs.erase(queue_->runs.begin(), kept);
      if (!queue_->runs.empty()) queue_->runs.front()->started = monotonic_now();
      leave_behind({std::exchange(inner_, std::move(next)), std::move(running)});
      for (BatchRun& batch : held_) inner_->run(std::move(batch));
      held_.clear();
      renewing_ = false;
      ++renewals_;
    }
    spdlog::error(
        "a run of model '{}' did not stop when it was told to and is left behind: its "
        "worker goes on with a new executor",
        name_of(stuck));
    for (const auto& run : lost) run->done(failed(run->parts, run->started, stopped(*run)));
  }

  const Make make_;
  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  // Guarded by the queue's mutex:
  std::shared_ptr<Executor> inner_;
  absl::flat_hash_map<VariantId, std::shared_ptr<const Variant>> variants_;
  absl::flat_hash_map<VariantId, GoesOn> given_up_;
  std::vector<uint32_t> processors_;  // empty: any
  std::vector<BatchRun> held_;        // of the last runs, while the executor is renewed
  Time latest_ = Time::infinite();    // for any run
  bool renewing_ = false;
  uint64_t renewals_ = 0;
};

RunWatch::RunWatch(Duration period, Duration grace)
    : grace_(grace), timer_(period, [this] { look(); }) {}

RunWatch::~RunWatch() = default;

std::shared_ptr<Executor> RunWatch::over(Make make) {
  auto watched = std::make_shared<Watched>(std::move(make));
  const std::lock_guard lock(mutex_);
  std::erase_if(watched_, [](const auto& known) { return known.expired(); });
  watched_.push_back(watched);
  return watched;
}

void RunWatch::look() {
  std::vector<std::shared_ptr<Watched>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& known : watched_) {
      if (auto watched = known.lock()) all.push_back(std::move(watched));
    }
  }
  for (const auto& watched : all) watched->look(monotonic_now(), grace_);
  forget_ended();
}

}  // namespace fermata::engine
