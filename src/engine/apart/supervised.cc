#include "engine/apart/supervised.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/status.h"
#include "engine/execute/absence.h"

namespace fermata::engine::apart {
namespace {

constexpr Duration kStarting = Duration::seconds(30), kLoading = Duration::seconds(120);
constexpr Duration kUnloading = Duration::seconds(2);
constexpr Duration kFirstQuarantine = Duration::seconds(1);
constexpr uint32_t kMostDoublings = 6;

std::chrono::nanoseconds chrono_of(Duration duration) {
  return std::chrono::nanoseconds(std::max<int64_t>(duration.nanos(), 0));
}

}  // namespace

void Ledger::started(const std::string& model, int64_t pid) {
  const std::lock_guard lock(mutex_);
  ProcessStatistics& row = rows_[model];
  row.pid = pid;
  ++row.starts;
}

void Ledger::died(const std::string& model, const std::string& cause) {
  const std::lock_guard lock(mutex_);
  ++rows_[model].deaths_by[cause];
}

std::map<std::string, ProcessStatistics> Ledger::rows() const {
  const std::lock_guard lock(mutex_);
  return rows_;
}

Supervised::Supervised(std::string model, ModelProcess::Options process, WorkerType worker,
                       std::shared_ptr<Ledger> ledger)
    : model_(std::move(model)),
      options_(std::move(process)),
      worker_(std::move(worker)),
      ledger_(std::move(ledger)) {}

Supervised::~Supervised() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    if (process_ != nullptr) process_->kill();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (reaper_.joinable()) reaper_.join();
}

absl::Status Supervised::load(const void* user, const std::shared_ptr<const Variant>& variant) {
  const std::lock_guard one_at_a_time(loading_);
  std::unique_lock lock(mutex_);
  const bool known = variants_.contains(variant->id);
  std::shared_ptr<ModelProcess> process = process_;
  if (!known && process != nullptr) {
    lock.unlock();
    absl::Status loaded =
        process->control().ask(load_message(*variant, worker_), monotonic_now() + kLoading);
    lock.lock();
    if (!loaded.ok() && !process->dead()) return loaded;
    if (process == process_ || process->dead()) variants_[variant->id] = variant;
  } else {
    variants_[variant->id] = variant;
  }
  if (state_ == State::kNew || state_ == State::kFailed) {
    if (thread_.joinable()) thread_.join();
    state_ = State::kNew;
    thread_ = std::thread([this] { supervise(); });
  }
  changed_.wait(lock, [this] { return state_ != State::kNew && state_ != State::kAway; });
  if (state_ != State::kThere) {
    const absl::Status why = failure_;
    if (!known) variants_.erase(variant->id);
    return why;
  }
  users_.emplace(variant->id, user);
  return absl::OkStatus();
}

void Supervised::unload(const void* user, VariantId id) {
  const std::lock_guard lock(mutex_);
  users_.erase({id, user});
}

void Supervised::sweep() {
  const std::lock_guard one_at_a_time(loading_);
  std::vector<VariantId> unused;
  std::shared_ptr<ModelProcess> process;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, variant] : variants_) {
      const auto first = users_.lower_bound({id, nullptr});
      if (first == users_.end() || first->first != id) unused.push_back(id);
    }
    for (const VariantId id : unused) variants_.erase(id);
    process = process_;
  }
  if (process == nullptr) return;
  for (const VariantId id : unused) {
    (void)process->control().ask({{"op", "unload"}, {"variant", id.value()}},
                                 monotonic_now() + kUnloading);
  }
}

absl::StatusOr<std::shared_ptr<ModelProcess>> Supervised::take() {
  const std::lock_guard lock(mutex_);
  if (process_ != nullptr) return process_;
  if (state_ == State::kQuarantined) {
    return error(absl::StatusCode::kUnavailable,
                 "the model is in quarantine for {:.1f} s: its process died {} times in a row and "
                 "the last one {}",
                 std::max(0.0, (back_at_ - monotonic_now()).seconds()), in_a_row_, last_death_);
  }
  return absent(Absence::kAway, error(absl::StatusCode::kUnavailable,
                                      "the model's process {} and is started again", last_death_));
}

void Supervised::when_back(const void* user, absl::AnyInvocable<void()> there) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kAway) {
      waiting_.push_back({user, std::move(there)});
      return;
    }
  }
  there();
}

std::vector<absl::AnyInvocable<void()>> Supervised::forget(const void* user) {
  std::vector<absl::AnyInvocable<void()>> forgotten;
  const std::lock_guard lock(mutex_);
  for (Waiting& waiting : waiting_) {
    if (waiting.user == user) forgotten.push_back(std::move(waiting.there));
  }
  std::erase_if(waiting_, [user](const Waiting& waiting) { return waiting.user == user; });
  return forgotten;
}

void Supervised::pin(uint32_t slot, const std::vector<uint32_t>& processors) {
  const std::lock_guard lock(mutex_);
  pinned_[slot] = processors;
  if (process_ == nullptr) return;
  process_->control().tell({{"op", "pin"}, {"slot", slot}, {"processors", processors}});
}

// With all that it had.
absl::StatusOr<std::shared_ptr<ModelProcess>> Supervised::start() {
  ASSIGN_OR_RETURN(auto process, ModelProcess::start(options_, monotonic_now() + kStarting));
  std::vector<std::shared_ptr<const Variant>> variants;
  std::map<uint32_t, std::vector<uint32_t>> pinned;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, variant] : variants_) variants.push_back(variant);
    pinned = pinned_;
  }
  for (const auto& variant : variants) {
    absl::Status loaded =
        process->control().ask(load_message(*variant, worker_), monotonic_now() + kLoading);
    if (loaded.ok()) continue;
    if (!absl::IsUnavailable(loaded) && !absl::IsDeadlineExceeded(loaded)) return loaded;
    process->kill();
    return internal("{}: its process {} as it loaded it", variant->file, process->how_it_ended());
  }
  for (const auto& [slot, processors] : pinned) {
    process->control().tell({{"op", "pin"}, {"slot", slot}, {"processors", processors}});
  }
  return process;
}

void Supervised::supervise() {
  while (true) {
    absl::StatusOr<std::shared_ptr<ModelProcess>> started = start();
    std::unique_lock lock(mutex_);
    if (ending_) return;
    if (!started.ok()) {
      failure_ = started.status();
      last_death_ = fmt::format("did not start again ({})", message(failure_));
      ++in_a_row_;
      if (state_ == State::kNew) {
        state_ = State::kFailed;
        changed_.notify_all();
        return;
      }
    } else {
      process_ = *started;
      state_ = State::kThere;
      ledger_->started(model_, process_->pid());
      tell_all(lock);
      lock.unlock();
      (*started)->await_death();
      lock.lock();
      process_ = nullptr;
      state_ = State::kAway;
      (*started)->declare_dead();
      if (ending_) return;
      in_a_row_ = (*started)->good_runs > 0 ? 1 : in_a_row_ + 1;
      if ((*started)->good_runs > 0) quarantines_ = 0;
      lock.unlock();
      died(*started);
      lock.lock();
    }
    if (in_a_row_ >= kMostDeaths && !pause(lock)) return;
  }
}

// How it ended is known when its memory is free, which nobody has to wait for.
void Supervised::died(const std::shared_ptr<ModelProcess>& process) {
  {
    const std::lock_guard lock(mutex_);
    last_death_ = "died";
  }
  if (reaper_.joinable()) reaper_.join();
  reaper_ = std::thread([this, process] {
    const std::string how = process->how_it_ended();
    const std::lock_guard lock(mutex_);
    last_death_ = how;
    ledger_->died(model_, process->cause());
    if (!ending_) {
      spdlog::error("the process of model '{}' {} and is started again", model_, how);
    }
  });
}

bool Supervised::pause(std::unique_lock<std::mutex>& lock) {
  state_ = State::kQuarantined;
  const Duration time = kFirstQuarantine * (int64_t{1} << std::min(quarantines_++, kMostDoublings));
  back_at_ = monotonic_now() + time;
  failure_ = error(absl::StatusCode::kUnavailable, "the model's process {}", last_death_);
  spdlog::error("model '{}' is in quarantine for {:.0f} s: its process died {} times in a row",
                model_, time.seconds(), in_a_row_);
  tell_all(lock);
  changed_.wait_for(lock, chrono_of(time), [this] { return ending_; });
  state_ = State::kAway;
  in_a_row_ = kMostDeaths - 1;  // one more is enough
  return !ending_;
}

// Under the lock, which users that are told may need: their calls are short and take none of it.
void Supervised::tell_all(std::unique_lock<std::mutex>& /*lock*/) {
  changed_.notify_all();
  for (Waiting& waiting : waiting_) waiting.there();
  waiting_.clear();
}

bool Supervised::quarantined() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kQuarantined;
}

bool Supervised::there() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kThere;
}

std::string Supervised::why_away() const {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kQuarantined) return {};
  return fmt::format("its process died {} times in a row, and the last one {}: it is in quarantine",
                     in_a_row_, last_death_);
}

}  // namespace fermata::engine::apart
