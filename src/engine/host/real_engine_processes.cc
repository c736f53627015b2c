// What the engine does about models whose processes keep dying.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/status.h"
#include "engine/execute/machine.h"
#include "engine/host/real_engine.h"

namespace fermata::engine {
namespace {

constexpr Duration kLookAtProcesses = Duration::millis(250);
// From the first withdrawal on, twice as long for each that follows it soon.
constexpr Duration kFirstPause = Duration::seconds(2);
constexpr uint32_t kMostPauses = 5;
constexpr Duration kForgiven = Duration::seconds(120);  // of service

}  // namespace

void RealEngine::watch_processes() {
  const WorkerOptions& workers = options_.workers;
  if (workers.isolation == Isolation::kThread || workers.executor == ExecutorKind::kEmulated) {
    return;
  }
  spdlog::info("models run in processes of their own; {} workers on {} processors", workers.count(),
               own_cores());
  process_timer_ = std::make_unique<Periodic>(kLookAtProcesses, [this] {
    withdraw_dying(now());
    serve_again(now());
  });
}

// As if they were unloaded: services of several variants go on with the others.
void RealEngine::withdraw_dying(Time now) {
  std::map<std::string, std::string> dying;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [model, loaded] : registry_.loaded()) {
      for (const auto& variant : loaded.variants) {
        if (std::string why = why_failing(*variant); !why.empty()) dying[model] = std::move(why);
      }
    }
  }
  for (const auto& [model, why] : dying) {
    Withdrawn& row = withdrawn_[model];
    row.times = row.times > 0 && now - row.since < kForgiven ? row.times + 1 : 1;
    const Duration pause = kFirstPause * (int64_t{1} << std::min(row.times - 1, kMostPauses));
    row.since = now + pause;
    row.again = now + pause;
    spdlog::error("model '{}' is not served for {:.0f} s: {}", model, pause.seconds(), why);
    const std::lock_guard lock(changing_);
    note(model, ModelStatus{model, "", ModelState::kUnavailable, why});
    (void)replace(model, {}, true, Duration());
  }
}

void RealEngine::serve_again(Time now) {
  for (auto& [model, row] : withdrawn_) {
    if (row.again > now) continue;
    row.again = Time::infinite();
    bool wanted = false;
    {
      const std::lock_guard lock(mutex_);
      const auto known = wanted_.find(model);
      const auto loaded = registry_.loaded().find(model);
      wanted = known != wanted_.end() && known->second &&
               (loaded == registry_.loaded().end() || loaded->second.variants.empty());
    }
    if (!wanted) continue;  // it was unloaded, or loaded by somebody
    if (load(model, std::nullopt).ok()) continue;
    row.again = now + kFirstPause * (int64_t{1} << std::min(row.times, kMostPauses));
  }
}

}  // namespace fermata::engine
