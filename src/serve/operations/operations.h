#pragma once

#include <atomic>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/document.h"
#include "engine/engine.h"
#include "grpc_service.pb.h"
#include "serve/call/shared_memory.h"
#include "serve/net/background.h"

namespace fermata::serve {

// Whether requests should come, as docs/protocol.md has it.
struct Readiness {
  bool ready = false;
  std::string reason;  // why not; of what is ready: what is wrong all the same, else empty
};

// Every call of the protocol but infer, in its gRPC messages; the HTTP front end
// prints the same messages as JSON. Thread-safe. Nothing blocks for long but
// what takes `done`, which is called from another thread.
class Operations {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  static constexpr size_t kLoadsAtOnce = 4;  // and unloads; the others wait
  static constexpr size_t kMostLoads = 128;  // with those that wait: one more is rejected
  static constexpr size_t kLongestRequest = size_t{4} << 20;  // of these calls, as sent
  static constexpr size_t kLongestConfig = size_t{1} << 20;   // of a model, in a load

  // Both outlive it. `ready_any`: ready as soon as any model is served, instead of all.
  Operations(engine::Engine& engine, SharedMemory& regions, bool ready_any = false);

  // Of the server: something is served, all that is configured (or `ready_any`), it is not leaving,
  // and no run is beyond its limit.
  Readiness ready() const;
  // Of a version, or where that is empty the newest.
  Readiness ready(std::string_view model, std::string_view version) const;
  // Is not ready from now on, and answers as before.
  void leave() { leaving_.store(true, std::memory_order_relaxed); }
  // The same; loads and unloads that have not begun are UNAVAILABLE from now on.
  void stop();
  // Waits for the load or unload under way.
  void finish() { background_.finish(); }

  absl::Status model_ready(const inference::ModelReadyRequest& request,
                           inference::ModelReadyResponse& response) const;
  absl::Status server_metadata(const inference::ServerMetadataRequest& request,
                               inference::ServerMetadataResponse& response) const;
  absl::Status model_metadata(const inference::ModelMetadataRequest& request,
                              inference::ModelMetadataResponse& response) const;
  absl::Status model_config(const inference::ModelConfigRequest& request,
                            inference::ModelConfigResponse& response) const;
  absl::Status model_statistics(const inference::ModelStatisticsRequest& request,
                                inference::ModelStatisticsResponse& response) const;
  absl::Status repository_index(const inference::RepositoryIndexRequest& request,
                                inference::RepositoryIndexResponse& response) const;
  void load(const inference::RepositoryModelLoadRequest& request, Done done);
  void unload(const inference::RepositoryModelUnloadRequest& request, Done done);

  // Where models live and why (serve/placement_json.h); HTTP only.
  Json placement() const;
  // From what variants were last chosen: documents for `fermata plan group`, one for each
  // sub-cluster that has chosen.
  Json decisions() const;

  absl::Status shared_memory_status(const inference::SystemSharedMemoryStatusRequest& request,
                                    inference::SystemSharedMemoryStatusResponse& response) const;
  absl::Status shared_memory_register(const inference::SystemSharedMemoryRegisterRequest& request,
                                      inference::SystemSharedMemoryRegisterResponse& response);
  absl::Status shared_memory_unregister(
      const inference::SystemSharedMemoryUnregisterRequest& request,
      inference::SystemSharedMemoryUnregisterResponse& response);
  // None is ever registered, so clearing them, as clients do at start, succeeds.
  absl::Status cuda_memory_register() const;

 private:
  std::string why_not_here() const;  // whatever the models; empty: nothing
  void post(Done done, absl::AnyInvocable<absl::Status()> work);

  engine::Engine& engine_;
  SharedMemory& regions_;
  const bool ready_any_;
  std::atomic<bool> leaving_ = false, stopping_ = false;
  std::atomic<size_t> loads_ = 0;
  Background background_{kLoadsAtOnce};
};

}  // namespace fermata::serve
