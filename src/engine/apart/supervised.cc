#include "engine/apart/supervised.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/confine/nursery.h"
#include "engine/execute/absence.h"

namespace fermata::engine::apart {
namespace {

constexpr Duration kStarting = Duration::seconds(30), kLoading = Duration::seconds(120);
constexpr Duration kUnloading = Duration::seconds(2);
constexpr std::chrono::milliseconds kStandbyLooks{1000};  // whether the standby lives
constexpr std::chrono::milliseconds kProcessorLooks{100};
constexpr Duration kFirstQuarantine = Duration::seconds(1);
constexpr uint32_t kMostDoublings = 6;

std::chrono::nanoseconds chrono_of(Duration duration) {
  return std::chrono::nanoseconds(std::max<int64_t>(duration.nanos(), 0));
}

}  // namespace

Supervised::Supervised(std::string model, ModelProcess::Options process, WorkerType worker,
                       bool standby, std::shared_ptr<Ledger> ledger)
    : model_(std::move(model)),
      options_(std::move(process)),
      worker_(std::move(worker)),
      standby_wanted_(standby),
      ledger_(std::move(ledger)) {}

Supervised::~Supervised() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (const auto& process : {process_, starting_}) {
      if (process != nullptr) process->end_quietly();
    }
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (std::thread& watch : watches_) watch.join();
}

absl::Status Supervised::load(const void* user, const std::shared_ptr<const Variant>& variant,
                              Executor::Deaths deaths) {
  const std::lock_guard one_at_a_time(loading_);
  std::unique_lock lock(mutex_);
  const bool known = !variants_.emplace(variant->id, variant).second;
  absl::Status loaded = have(variant, lock);
  changed_.notify_all();  // a standby wants it too
  if (loaded.ok()) {
    users_.emplace(variant->id, user);
    if (deaths) told_[user] = std::move(deaths);
  } else if (!known) {
    variants_.erase(variant->id);
  }
  return loaded;
}

// Until the process has it, whichever that is then: one that starts takes what is known.
absl::Status Supervised::have(const std::shared_ptr<const Variant>& variant,
                              std::unique_lock<std::mutex>& lock) {
  if (state_ == State::kNew || state_ == State::kFailed) {
    if (thread_.joinable()) thread_.join();
    state_ = State::kNew;
    thread_ = std::thread([this] { supervise(); });
  }
  while (true) {
    changed_.wait(lock,
                  [this] { return !loads_ || (state_ != State::kNew && state_ != State::kAway); });
    if (held_.contains(variant->id)) return absl::OkStatus();
    if (!loads_) return error(absl::StatusCode::kUnavailable, "the server stops");
    if (state_ != State::kThere) return failure_;
    const std::shared_ptr<ModelProcess> process = process_;
    lock.unlock();
    absl::Status loaded = process->ask(load_message(*variant, worker_), monotonic_now() + kLoading);
    lock.lock();
    if (loaded.ok() && process == process_) held_.insert(variant->id);
    if (loaded.ok()) continue;
    if (!no_answer(loaded)) return loaded;
    process->kill();  // it may live
    changed_.wait(lock, [&] { return !loads_ || process_ != process; });
  }
}

void Supervised::stop_loading() {
  {
    const std::lock_guard lock(mutex_);
    loads_ = false;
    if (state_ == State::kNew && starting_ != nullptr) starting_->kill();
  }
  changed_.notify_all();
}

void Supervised::unload(const void* user, VariantId id) {
  const std::lock_guard lock(mutex_);
  users_.erase({id, user});
  if (absl::c_none_of(users_, [user](const auto& one) { return one.second == user; })) {
    told_.erase(user);
  }
}

void Supervised::sweep() {
  const std::lock_guard one_at_a_time(loading_);
  std::vector<VariantId> unused;
  std::shared_ptr<ModelProcess> process;
  bool last = false;  // nothing is left for it to run
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, variant] : variants_) {
      const auto first = users_.lower_bound({id, nullptr});
      if (first == users_.end() || first->first != id) unused.push_back(id);
    }
    for (const VariantId id : unused) variants_.erase(id);
    std::erase_if(unused, [this](VariantId id) { return held_.erase(id) == 0; });
    process = process_;
    last = variants_.empty();
  }
  // Code of the user's has a word at its end; another process just ends.
  if (last && !options_.may_fail) return;
  for (const VariantId id : unused) {
    const Time until = monotonic_now() + (last ? kUnloading : kLoading);
    (void)process->ask({{"op", "unload"}, {"variant", id.value()}}, until);
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
  std::shared_ptr<ModelProcess> process;
  {
    const std::lock_guard lock(mutex_);
    pinned_[slot] = processors;
    process = process_;
  }
  if (process == nullptr) return;
  process->tell({{"op", "pin"}, {"slot", slot}, {"processors", processors}});
}

// What its processes are copies of has the weights then; where it cannot, each reads its own.
void Supervised::open_once() {
  std::shared_ptr<const Variant> variant;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (!options_.opened_once || variants_.empty()) return;
    variant = variants_.begin()->second;
    first = state_ == State::kNew;
  }
  const absl::Status opened = options_.nursery->prepare(
      prepared_message(*variant, worker_, options_.quietly && first, options_.memory_mb));
  if (!opened.ok() && first) {
    spdlog::warn("the processes of model '{}' share no memory: {}", model_, message(opened));
  }
}

absl::StatusOr<Supervised::Started> Supervised::start(bool as_standby) {
  open_once();
  ASSIGN_OR_RETURN(auto process, ModelProcess::start(options_));
  {
    const std::lock_guard lock(mutex_);
    if (ending_ || (!loads_ && state_ == State::kNew)) {
      return error(absl::StatusCode::kUnavailable, "the server stops");
    }
    starting_ = process;
  }
  Started started{std::move(process), {}};
  absl::Status filled = fill(started, as_standby);
  const std::lock_guard lock(mutex_);
  starting_ = nullptr;
  RETURN_IF_ERROR(filled);
  return started;
}

// With all that is known. Quietly at first only: later, requests wait for it. A standby has run it
// once, since the first run of a process takes longer, and requests wait for that of a standby.
absl::Status Supervised::fill(Started& started, bool as_standby) {
  ModelProcess& process = *started.process;
  RETURN_IF_ERROR(process.greet(monotonic_now() + kStarting));
  std::vector<std::shared_ptr<const Variant>> variants;
  bool quietly = options_.quietly;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, variant] : variants_) variants.push_back(variant);
    quietly = quietly && state_ == State::kNew;
  }
  for (const auto& variant : variants) {
    absl::Status loaded =
        process.ask(load_message(*variant, worker_, {.quietly = quietly, .warm = as_standby}),
                    monotonic_now() + kLoading);
    if (absl::IsUnavailable(loaded)) {
      process.kill();
      return internal("{}: its process {} as it loaded it", variant->file, process.how_it_ended());
    }
    if (absl::IsDeadlineExceeded(loaded)) {
      return internal("{}: its process did not load it in {:.0f} s", variant->file,
                      kLoading.seconds());
    }
    RETURN_IF_ERROR(loaded);
    started.held.insert(variant->id);
  }
  return absl::OkStatus();
}

void Supervised::supervise() {
  while (true) {
    absl::StatusOr<Started> started = next();
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
      const std::shared_ptr<ModelProcess> process = process_ = started->process;
      held_ = std::move(started->held);
      state_ = State::kThere;
      standby_failed_ = false;
      ledger_->started(model_, process_->pid());
      tell_all(lock);
      const auto pinned = pinned_;
      lock.unlock();
      watch(process);
      for (const auto& [slot, processors] : pinned) {
        process->tell({{"op", "pin"}, {"slot", slot}, {"processors", processors}});
      }
      lock.lock();
      Spent spent{.until = process->processor_time()};
      while (process_ == process) {
        keep_standby(lock);
        limit_processor(*process, spent);
        changed_.wait_for(lock, options_.processor ? kProcessorLooks : kStandbyLooks,
                          [&] { return process_ != process || standby_lacks(); });
      }
      if (ending_) return;
      if (variants_.empty()) {  // it was unloaded, and may have taken too long for that
        state_ = State::kFailed;
        failure_ = error(absl::StatusCode::kUnavailable, "the model was unloaded");
        tell_all(lock);
        return;
      }
    }
    if (in_a_row_ >= kMostDeaths && !pause(lock)) return;
  }
}

// The standby, where it is there and has all that is known.
absl::StatusOr<Supervised::Started> Supervised::next() {
  std::optional<Started> standby;
  {
    const std::lock_guard lock(mutex_);
    const bool lacks = standby_lacks();
    standby.swap(standby_);
    if (standby && !lacks && !standby->process->ended()) return *std::move(standby);
  }
  return start();
}

// Under the lock.
bool Supervised::standby_lacks() const {
  if (!standby_wanted_ || standby_failed_ || ending_) return false;
  return !standby_ || standby_->process->ended() || standby_->held.size() != variants_.size() ||
         absl::c_any_of(variants_, [this](const auto& variant) {
           return !standby_->held.contains(variant.first);
         });
}

// Under the lock, but while it starts.
void Supervised::keep_standby(std::unique_lock<std::mutex>& lock) {
  if (!standby_lacks()) return;
  std::optional<Started> gone;
  gone.swap(standby_);
  lock.unlock();
  gone.reset();
  absl::StatusOr<Started> standby = start(true);
  lock.lock();
  standby_failed_ = !standby.ok();
  if (standby.ok()) {
    standby_ = *std::move(standby);
  } else if (!ending_ && loads_) {
    spdlog::warn("model '{}' has no standby: {}", model_, message(standby.status()));
  }
}

// How it ended is known when its memory is free, which nobody has to wait for.
void Supervised::watch(const std::shared_ptr<ModelProcess>& process) {
  if (watches_.size() > 1) {
    watches_.front().join();
    watches_.pop_front();
  }
  watches_.emplace_back([this, process] {
    process->await_death();
    const Time at = monotonic_now();
    {
      const std::lock_guard lock(mutex_);
      process_ = nullptr;
      held_.clear();
      state_ = State::kAway;
      ledger_->spent(model_, process->processor_time());
      last_death_ = "died";
      in_a_row_ = process->good_runs > 0 ? 1 : in_a_row_ + 1;
      if (process->good_runs > 0) quarantines_ = 0;
      process->declare_dead();
    }
    changed_.notify_all();
    const std::string how = process->how_it_ended(), cause = process->cause();
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    last_death_ = how;
    if (users_.empty()) return;  // it was unloaded, and took too long to end
    ledger_->died(model_, cause);
    tell_death(at, cause);
    spdlog::error("the process of model '{}' {} and is started again", model_, how);
  });
}

// Once, to one of those that use it. Under the lock.
void Supervised::tell_death(Time at, const std::string& cause) {
  for (const auto& [variant, user] : users_) {
    const auto deaths = told_.find(user);
    if (deaths != told_.end()) return deaths->second(variant, at, cause);
  }
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

}  // namespace fermata::engine::apart
