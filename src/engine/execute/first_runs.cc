#include "engine/execute/first_runs.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.h"
#include "base/document.h"
#include "base/status.h"
#include "engine/execute/child.h"
#include "engine/execute/machine.h"
#include "engine/execute/profiler.h"
#include "model/model_config.h"

namespace fermata::engine {
namespace {

// A latency that is too short is corrected by the runs that come. One that is too long, since the
// machine was busy, would have all requests rejected, and never be corrected.
const MeasureOptions kMoment{.runs = 8,
                             .each = Duration::millis(40),
                             .all = Duration::millis(400),
                             .fastest = true};

struct Wanted {
  Variant variant;
  WorkerType worker;
  std::string config;
  ChildLimits limits;
};

absl::StatusOr<std::string> question(const Variant& variant, const WorkerType& worker,
                                     const TrialLimits& limits) {
  std::string config;
  if (!google::protobuf::util::MessageToJsonString(variant.config, &config).ok()) {
    return internal("{}: its configuration cannot be written", variant.file);
  }
  Json asked = {{"file", variant.file},
                {"model", variant.model},
                {"version", variant.version},
                {"config", config},
                {"provider", worker.provider},
                {"threads", worker.threads},
                {"processor_s", limits.time.seconds() * worker.threads}};
  // GPUs' libraries take more than there is.
  if (worker.provider == "cpu" && std::isfinite(limits.memory_mb)) {
    asked["memory_mb"] = limits.memory_mb;
  }
  return write_json(asked);
}

Wanted read_question(Reader reader) {
  ObjectReader fields = reader.object();
  Wanted wanted;
  wanted.variant.file = fields["file"].string();
  wanted.variant.model = fields["model"].string();
  wanted.variant.version = fields["version"].string();
  wanted.config = fields["config"].string();
  wanted.worker.provider = fields["provider"].string();
  wanted.worker.threads = static_cast<uint32_t>(fields["threads"].integer(1, 1024));
  wanted.limits.processor_s = fields["processor_s"].positive();
  if (Reader memory = fields["memory_mb"]; memory.present()) {
    wanted.limits.memory_mb = memory.positive();
  }
  return wanted;
}

}  // namespace

absl::StatusOr<Profile> make_first_runs(ExecutorFactory& executors, const Variant& variant) {
  const std::shared_ptr<Executor> executor = executors.make();
  const double memory_before = resident_mb();
  const Time start = monotonic_now();
  RETURN_IF_ERROR(executor->load(std::make_shared<const Variant>(variant)));
  const double load_ms = (monotonic_now() - start).millis();
  const double memory_loaded = resident_mb();
  absl::StatusOr<Profile> profile = measure(*executor, variant, kMoment, [](double) {});
  if (!profile.ok()) {
    return error(absl::StatusCode::kFailedPrecondition, "{}", message(profile.status()));
  }
  profile->load_ms = load_ms;
  profile->memory_mb = std::max(0.0, resident_mb() - memory_before);
  profile->static_mb = std::clamp(memory_loaded - memory_before, 0.0, profile->memory_mb);
  return profile;
}

absl::Status print_first_runs(std::istream& in, std::ostream& out) {
  const std::string text(std::istreambuf_iterator<char>(in), {});
  ASSIGN_OR_RETURN(Document document, Document::parse(text, Document::Format::kJson));
  ASSIGN_OR_RETURN(Wanted wanted, document.read(read_question));
  ASSIGN_OR_RETURN(wanted.variant.config, parse_model_config(wanted.config, "config"));
  wanted.variant.signature = signature_of(wanted.variant.config);
  limit_this_process(wanted.limits);
  ASSIGN_OR_RETURN(const auto executors, make_executors({.types = {wanted.worker}}));
  auto profile = make_first_runs(*executors, wanted.variant);
  if (!profile.ok()) return of_limited(profile.status(), wanted.limits.memory_mb);
  profile->machine = describe_machine();
  out << to_json(*profile);
  return absl::OkStatus();
}

absl::StatusOr<Profile> make_first_runs_apart(const std::string& program, const Variant& variant,
                                              const WorkerType& worker, const TrialLimits& limits) {
  ASSIGN_OR_RETURN(const std::string asked, question(variant, worker, limits));
  ASSIGN_OR_RETURN(const ChildResult child, run_child({program, "first-runs"}, limits.time, asked));
  if (child.timed_out || child.signal == SIGXCPU) {
    return invalid("{}: its first runs took longer than {:.0f} s", variant.file,
                   limits.time.seconds());
  }
  if (child.signal != 0) {
    return invalid("{}: its first runs crashed ({})", variant.file, strsignal(child.signal));
  }
  if (child.exit_code == kRunsNotOnZeros) {
    return error(absl::StatusCode::kFailedPrecondition, "{}", child.error);
  }
  if (child.exit_code != 0) return invalid("{}: {}", variant.file, child.error);
  return parse_profile(child.output, variant.file);
}

}  // namespace fermata::engine
