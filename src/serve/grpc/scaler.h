#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "externalscaler.grpc.pb.h"
#include "serve/grpc/grpc_service.h"
#include "serve/grpc/open_streams.h"

namespace fermata::serve {

using Scaler = externalscaler::ExternalScaler;

// KEDA's external scaler: how many workers of a type the load asks for (engine/snapshot.h). The
// trigger's metadata names `workerType`, where there are several, and `workersPerPod`, else 1.
class ScalerService final
    : public WithCalls<Scaler::Service, Scaler::WithRawCallbackMethod_IsActive,
                       Scaler::WithRawCallbackMethod_StreamIsActive,
                       Scaler::WithRawCallbackMethod_GetMetricSpec,
                       Scaler::WithRawCallbackMethod_GetMetrics>::type {
 public:
  using Context = grpc::CallbackServerContext*;
  using Unary = grpc::ServerUnaryReactor*;
  using In = const grpc::ByteBuffer*;
  using Out = grpc::ByteBuffer*;

  explicit ScalerService(GrpcHouse& house);
  // Always active: at least one worker of a type is wanted.
  Unary IsActive(Context context, In request, Out response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* StreamIsActive(Context context, In request) override;
  Unary GetMetricSpec(Context context, In request, Out response) override;
  // UNAVAILABLE until the first interval of the signal has ended, so that nothing is scaled by it.
  Unary GetMetrics(Context context, In request, Out response) override;
  // Ends the calls of those who watch: UNAVAILABLE.
  void drain() { watches_.drain(); }

 private:
  struct Trigger {
    std::string type;
    int64_t workers_per_pod = 1;
  };
  struct Signal {
    std::vector<std::string> types;
    std::map<std::string, uint32_t> wanted;
  };
  absl::StatusOr<Trigger> trigger_of(const externalscaler::ScaledObjectRef& object);
  // At most a second old: whoever asks more often costs no more.
  Signal signal();

  GrpcHouse& house_;
  std::mutex mutex_;
  Signal signal_;
  std::optional<Time> taken_;
  OpenStreams watches_;
};

}  // namespace fermata::serve
