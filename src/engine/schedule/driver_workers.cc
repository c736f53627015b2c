// What the driver's workers have loaded, and which of them serve.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/clock.h"
#include "base/status.h"
#include "engine/schedule/driver_state.h"

namespace fermata::engine {

absl::Status Driver::load_into(Worker& worker, const std::shared_ptr<const Variant>& variant) {
  const Time from = monotonic_now();
  RETURN_IF_ERROR(worker.executor->load(variant));
  observe_load(worker, variant->id, from);
  const std::lock_guard lock(loaded_mutex_);
  worker.loaded.insert(variant->id);
  return absl::OkStatus();
}

void Driver::unload_from(Worker& worker, VariantId id) {
  {
    const std::lock_guard lock(loaded_mutex_);
    if (worker.loaded.erase(id) == 0) return;
  }
  worker.executor->unload(id);
}

absl::Status Driver::load(const std::shared_ptr<const Variant>& variant) {
  for (size_t i = 0; i < serving_; ++i) {
    if (absl::Status loaded = load_into(*workers_[i], variant); !loaded.ok()) {
      for (size_t k = 0; k < i; ++k) unload_from(*workers_[k], variant->id);
      return loaded;
    }
  }
  const std::lock_guard lock(loaded_mutex_);
  loaded_[variant->id] = variant;
  return absl::OkStatus();
}

void Driver::unload(VariantId id) {
  {
    const std::lock_guard lock(loaded_mutex_);
    loaded_.erase(id);
  }
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    unload_from(*workers_[i], id);
    const policy::LoadedAhead gone{WorkerId(i), id, false};  // no key of it is left
    scheduler_->planned(gone, monotonic_now(), decisions_);
  }
}

// Where a command runs.
void Driver::hold(WorkerId worker, VariantId weights, bool there) {
  const Time now = monotonic_now();
  scheduler_->planned(policy::LoadedAhead{worker, weights, there}, now, decisions_);
  act(now);
}

// What it brings was loaded for this pool's models: of those that have gone meanwhile nothing is
// kept.
void Driver::came_or_went(uint32_t worker, const Executor::Presence& presence) {
  const Time now = monotonic_now();
  workers_[worker]->away = !presence.there;
  for (const auto& [variant, profile] : presence.profiles) {
    keys_.set_profile(variant, workers_[worker]->type, profile, now, decisions_);
  }
  scheduler_->planned(policy::Serving{WorkerId(worker), presence.there}, now, decisions_);
  act(now);
}

void Driver::load_ahead(WorkerId worker, std::shared_ptr<const Variant> variant,
                        absl::AnyInvocable<void(absl::Status)> done) {
  const VariantId id = variant->id;
  auto loaded = [this, worker, weights = variant->loads(),
                 done = std::move(done)](absl::Status status) mutable {
    if (status.ok()) leave([this, worker, weights] { hold(worker, weights, true); });
    done(std::move(status));
  };
  leave([this, worker, id, loaded = std::move(loaded)]() mutable {
    workers_[worker.index()]->executor->load_ahead(id, std::move(loaded));
  });
}

// What was bound before it is told runs first.
void Driver::let_go(WorkerId worker, std::shared_ptr<const Variant> variant) {
  leave([this, worker, variant = std::move(variant)] {
    hold(worker, variant->loads(), false);
    workers_[worker.index()]->executor->let_go(variant->id);
  });
}

absl::Status Driver::prepare(Worker& worker) {
  std::vector<std::shared_ptr<const Variant>> missing;
  {
    const std::lock_guard lock(loaded_mutex_);
    for (const auto& [id, variant] : loaded_) {
      if (!worker.loaded.contains(id)) missing.push_back(variant);
    }
  }
  for (const auto& variant : missing) {
    RETURN_IF_ERROR(load_into(worker, variant));
    bool gone = false;  // unloaded everywhere meanwhile
    {
      const std::lock_guard lock(loaded_mutex_);
      gone = !loaded_.contains(variant->id);
    }
    if (gone) unload_from(worker, variant->id);
  }
  return absl::OkStatus();
}

uint32_t Driver::set_workers(uint32_t count) {
  const uint32_t before = serving_;
  count = std::min(count, static_cast<uint32_t>(workers_.size()));
  post_and_wait([&] {  // one that is about to leave keeps what it has
    for (uint32_t i = before; i < count; ++i) workers_[i]->leaving = false;
  });
  for (uint32_t i = before; i < count; ++i) {
    const absl::Status prepared = prepare(*workers_[i]);
    if (prepared.ok()) continue;
    spdlog::error("cannot start worker {}: {}", i, message(prepared));
    count = i;
  }
  serving_ = count;
  post_and_wait([&] {
    const Time now = monotonic_now();
    for (uint32_t i = 0; i < workers_.size(); ++i) {
      scheduler_->planned(policy::Serving{WorkerId(i), i < count}, now, decisions_);
    }
    act(now);  // what was granted meanwhile runs before its worker leaves
    for (uint32_t i = 0; i < workers_.size(); ++i) {
      workers_[i]->leaving = i >= count;
      leave_if_idle(*workers_[i]);
    }
  });
  return count;
}

void Driver::limit_batches(uint32_t most) {
  post_and_wait([&] {
    const Time now = monotonic_now();
    keys_.limit_batches(most, now, decisions_);
    act(now);
  });
}

void Driver::set_rules(const policy::Rules& rules) {
  leave(Command([this, rules] { scheduler_->set_rules(rules, monotonic_now(), decisions_); }));
}

bool Driver::idle() {
  bool idle = false;
  post_and_wait([&] { idle = parts_.empty() && in_flight_ == 0; });
  return idle;
}

void Driver::pin(uint32_t worker, const std::vector<uint32_t>& processors) {
  workers_[worker]->executor->pin(processors);
}

void Driver::leave_if_idle(Worker& worker) {
  if (!worker.leaving || worker.in_flight > 0) return;
  worker.leaving = false;
  std::set<VariantId> loaded;
  {
    const std::lock_guard lock(loaded_mutex_);
    loaded.swap(worker.loaded);
  }
  for (const VariantId id : loaded) worker.executor->unload(id);
}

bool Driver::overdue() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->executor->health().overdue; });
}

std::vector<WorkerStatistics> Driver::worker_statistics() const {
  std::vector<WorkerStatistics> result;
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    result.push_back({shared_.first_worker + i, shared_.types[workers_[i]->type],
                      workers_[i]->batches.load(), Duration::nanos(workers_[i]->busy_nanos.load()),
                      workers_[i]->executor->health(), i < serving_ && !workers_[i]->away,
                      workers_[i]->executor->host()});
  }
  return result;
}

}  // namespace fermata::engine
