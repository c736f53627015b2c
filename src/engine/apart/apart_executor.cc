#include "engine/apart/apart_executor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/apart/processes.h"
#include "engine/apart/record.h"
#include "engine/execute/absence.h"
#include "engine/execute/backend.h"
#include "engine/execute/batch_thread.h"
#include "engine/execute/emulated_executor.h"
#include "engine/execute/gather.h"

namespace fermata::engine {
namespace {

using apart::ModelProcess;
using apart::Processes;
using apart::Supervised;

// How long one that was asked to stop has until it is killed.
constexpr Duration kGrace = Duration::millis(250);
// Between two looks at a run that has not ended; its end is told at once.
constexpr Duration kLookAtRun = Duration::millis(50);
// What a larger batch has touched of a slot's data is given back.
constexpr uint64_t kKeptOfSlot = uint64_t{32} << 20;

class ApartExecutor : public Executor {
 public:
  ApartExecutor(std::shared_ptr<Processes> processes, uint32_t worker)
      : processes_(std::move(processes)),
        worker_(worker),
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
    Processes::Seat seat = processes_->of(*variant, worker_);
    Loaded loaded{variant, std::move(seat.supervised), seat.slot,
                  backend_of(variant->config).command != nullptr};
    RETURN_IF_ERROR(loaded.supervised->load(this, variant));
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

  void run(BatchRun batch) override { thread_->run(std::move(batch)); }

  void when_back(VariantId id, absl::AnyInvocable<void()> there) override {
    const std::optional<Loaded> loaded = find(id);
    if (!loaded) return there();
    loaded->supervised->when_back(this, std::move(there));
  }

  void terminate() override { stop_now_ = true; }
  void end_soon(Duration limit) override { latest_ = (monotonic_now() + limit).nanos(); }
  RunHealth health() const override { return {overdue_, lost_}; }

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
    processes_->end_later(std::move(gone.supervised));
  }

  std::optional<Loaded> find(VariantId id) const {
    const std::lock_guard lock(mutex_);
    const auto it = loaded_.find(id);
    return it == loaded_.end() ? std::nullopt : std::optional(it->second);
  }

  void run_batch(BatchRun& batch) {
    const std::optional<Loaded> loaded = find(batch.variant);
    FERMATA_CHECK(loaded.has_value());
    BatchResult result;
    result.started = monotonic_now();
    stop_now_ = false;
    limit_ = result.started + batch.limit;
    run_parts(batch.parts, result, [&](absl::Span<const BatchPart> parts, BatchResult& into) {
      return try_parts(*loaded, batch.to_the_end, parts, into);
    });
    overdue_ = false;
    batch.done(std::move(result));
  }

  absl::Status try_parts(const Loaded& loaded, bool to_the_end, absl::Span<const BatchPart> parts,
                         BatchResult& result) {
    const Signature& signature = loaded.variant->signature;
    const Time start = monotonic_now();
    ASSIGN_OR_RETURN(const auto process, loaded.supervised->take());
    const apart::Area& area = process->area();
    const absl::Span<std::byte> memory = area.inputs(loaded.slot);
    ASSIGN_OR_RETURN(const std::vector<OnnxInput> inputs,
                     gather_into(signature, parts, memory, apart::kAlignment));
    const std::vector<std::string> names = output_names(signature, parts);
    const uint32_t number = next_number();
    RETURN_IF_ERROR(apart::write_request({.number = number,
                                          .variant = loaded.variant->id.value(),
                                          .to_the_end = to_the_end,
                                          .inputs = inputs,
                                          .base = memory.data() - area.offset_of(memory.data()),
                                          .outputs = names,
                                          .parts = parts,
                                          .notes = loaded.notes},
                                         signature, area.request(loaded.slot)));
    const Time gathered = monotonic_now();
    result.input += gathered - start;
    apart::SlotHead& head = area.slot(loaded.slot);
    apart::store_word(&head.asked, number);
    apart::futex_wake(&head.asked);
    absl::Status ended = await(*process, loaded.slot, number, parts);
    const Time ran = monotonic_now();
    result.run += ran - gathered;
    RETURN_IF_ERROR(ended);
    absl::Status taken = take_reply(*process, loaded.slot, number, signature, names, parts, result);
    result.output += monotonic_now() - ran;
    return taken;
  }

  // Until the run has ended or its process has; asks it to stop at its limit, and kills it.
  absl::Status await(ModelProcess& process, uint32_t slot, uint32_t number,
                     absl::Span<const BatchPart> parts) {
    uint32_t* const answered = &process.area().slot(slot).answered;
    Time told = Time::infinite();
    const Time began = monotonic_now();
    while (true) {
      const uint32_t seen = apart::load_word(answered);
      if (seen == number) return stopped(told, began);
      if (process.dead()) return how_lost(process, told, began, parts);
      const Time now = monotonic_now();
      const Time limit = std::min(limit_, Time::from_nanos(latest_.load()));
      if (told.is_infinite() && (now >= limit || stop_now_)) {
        told = now;
        overdue_ = true;
        process.control().tell({{"op", "stop"}, {"slot", slot}});
      } else if (now >= told + kGrace) {
        process.kill();
      }
      const Time look = std::min(now + kLookAtRun, told.is_infinite() ? limit : told + kGrace);
      apart::futex_wait(answered, seen, std::max(look, now + Duration::micros(100)));
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

  absl::Status take_reply(ModelProcess& process, uint32_t slot, uint32_t number,
                          const Signature& signature, const std::vector<std::string>& names,
                          absl::Span<const BatchPart> parts, BatchResult& result) {
    const apart::Area& area = process.area();
    const absl::Span<std::byte> room = area.outputs(slot);
    const uint64_t begin = area.offset_of(room.data());
    absl::StatusOr<apart::Reply> reply =
        apart::read_reply(area.reply(slot), {.number = number,
                                             .signature = &signature,
                                             .outputs = names,
                                             .parts = static_cast<uint32_t>(parts.size()),
                                             .begin = begin,
                                             .end = begin + room.size()});
    if (!reply.ok()) return lies(process, reply.status());
    RETURN_IF_ERROR(reply->status);
    std::vector<Tensor> whole;
    std::vector<std::vector<Tensor>> by_part(parts.size());
    bool of_parts = false;
    uint64_t used = 0;
    for (const apart::Reply::Output& output : reply->outputs) {
      Tensor tensor{output.spec->name, output.spec->datatype, output.shape, {}};
      std::shared_ptr<std::byte[]> copy(new std::byte[std::max<uint64_t>(output.bytes, 1)]);
      const absl::Span<const std::byte> bytes(copy.get(), output.bytes);
      if (output.bytes > 0) {
        std::memcpy(copy.get(), area.at(output.offset, output.bytes).data(), output.bytes);
      }
      if (tensor.datatype == DataType::kBytes && !are_strings(bytes, output.elements)) {
        return lies(process, internal("the texts of output '{}' are not sound", tensor.name));
      }
      used = std::max(used, output.offset + output.bytes - begin);
      tensor.data = {bytes, std::move(copy)};
      of_parts = output.part != apart::kWhole;
      (of_parts ? by_part[output.part] : whole).push_back(std::move(tensor));
    }
    RETURN_IF_ERROR(hand_out(signature, *reply, of_parts, whole, by_part, parts, result.parts));
    if (std::max(used, items_bytes(parts)) > kKeptOfSlot) area.trim(slot);
    for (const StageRun& stage : reply->stages) result.stages.push_back(stage);
    process.good_runs.fetch_add(1, std::memory_order_relaxed);
    return absl::OkStatus();
  }

  static uint64_t items_bytes(absl::Span<const BatchPart> parts) {
    uint64_t bytes = 0;
    for (const BatchPart& part : parts) {
      for (const Tensor& tensor : *part.inputs) bytes += tensor.data.bytes.size();
    }
    return bytes;
  }

  static absl::Status hand_out(const Signature& signature, const apart::Reply& reply, bool of_parts,
                               const std::vector<Tensor>& whole,
                               const std::vector<std::vector<Tensor>>& by_part,
                               absl::Span<const BatchPart> parts,
                               std::vector<absl::StatusOr<std::vector<Tensor>>>& results) {
    const uint32_t items = items_of(parts);
    uint32_t first = 0;
    std::vector<absl::StatusOr<std::vector<Tensor>>> made;
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto failed = std::find_if(reply.failed.begin(), reply.failed.end(),
                                       [i](const auto& one) { return one.first == i; });
      if (failed != reply.failed.end()) {
        made.emplace_back(failed->second);
      } else if (of_parts) {
        made.push_back(scatter(signature, by_part[i], parts[i], 0, parts[i].items));
      } else {
        made.push_back(scatter(signature, whole, parts[i], first, items));
        if (!made.back().ok()) return made.back().status();
      }
      first += parts[i].items;
    }
    std::move(made.begin(), made.end(), std::back_inserter(results));
    return absl::OkStatus();
  }

  // Who breaks the rules of the shared memory is not asked again.
  static absl::Status lies(ModelProcess& process, const absl::Status& how) {
    spdlog::error("model process {} gave a wrong answer: {}", process.pid(), message(how));
    process.kill();
    return internal("the model's process gave a wrong answer: {}", message(how));
  }

  uint32_t next_number() {
    number_ = number_ == 0x7FFFFFFF ? 1 : number_ + 1;  // the highest bit tells of a death
    return number_;
  }

  const std::shared_ptr<Processes> processes_;
  const uint32_t worker_;
  std::atomic<bool> overdue_{false}, stop_now_{false};
  std::atomic<int64_t> latest_{std::numeric_limits<int64_t>::max()};  // for any run to end
  std::atomic<uint64_t> lost_{0};
  mutable std::mutex mutex_;
  std::map<VariantId, Loaded> loaded_;
  std::vector<uint32_t> processors_;  // empty: any
  // The thread's own:
  Time limit_;
  uint32_t number_ = 0;
  std::optional<BatchThread> thread_;  // last: uses the above
};

class ApartExecutors : public ExecutorFactory {
 public:
  ApartExecutors(const WorkerOptions& options, uint32_t type, uint32_t slots)
      : processes_(std::make_shared<Processes>(options, type, slots)) {}
  std::shared_ptr<Executor> make() override {
    return std::make_shared<ApartExecutor>(processes_, made_++);
  }
  absl::StatusOr<inference::ModelConfig> complete(const Variant& variant) override {
    return processes_->complete(variant);
  }
  std::vector<ProcessStatistics> processes() const override { return processes_->statistics(); }
  std::string why_away(const Variant& variant) const override {
    return processes_->why_away(variant);
  }

 private:
  const std::shared_ptr<Processes> processes_;
  std::atomic<uint32_t> made_{0};
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
  return std::make_unique<ApartExecutors>(options, type, slots);
}

absl::StatusOr<std::unique_ptr<ExecutorFactory>> make_workers(const WorkerOptions& options,
                                                              uint32_t type) {
  if (options.isolation == Isolation::kThread || options.executor == ExecutorKind::kEmulated) {
    return make_executors(options, type);
  }
  ASSIGN_OR_RETURN(auto apart, make_apart_executors(options, type));
  if (options.executor != ExecutorKind::kPaced) return apart;
  return make_emulated_executors(type, std::move(apart));
}

}  // namespace fermata::engine
