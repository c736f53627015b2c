// What the engine does about models whose processes keep dying.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/status.h"
#include "engine/confine/machine.h"
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
  spdlog::info("models run in processes of their own");
  process_timer_ = std::make_unique<Periodic>(kLookAtProcesses, [this] {
    withdraw_dying(now());
    serve_again(now());
  });
}

// As if they were unloaded: services of several variants go on with the others.
void RealEngine::withdraw_dying(Time now) {
  std::vector<std::string> dying;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [model, loaded] : registry_.loaded()) {
      if (!why_dying(loaded).empty()) dying.push_back(model);
    }
  }
  for (const std::string& model : dying) {
    const std::lock_guard lock(changing_);
    // Meanwhile others may be loaded in its place.
    const auto loaded = registry_.loaded().find(model);
    const std::string why = loaded == registry_.loaded().end() ? "" : why_dying(loaded->second);
    if (why.empty()) continue;
    Withdrawn& row = withdrawn_[model];
    row.times = row.times > 0 && now - row.since < kForgiven ? row.times + 1 : 1;
    const Duration pause = kFirstPause * (int64_t{1} << std::min(row.times - 1, kMostPauses));
    row.since = now + pause;
    row.again = now + pause;
    spdlog::error("model '{}' is not served for {:.0f} s: {}", model, pause.seconds(), why);
    {  // before its processes go, so that no metric says otherwise between
      const std::lock_guard lock_rows(mutex_);
      quarantined_.insert(model);
    }
    note(model, ModelStatus{model, "", ModelState::kUnavailable, why});
    (void)replace(model, {}, true, Duration());
  }
}

std::string RealEngine::why_dying(const Loaded& loaded) const {
  for (const auto& variant : loaded.variants) {
    if (std::string why = why_failing(*variant); !why.empty()) return why;
  }
  return {};
}

// Nobody has unloaded it, or loaded it meanwhile.
bool RealEngine::lacks(const std::string& model) const {
  const std::lock_guard lock(mutex_);
  const auto known = wanted_.find(model);
  const auto loaded = registry_.loaded().find(model);
  return known != wanted_.end() && known->second &&
         (loaded == registry_.loaded().end() || loaded->second.variants.empty());
}

void RealEngine::serve_again(Time now) {
  for (auto& [model, row] : withdrawn_) {
    if (row.again > now) continue;
    row.again = Time::infinite();
    const std::lock_guard one_at_a_time(opening(model));
    if (!lacks(model) || load_now(model, std::nullopt).ok()) continue;
    row.again = now + kFirstPause * (int64_t{1} << std::min(row.times, kMostPauses));
  }
}

}  // namespace fermata::engine
