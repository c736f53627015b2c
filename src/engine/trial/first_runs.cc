#include "engine/trial/first_runs.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "engine/confine/machine.h"

namespace fermata::engine {
namespace {

// A latency that is too short is corrected by the runs that come. One that is too long, since the
// machine was busy, would have all requests rejected, and never be corrected.
const MeasureOptions kMoment{
    .runs = 8, .each = Duration::millis(40), .all = kMostMeasured, .fastest = true};

}  // namespace

FirstRuns::FirstRuns(double memory_mb) : start_(monotonic_now()), memory_before_(memory_mb) {}

void FirstRuns::loaded(double memory_mb) {
  loading_ = monotonic_now() - start_;
  memory_loaded_ = memory_mb;
}

absl::StatusOr<Profile> FirstRuns::measure(Executor& executor, const Variant& variant,
                                           MadeRuns made) {
  MeasureOptions options = kMoment;
  options.made = std::move(made);
  absl::StatusOr<Profile> profile =
      fermata::engine::measure(executor, variant, options, [](double) {});
  if (!profile.ok()) {
    return error(absl::StatusCode::kFailedPrecondition, "{}", message(profile.status()));
  }
  profile->machine = describe_machine();
  profile->load_ms = loading_.millis();
  profile->memory_mb = std::max(0.0, executor.memory_mb() - memory_before_);
  profile->static_mb = std::clamp(memory_loaded_ - memory_before_, 0.0, profile->memory_mb);
  return profile;
}

absl::StatusOr<Profile> make_first_runs(ExecutorFactory& executors, const Variant& variant) {
  const std::shared_ptr<Executor> executor = executors.make();
  FirstRuns first_runs(executor->memory_mb());
  RETURN_IF_ERROR(executor->load(std::make_shared<const Variant>(variant)));
  first_runs.loaded(executor->memory_mb());
  return first_runs.measure(*executor, variant);
}

}  // namespace fermata::engine
