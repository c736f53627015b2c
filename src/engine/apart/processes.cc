#include "engine/apart/processes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/status.h"
#include "engine/confine/child.h"
#include "engine/confine/machine.h"
#include "engine/confine/nursery.h"
#include "engine/execute/backend.h"
#include "model/dynamic_network.h"
#include "model/model_config.h"

namespace fermata::engine::apart {
namespace {

// Of a slot's data, where inputs or outputs have free dimensions or texts; only what a batch
// touches takes memory.
constexpr uint64_t kFreeSize = uint64_t{1} << 30;
constexpr uint64_t kLeastSize = uint64_t{64} << 10;
// For which a process looks for its next batch before it sleeps: about what its server does between
// two of them.
constexpr Duration kLookForNext = Duration::micros(60);
constexpr const char* kTogether = "(helpers)";  // no model of a repository
constexpr Duration kAtMostStarting = Duration::seconds(30);
constexpr Duration kCompleting = Duration::seconds(120);

uint64_t most_bytes(const std::vector<TensorSpec>& specs, const Signature& signature) {
  uint64_t sum = kLeastSize;
  for (const TensorSpec& spec : specs) {
    uint64_t bytes = element_size(spec.datatype) * uint64_t{std::max(signature.max_batch, 1u)};
    if (spec.any_rank || bytes == 0) return kFreeSize;
    for (const int64_t dim : spec.model_dims) {
      const bool fits =
          dim >= 0 && !__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes);
      if (!fits || bytes > kFreeSize) return kFreeSize;
    }
    sum += bytes + apart::kAlignment;
  }
  return std::min(sum, kFreeSize);
}

// Whoever looks takes a processor, which no worker may lack: none then where they have no more than
// one each.
Duration look_of(const WorkerOptions& options) {
  uint32_t threads = 0;
  for (const WorkerType& type : options.types) {
    if (!type.remote) threads += type.count * type.threads;
  }
  return own_cores() > threads ? kLookForNext : Duration();
}

}  // namespace

Processes::Processes(const WorkerOptions& options, uint32_t type, uint32_t slots, bool together)
    : options_(options),
      type_(options.types[type]),
      slots_(slots),
      look_(look_of(options)),
      together_(together) {}

// The first that is free. Under the lock.
uint32_t Processes::seat(VariantId weights, const void* worker) {
  std::map<uint32_t, Sitting>& seats = seats_[weights];
  uint32_t free = 0;
  for (auto& [number, sitting] : seats) {
    if (sitting.worker == worker) {
      ++sitting.variants;
      return number;
    }
    if (number == free) ++free;
  }
  seats[free] = {worker, 1};
  return free;
}

bool Processes::shares(const Variant& variant) const {
  return together_ && backend_of(variant.config).command == nullptr;
}

VariantId Processes::home_of(const Variant& variant) const {
  return shares(variant) ? VariantId::none() : variant.loads();
}

void Processes::leave(const Variant& variant, const void* worker) {
  const std::lock_guard lock(mutex_);
  const auto seats = seats_.find(home_of(variant));
  if (seats == seats_.end()) return;
  for (auto seat = seats->second.begin(); seat != seats->second.end(); ++seat) {
    if (seat->second.worker != worker) continue;
    if (--seat->second.variants == 0) seats->second.erase(seat);
    break;
  }
  if (seats->second.empty()) seats_.erase(seats);
}

Processes::Seat Processes::of(const Variant& variant, const void* worker) {
  ModelProcess::Options process = process_for(variant);
  const std::lock_guard lock(mutex_);
  const VariantId home = home_of(variant);
  const uint32_t number = seat(home, worker);
  const uint32_t group = number / process.slots, slot = number % process.slots;
  std::erase_if(known_, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<Supervised>& known = known_[{home, group}];
  if (auto there = known.lock()) return {std::move(there), slot};
  if (opens_once(variant)) {
    process.nursery = opened(home);
    process.opened_once = true;
  }
  std::shared_ptr<Supervised> made(
      new Supervised(shares(variant) ? kTogether : variant.model, process, type_, options_.standby,
                     ledger_),
      [this, home](Supervised* gone) {
        stop_opening(home);
        do_later([gone = std::unique_ptr<Supervised>(gone)]() mutable { gone.reset(); });
      });
  if (!loads_) made->stop_loading();
  known = made;
  return {std::move(made), slot};
}

// Where several processes have the same weights. Threads of a session are not copied.
bool Processes::opens_once(const Variant& variant) const {
  return options_.nursery != nullptr && !shares(variant) && backend_of(variant.config).copied &&
         type_.provider == "cpu" && type_.threads == 1 &&
         (options_.standby || type_.count > slots_);
}

// Under the lock.
std::shared_ptr<Nursery> Processes::opened(VariantId home) {
  std::erase_if(opened_, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<Nursery>& known = opened_[home];
  auto there = known.lock();
  if (there == nullptr) known = there = std::make_shared<Nursery>(options_.nursery);
  return there;
}

// Where none of its processes is wanted any more: the last does not wait for what opens its
// weights, which may hang.
void Processes::stop_opening(VariantId home) {
  std::shared_ptr<Nursery> one;  // its end waits for its thread: not under the lock
  {
    const std::lock_guard lock(mutex_);
    const auto first = known_.lower_bound({home, 0});
    const bool wanted = std::any_of(first, known_.end(), [home](const auto& process) {
      return process.first.first == home && !process.second.expired();
    });
    const auto opened = opened_.find(home);
    if (wanted || opened == opened_.end()) return;
    one = opened->second.lock();
    opened_.erase(opened);
  }
  if (one != nullptr) one->stop();
}

absl::StatusOr<inference::ModelConfig> Processes::complete(const Variant& variant) const {
  ASSIGN_OR_RETURN(const auto process, ModelProcess::start(process_for(variant)));
  {
    const std::lock_guard lock(mutex_);
    if (!loads_) return error(absl::StatusCode::kUnavailable, "the server stops");
    completing_.insert(process.get());
  }
  auto answer = inquire(*process, variant);
  const std::lock_guard lock(mutex_);
  completing_.erase(process.get());
  return answer;
}

absl::StatusOr<inference::ModelConfig> Processes::inquire(ModelProcess& process,
                                                          const Variant& variant) const {
  if (absl::Status there = process.greet(monotonic_now() + kAtMostStarting); !there.ok()) {
    return invalid("{}: {}; {} should run it (workers.python)", variant.file, message(there),
                   fmt::join(command_of(variant), " "));
  }
  const auto answer = process.inquire({{"op", "complete"},
                                       {"model", variant.model},
                                       {"version", variant.version},
                                       {"file", variant.file},
                                       {"config", config_text(variant.config)}},
                                      monotonic_now() + kCompleting);
  if (absl::IsUnavailable(answer.status())) {
    process.kill();
    return invalid("{}: its process {} as it read it", variant.file, process.how_it_ended());
  }
  if (absl::IsDeadlineExceeded(answer.status())) {
    return invalid("{}: its process did not read it in {:.0f} s", variant.file,
                   kCompleting.seconds());
  }
  RETURN_IF_ERROR(answer.status());
  if (!answer->contains("config") || !(*answer)["config"].is_string()) {
    return internal("{}: its process answered without a configuration", variant.file);
  }
  return parse_model_config((*answer)["config"].get<std::string>(), variant.file);
}

// The loader has seen that there is one.
std::vector<std::string> Processes::command_of(const Variant& variant) const {
  const Backend& backend = backend_of(variant.config);
  if (backend.command == nullptr) return {};
  return backend.command(variant, type_, options_).value_or(std::vector<std::string>());
}

void Processes::stop_loading() {
  std::vector<std::shared_ptr<Nursery>> opened;
  {
    const std::lock_guard lock(mutex_);
    loads_ = false;
    for (ModelProcess* process : completing_) process->kill();
    for (const auto& [home, known] : opened_) {
      if (auto one = known.lock()) opened.push_back(std::move(one));
    }
  }
  for (const auto& one : opened) one->stop();
  for (const auto& [key, one] : all()) one->stop_loading();
}

// Whoever is the last to have one of them does not end it (of()).
std::map<Processes::Key, std::shared_ptr<Supervised>> Processes::all() const {
  std::map<Key, std::shared_ptr<Supervised>> result;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, known] : known_) {
    if (auto there = known.lock()) result.emplace(key, std::move(there));
  }
  return result;
}

std::vector<ProcessStatistics> Processes::statistics() const {
  std::map<std::string, ProcessStatistics> rows = ledger_->rows();
  for (const auto& [key, one] : all()) {
    ProcessStatistics& row = rows[one->model()];
    row.quarantined = row.quarantined || one->quarantined();
    row.there = row.there || one->there();
    row.standby = row.standby || one->has_standby();
    row.processor_s += one->processor_time().seconds();
  }
  std::vector<ProcessStatistics> result;
  for (auto& [model, row] : rows) {
    row.model = model;
    result.push_back(std::move(row));
  }
  return result;
}

std::string Processes::why_away(const Variant& variant) const {
  for (const auto& [key, one] : all()) {
    if (key.first != variant.loads()) continue;
    if (std::string why = one->why_away(); !why.empty()) return why;
  }
  return {};
}

ModelProcess::Options Processes::process_for(const Variant& variant) const {
  const Backend& backend = backend_of(variant.config);
  ModelProcess::Options process{.slots = backend.command == nullptr ? slots_ : 1,
                                .may_fail = backend.command != nullptr,
                                .look = look_,
                                .quietly = quietly_ && type_.threads == 1,
                                .calls = backend.command != nullptr ? calls_ : nullptr,
                                .processor = options_.process_processor};
  process.command = {options_.program, "model-process"};
  process.nursery = options_.nursery;
  const std::filesystem::path version = std::filesystem::path(variant.file).parent_path();
  const bool shared = shares(variant);
  const double memory_mb = options_.process_memory_mb.value_or(
      usual_limit_mb(shared ? version.parent_path().parent_path() : version));
  // GPUs' libraries take more than there is.
  if (type_.provider == "cpu" && std::isfinite(memory_mb)) {
    process.memory_mb = memory_mb;
    process.command.push_back(fmt::format("--memory-mb={:.0f}", memory_mb));
  }
  if (type_.provider != "cpu") process.command.emplace_back("--devices");
  if (backend.command != nullptr) {
    process.command.push_back(fmt::format("--backend={}", backend.name));
    process.command.emplace_back("--");
    for (std::string& word : command_of(variant)) process.command.push_back(std::move(word));
  }
  const auto network = dynamic_network(variant.config);
  const bool widths = network.ok() && network->has_value();  // of which others are larger
  const Signature& signature = variant.signature;
  const bool any = widths || shared;
  process.inputs_each = any ? kFreeSize : most_bytes(signature.inputs, signature);
  process.outputs_each = any ? kFreeSize : most_bytes(signature.outputs, signature);
  return process;
}

}  // namespace fermata::engine::apart
