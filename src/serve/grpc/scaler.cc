#include "serve/grpc/scaler.h"

#include <grpcpp/grpcpp.h>

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "serve/call/status_map.h"
#include "serve/grpc/grpc_message.h"
#include "serve/grpc/watch.h"

namespace fermata::serve {
namespace {

constexpr size_t kLongestTrigger = 16 * 1024;
constexpr Duration kOld = Duration::seconds(1);
constexpr int64_t kMostPerPod = 1024;
constexpr char kMetric[] = "workers_wanted";

template <class Message>
absl::StatusOr<Message> read(const grpc::ByteBuffer* request) {
  HeldBytes uncounted;
  Message message;
  // It is the call's own.
  RETURN_IF_ERROR(
      read_message(const_cast<grpc::ByteBuffer&>(*request), kLongestTrigger, uncounted, message));
  return message;
}

template <class Message>
grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context,
                                 const absl::StatusOr<Message>& message, grpc::ByteBuffer& to) {
  HeldBytes uncounted;
  const absl::Status status =
      message.ok() ? write_message(*message, uncounted, to) : message.status();
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc_status(status));
  return reactor;
}

externalscaler::IsActiveResponse active() {
  externalscaler::IsActiveResponse response;
  response.set_result(true);
  return response;
}

}  // namespace

ScalerService::ScalerService(GrpcHouse& house) : house_(house) {}

ScalerService::Signal ScalerService::signal() {
  const std::scoped_lock lock(mutex_);
  const Time now = house_.engine.now();
  if (!taken_ || now - *taken_ >= kOld) {
    engine::EngineSnapshot snapshot = house_.engine.snapshot();
    signal_ = {std::move(snapshot.worker_types), std::move(snapshot.autoscale.wanted)};
    taken_ = now;
  }
  return signal_;
}

absl::StatusOr<ScalerService::Trigger> ScalerService::trigger_of(
    const externalscaler::ScaledObjectRef& object) {
  Trigger trigger;
  const std::vector<std::string> types = signal().types;
  const std::string all = absl::StrJoin(types, ", ");
  const auto& metadata = object.scalermetadata();
  if (const auto type = metadata.find("workerType"); type != metadata.end()) {
    if (!absl::c_linear_search(types, type->second)) {
      return invalid("workerType: no type of workers is '{}', expected one of: {}",
                     type->second.substr(0, 100), all);
    }
    trigger.type = type->second;
  } else if (types.size() == 1) {
    trigger.type = types[0];
  } else {
    return invalid("the trigger's metadata has no workerType, expected one of: {}", all);
  }
  if (const auto pod = metadata.find("workersPerPod"); pod != metadata.end()) {
    if (!absl::SimpleAtoi(pod->second, &trigger.workers_per_pod) || trigger.workers_per_pod < 1 ||
        trigger.workers_per_pod > kMostPerPod) {
      return invalid("workersPerPod: '{}', expected a number from 1 to {}",
                     pod->second.substr(0, 100), kMostPerPod);
    }
  }
  return trigger;
}

ScalerService::Unary ScalerService::IsActive(Context context, In request, Out response) {
  const auto make = [&]() -> absl::StatusOr<externalscaler::IsActiveResponse> {
    ASSIGN_OR_RETURN(const auto object, read<externalscaler::ScaledObjectRef>(request));
    RETURN_IF_ERROR(trigger_of(object).status());
    return active();
  };
  return answer(context, make(), *response);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ScalerService::StreamIsActive(Context context,
                                                                          In request) {
  const auto check = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto object, read<externalscaler::ScaledObjectRef>(request));
    return trigger_of(object).status();
  };
  return Watch::start(house_, *context, watches_, check(),
                      [] { return active().SerializeAsString(); });
}

ScalerService::Unary ScalerService::GetMetricSpec(Context context, In request, Out response) {
  const auto make = [&]() -> absl::StatusOr<externalscaler::GetMetricSpecResponse> {
    ASSIGN_OR_RETURN(const auto object, read<externalscaler::ScaledObjectRef>(request));
    ASSIGN_OR_RETURN(const Trigger trigger, trigger_of(object));
    externalscaler::GetMetricSpecResponse specs;
    auto& spec = *specs.add_metricspecs();
    spec.set_metricname(kMetric);
    spec.set_targetsize(trigger.workers_per_pod);
    spec.set_targetsizefloat(static_cast<double>(trigger.workers_per_pod));
    return specs;
  };
  return answer(context, make(), *response);
}

ScalerService::Unary ScalerService::GetMetrics(Context context, In request, Out response) {
  const auto make = [&]() -> absl::StatusOr<externalscaler::GetMetricsResponse> {
    ASSIGN_OR_RETURN(const auto asked, read<externalscaler::GetMetricsRequest>(request));
    ASSIGN_OR_RETURN(const Trigger trigger, trigger_of(asked.scaledobjectref()));
    const Signal now = signal();
    const auto wanted = now.wanted.find(trigger.type);
    if (wanted == now.wanted.end()) {
      return error(absl::StatusCode::kUnavailable,
                   "no interval of the autoscaling signal has ended yet; ask again in 10 s");
    }
    externalscaler::GetMetricsResponse values;
    auto& value = *values.add_metricvalues();
    value.set_metricname(kMetric);
    value.set_metricvalue(wanted->second);
    value.set_metricvaluefloat(wanted->second);
    return values;
  };
  return answer(context, make(), *response);
}

}  // namespace fermata::serve
