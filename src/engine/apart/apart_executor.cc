#include "engine/apart/apart_executor.h"

#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/apart/answer.h"
#include "engine/apart/processes.h"
#include "engine/apart/record.h"
#include "engine/apart/run_times.h"
#include "engine/execute/absence.h"
#include "engine/execute/backend.h"
#include "engine/execute/batch_thread.h"
#include "engine/execute/gather.h"
#include "engine/threads/periodic.h"

namespace fermata::engine {
namespace {

using apart::ModelProcess;
using apart::Processes;
using apart::Supervised;

// How long one that was asked to stop has until it is killed.
constexpr Duration kGrace = Duration::millis(250);
// By how much later than asked for the system may wake a thread that waits for a run to end.
constexpr Duration kTimerSlack = Duration::micros(1);
// Between two looks at a run that has not ended; its end is told at once.
constexpr Duration kLookAtRun = Duration::millis(50);
// From which on it takes longer to copy a batch than to wake a process that looks then.
constexpr uint64_t kWorthRousing = 64 << 10;
// Until what batches of a model have touched of its shared memory goes back to the system.
constexpr Duration kIdle = Duration::seconds(2);
// The most that is copied for a batch by whoever brings it, which may be a scheduler.
constexpr uint64_t kGatheredAtOnce = 256 << 10;

class ApartExecutor : public Executor {
 public:
  explicit ApartExecutor(std::shared_ptr<Processes> processes)
      : processes_(std::move(processes)),
        thread_(std::in_place, [this](BatchRun& batch) { run_batch(batch); }) {}

  ~ApartExecutor() override {
    thread_.reset();
    for (auto& [id, loaded] : loaded_) {
      loaded.supervised->forget(this);
      leave(std::move(loaded), id);
    }
  }

  absl::Status load(std::shared_ptr<const Variant> variant) override {
    thread_->wait();  // an earlier unload of it
    if (find(variant->id)) return absl::OkStatus();
    Processes::Seat seat = processes_->of(*variant, this);
    Loaded loaded{variant, std::move(seat.supervised), seat.slot,
                  backend_of(variant->config).command != nullptr};
    if (absl::Status failed = loaded.supervised->load(this, variant, deaths_); !failed.ok()) {
      processes_->leave(*variant, this);
      return failed;
    }
    const std::lock_guard lock(mutex_);
    if (!processors_.empty()) loaded.supervised->pin(loaded.slot, processors_);
    loaded_[variant->id] = std::move(loaded);
    return absl::OkStatus();
  }

  void unload(VariantId id) override {
    thread_->post([this, id] {
      Loaded gone;
      {
        const std::lock_guard lock(mutex_);
        const auto it = loaded_.find(id);
        if (it == loaded_.end()) return;
        gone = std::move(it->second);
        loaded_.erase(it);
      }
      // Who waits for the process may be served elsewhere.
      std::vector<absl::AnyInvocable<void()>> waited = gone.supervised->forget(this);
      leave(std::move(gone), id);
      for (auto& there : waited) there();
    });
  }

  // Where nothing has the slot, whoever brings a batch begins it, unless that takes long: its
  // process starts while this worker's thread wakes.
  void run(BatchRun batch) override {
    if (outstanding_.fetch_add(1) == 0 && begins_at_once(batch)) {
      const std::optional<Loaded> loaded = find(batch.variant);
      FERMATA_CHECK(loaded.has_value());
      begun_ = begin(*loaded, batch.to_the_end, batch.parts);
    }
    thread_->run(std::move(batch));
  }

  // No thread has to wake for the answer. Memory that is being given back goes first.
  BatchResult run_here(BatchRun batch) override {
    BatchResult ended;
    batch.done = [&ended](BatchResult result) { ended = std::move(result); };
    for (outstanding_.fetch_add(1); outstanding_ > 1; std::this_thread::yield()) thread_->wait();
    run_batch(batch);
    return ended;
  }

  void when_back(VariantId id, absl::AnyInvocable<void()> there) override {
    const std::optional<Loaded> loaded = find(id);
    if (!loaded) return there();
    loaded->supervised->when_back(this, std::move(there));
  }

  void tell_deaths(Deaths deaths) override { deaths_ = std::move(deaths); }
  void terminate() override { stop_now_ = true; }
  void end_soon(Duration limit) override { latest_ = (monotonic_now() + limit).nanos(); }
  RunHealth health() const override { return {overdue_, lost_}; }
  bool runs_apart() const override { return true; }
  double memory_mb() const override {
    std::set<std::shared_ptr<Supervised>> own;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [id, loaded] : loaded_) own.insert(loaded.supervised);
    }
    double sum = 0;
    for (const auto& one : own) sum += one->memory_mb();
    return sum;
  }

  // Of the shared memory what batches touched, of models of which none has run for a while. Only
  // while no batch is here: else whoever brings the next one may begin it meanwhile.
  void give_back_memory() {
    uint32_t none = 0;
    if (!keeps_.load() || !outstanding_.compare_exchange_strong(none, 1)) return;
    thread_->post([this] {
      const Time idle = monotonic_now() - kIdle;
      absl::erase_if(used_, [this, idle](const auto& entry) {
        const auto& [id, last] = entry;
        if (last > idle) return false;
        if (const std::optional<Loaded> loaded = find(id)) {
          const auto process = loaded->supervised->take();
          if (process.ok()) (*process)->area().trim(loaded->slot);
        }
        return true;
      });
      keeps_ = !used_.empty();
      outstanding_.fetch_sub(1);
    });
  }

  void pin(const std::vector<uint32_t>& processors) override {
    thread_->pin(processors);
    const std::lock_guard lock(mutex_);
    processors_ = processors;
    for (const auto& [id, loaded] : loaded_) loaded.supervised->pin(loaded.slot, processors);
  }

 private:
  struct Loaded {
    std::shared_ptr<const Variant> variant;
    std::shared_ptr<Supervised> supervised;
    uint32_t slot = 0;
    bool notes = false;  // it reads what clients say of their requests
  };

  // The scheduler's thread does not wait for a process that ends.
  void leave(Loaded gone, VariantId id) {
    gone.supervised->unload(this, id);
    processes_->leave(*gone.variant, this);
    processes_->sweep_later(std::move(gone.supervised));
  }

  std::optional<Loaded> find(VariantId id) const {
    const std::lock_guard lock(mutex_);
    const auto it = loaded_.find(id);
    return it == loaded_.end() ? std::nullopt : std::optional(it->second);
  }

  // What a process runs.
  struct Begun {
    std::shared_ptr<ModelProcess> process;
    apart::Asking asking;
    Time start, gathered;
  };

  static bool begins_at_once(const BatchRun& batch) {
    const auto alone = [](const BatchPart& part) { return part.alone; };
    if (batch.parts.size() > 1 && absl::c_any_of(batch.parts, alone)) return false;
    return bytes_of(batch.parts) <= std::min(kGatheredAtOnce, batch.most_bytes);
  }

  void run_batch(BatchRun& batch) {
    std::optional<absl::StatusOr<Begun>> begun = std::exchange(begun_, std::nullopt);
    const std::optional<Loaded> loaded = find(batch.variant);
    FERMATA_CHECK(loaded.has_value());
    BatchResult result;
    result.started = begun && begun->ok() ? (*begun)->start : monotonic_now();
    stop_now_ = false;
    thread_local bool wakes_in_time = false;
    if (!std::exchange(wakes_in_time, true)) prctl(PR_SET_TIMERSLACK, kTimerSlack.nanos());
    limit_ = result.started + batch.limit;
    run_parts(batch, result, [&](absl::Span<const BatchPart> parts, BatchResult& into) {
      if (!begun) begun = begin(*loaded, batch.to_the_end, parts);
      return end(*std::exchange(begun, std::nullopt), into);
    });
    overdue_ = false;
    used_[batch.variant] = result.started;
    keeps_ = true;
    outstanding_.fetch_sub(1);
    batch.done(std::move(result));
  }

  static absl::StatusOr<Begun> begin(const Loaded& loaded, bool to_the_end,
                                     absl::Span<const BatchPart> parts) {
    const Signature& signature = loaded.variant->signature;
    const Time start = monotonic_now();
    ASSIGN_OR_RETURN(auto process, loaded.supervised->take());
    const apart::Area& area = process->area();
    const absl::Span<std::byte> memory = area.inputs(loaded.slot);
    apart::SlotHead& head = area.slot(loaded.slot);
    if (area.look() > Duration() && bytes_of(parts) >= kWorthRousing) {
      apart::rouse(apart::asked_of(head));
    }
    ASSIGN_OR_RETURN(const std::vector<OnnxInput> inputs,
                     gather_into(signature, parts, memory, apart::kAlignment));
    apart::Asking asking{loaded.slot, process->next_number(loaded.slot), loaded.variant->id,
                         &signature,  output_names(signature, parts),    parts};
    RETURN_IF_ERROR(apart::write_request({.number = asking.number,
                                          .variant = loaded.variant->id.value(),
                                          .to_the_end = to_the_end,
                                          .inputs = inputs,
                                          .base = memory.data() - area.offset_of(memory.data()),
                                          .outputs = asking.outputs,
                                          .parts = parts,
                                          .notes = loaded.notes},
                                         signature, area.request(loaded.slot)));
    const Time gathered = monotonic_now();
    apart::tell(apart::asked_of(head), asking.number);
    return Begun{std::move(process), std::move(asking), start, gathered};
  }

  absl::Status end(const absl::StatusOr<Begun>& begun, BatchResult& result) {
    RETURN_IF_ERROR(begun.status());
    const auto& [process, asking, start, gathered] = *begun;
    result.input += gathered - start;
    absl::Status ended = await(*process, asking, gathered);
    const Time ran = monotonic_now();
    result.run += ran - gathered;
    RETURN_IF_ERROR(ended);
    times_.took(asking.variant, items_of(asking.parts), ran - gathered);
    absl::Status taken = apart::take_answer(*process, asking, result);
    result.output += monotonic_now() - ran;
    return taken;
  }

  // Until the run has ended or its process has; asks it to stop at its limit, and kills it. Sleeps
  // until shortly before the run should end, and looks then.
  absl::Status await(ModelProcess& process, const apart::Asking& asking, Time asked) {
    const apart::Word answered = apart::answered_of(process.area().slot(asking.slot));
    Time told = Time::infinite();
    const Time began = monotonic_now();
    auto [look_from, look_for] = times_.look(asking.variant, items_of(asking.parts), asked);
    if (process.area().look() <= Duration()) look_from = Time::infinite();
    while (true) {
      const uint32_t seen = apart::load_word(&answered.value);
      if (seen == asking.number) return stopped(told, began);
      if (process.dead()) return how_lost(process, told, began, asking.parts);
      const Time now = monotonic_now();
      const Time limit = std::min(limit_, Time::from_nanos(latest_.load()));
      if (told.is_infinite() && (now >= limit || stop_now_)) {
        told = now;
        overdue_ = true;
        process.tell({{"op", "stop"}, {"slot", asking.slot}});
      } else if (now >= told + kGrace) {
        process.kill_for("was ended for a run that took too long (workers.run_limit_s)",
                         "run_limit");
      }
      if (now >= look_from) {
        look_from = Time::infinite();
        if (apart::look(answered, seen, look_for, wait_)) continue;
      }
      const Time look = std::min(now + kLookAtRun, told.is_infinite() ? limit : told + kGrace);
      const Time until = std::min(std::max(look, now + Duration::micros(100)), look_from);
      apart::futex_wait(&answered.value, seen, until);
    }
  }

  // Of one that was told to stop: so its parts fail, whatever it says of them.
  absl::Status stopped(Time told, Time began) const {
    if (told.is_infinite()) return absl::OkStatus();
    return error(absl::StatusCode::kInternal,
                 "the model was stopped after {:.1f} s: it did not end by itself",
                 (told - began).seconds());
  }

  absl::Status how_lost(ModelProcess& process, Time told, Time began,
                        absl::Span<const BatchPart> parts) {
    ++lost_;
    if (!told.is_infinite()) return stopped(told, began);
    const bool last = parts.size() == 1 && parts.front().last;
    return absent(Absence::kLost, internal("the model's process {} while it ran this{}",
                                           last ? process.how_it_ended() : "died",
                                           last ? " request, as another did before" : ""));
  }

  const std::shared_ptr<Processes> processes_;
  Deaths deaths_;
  std::atomic<bool> overdue_{false}, stop_now_{false};
  std::atomic<int64_t> latest_{std::numeric_limits<int64_t>::max()};  // for any run to end
  std::atomic<uint64_t> lost_{0};
  mutable std::mutex mutex_;
  std::map<VariantId, Loaded> loaded_;
  std::vector<uint32_t> processors_;            // empty: any
  std::atomic<uint32_t> outstanding_{0};        // batches that it has and has not run
  std::atomic<bool> keeps_{false};              // some of `used_`
  std::optional<absl::StatusOr<Begun>> begun_;  // the only one of them
  // Of the thread that runs batches:
  Time limit_;
  absl::flat_hash_map<VariantId, Time> used_;  // whose slots may hold something, and when last
  apart::RunTimes times_;
  ShortWait wait_;
  std::optional<BatchThread> thread_;  // last: uses the above
};

class ApartExecutors : public ExecutorFactory {
 public:
  ApartExecutors(const WorkerOptions& options, uint32_t type, uint32_t slots, bool together)
      : processes_(std::make_shared<Processes>(options, type, slots, together)) {}
  std::shared_ptr<Executor> make() override {
    auto made = std::make_shared<ApartExecutor>(processes_);
    const std::lock_guard lock(mutex_);
    std::erase_if(made_, [](const auto& each) { return each.expired(); });
    made_.push_back(made);
    return made;
  }
  absl::StatusOr<inference::ModelConfig> complete(const Variant& variant) override {
    return processes_->complete(variant);
  }
  std::vector<ProcessStatistics> processes() const override { return processes_->statistics(); }
  std::string why_away(const Variant& variant) const override {
    return processes_->why_away(variant);
  }
  void stop_loading() override { processes_->stop_loading(); }
  void be_quiet() override { processes_->be_quiet(); }
  void serve_calls(std::shared_ptr<ModelCalls> calls) override {
    processes_->serve_calls(std::move(calls));
  }

 private:
  void give_back_memory() {
    std::vector<std::weak_ptr<ApartExecutor>> all;
    {
      const std::lock_guard lock(mutex_);
      all = made_;
    }
    for (const auto& each : all) {
      if (const auto one = each.lock()) one->give_back_memory();
    }
  }

  const std::shared_ptr<Processes> processes_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<ApartExecutor>> made_;
  Periodic looks_{kIdle, [this] { give_back_memory(); }};  // last: uses the above
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExecutorFactory>> make_apart_executors(const WorkerOptions& options,
                                                                      uint32_t type) {
  const WorkerType& own = options.types[type];
  if (own.threads < 1) return invalid("workers.threads is 0, expected at least 1");
  if (absl::Status good = backends().front().probe(own); !good.ok()) {
    return invalid("workers.{}", message(good));
  }
  uint32_t slots = options.per_process.value_or(own.threads == 1 ? own.count : 1);
  slots = std::clamp(slots, 1u, std::max(own.count, 1u));
  return std::make_unique<ApartExecutors>(options, type, slots, /*together=*/false);
}

std::unique_ptr<ExecutorFactory> make_helpers(const WorkerOptions& options, uint32_t count) {
  const bool apart =
      options.isolation == Isolation::kProcess && options.executor == ExecutorKind::kOnnxRuntime;
  if (!apart || count == 0) return nullptr;
  WorkerOptions own = options;
  if (own.types.front().remote) own.types = {WorkerType{.name = own.types.front().name}};
  return std::make_unique<ApartExecutors>(own, 0, count, /*together=*/true);
}

}  // namespace fermata::engine
