// Which executors workers have, and whether models can be in processes of their own.
#include "base/status.h"
#include "engine/apart/apart_executor.h"
#include "engine/confine/child.h"
#include "engine/execute/emulated_executor.h"

namespace fermata::engine {
namespace {

constexpr Duration kCheckLimit = Duration::seconds(30);

}  // namespace

absl::StatusOr<std::unique_ptr<ExecutorFactory>> make_workers(const WorkerOptions& options,
                                                              uint32_t type) {
  if (options.types[type].remote) {
    WorkerOptions own = options;
    own.types = {WorkerType{.name = options.types[type].name}};
    ASSIGN_OR_RETURN(auto here, make_workers(own));
    return options.remote->executors(options.types[type], std::move(here));
  }
  if (options.isolation == Isolation::kThread || options.executor == ExecutorKind::kEmulated) {
    return make_executors(options, type);
  }
  ASSIGN_OR_RETURN(auto apart, make_apart_executors(options, type));
  if (options.executor != ExecutorKind::kPaced) return apart;
  return make_emulated_executors(type, std::move(apart));
}

absl::Status check_isolation(const WorkerOptions& options) {
  const bool apart =
      options.isolation == Isolation::kProcess && options.executor != ExecutorKind::kEmulated;
  if (!apart || options.all_remote()) return absl::OkStatus();
  const auto tried = run_child({options.program, "model-process", "--check"}, kCheckLimit, {},
                               options.nursery.get());
  if (tried.ok() && tried->exit_code == 0 && tried->signal == 0) return absl::OkStatus();
  return error(
      absl::StatusCode::kFailedPrecondition,
      "models cannot run in processes of their own here: {}. `workers: {{isolation: thread}}` "
      "in fermata.yaml runs them on threads of the server, which ends where a model crashes",
      !tried.ok()            ? message(tried.status())
      : tried->timed_out     ? "a process that tried it did not end in time"
      : tried->error.empty() ? "a process that tried it ended without a reason"
                             : std::string_view(tried->error));
}

}  // namespace fermata::engine
