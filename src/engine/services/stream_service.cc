#include "engine/services/stream_service.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "engine/services/compound.h"
#include "plan/streams/stream_planner.h"

namespace fermata::engine {
namespace {

constexpr Duration kLook = Duration::millis(25);  // whether a plan is wanted
constexpr double kPlanQuantile = 0.99;

bool matches(const Tensor& tensor, const TensorSpec& spec, const Signature& signature) {
  const Shape wanted = signature.wire_shape(spec);
  return tensor.datatype == spec.datatype &&
         std::equal(tensor.shape.begin(), tensor.shape.end(), wanted.begin(), wanted.end(),
                    [](int64_t has, int64_t want) { return want == -1 || has == want; });
}

bool fits_all(const InferRequest& request, const Signature& signature) {
  return std::all_of(request.inputs.begin(), request.inputs.end(), [&](const Tensor& tensor) {
    const TensorSpec* spec = signature.input(tensor.name);
    return spec != nullptr && matches(tensor, *spec, signature);
  });
}

// A pipeline's is the sum of its stages', one frame at a time.
TableLatency latency_to_plan_with(const Profile& profile) {
  if (profile.measured()) return latency_at(profile, kPlanQuantile);
  const double ms = profile.linear.latency.beta_ms;
  return ms > 0 ? TableLatency{{{1, ms}}} : TableLatency{};
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamService>> StreamService::make(const ServiceOptions& options,
                                                                   const Catalog& catalog,
                                                                   uint32_t workers) {
  policy::StreamSettings settings = options.stream->settings;
  settings.workers = std::min(workers, plan::StreamProblem::kMostWorkers);
  settings.slo = options.slo;
  std::vector<Signature> signatures;
  std::shared_ptr<const Variant> largest;
  std::map<uint32_t, double> slowest;  // by batch size, of the smaller variants
  for (const StreamOptions::Variant& v : options.stream->variants) {
    ASSIGN_OR_RETURN(largest, catalog.find(v.service, ""));
    TableLatency latency = latency_to_plan_with(largest->profile);
    if (latency.points_ms.empty()) {
      return invalid("service '{}': '{}' has no profile to plan with", options.name, v.service);
    }
    for (auto& [batch, ms] : latency.points_ms) ms = slowest[batch] = std::max(ms, slowest[batch]);
    ASSIGN_OR_RETURN(auto table,
                     LatencyTable::make(latency, std::min(largest->signature.max_batch,
                                                          plan::StreamVariant::kMostBatch)));
    settings.variants.push_back(
        {v.service, v.input_size, v.accuracy, v.request_kb, std::move(table)});
    signatures.push_back(largest->signature);
  }
  auto face = std::make_shared<Service>();
  face->name = face->model = options.name;
  face->slo = options.slo;
  face->queue_limit = options.queue_limit;
  const auto facade = make_facade(options.name, *largest, largest->id);
  facade->config.set_platform("fermata_stream");  // by which clients find such services
  face->versions = {facade};
  return std::unique_ptr<StreamService>(
      new StreamService(options, std::move(settings), std::move(signatures), std::move(face)));
}

StreamService::StreamService(ServiceOptions options, policy::StreamSettings settings,
                             std::vector<Signature> signatures, std::shared_ptr<const Service> face)
    : options_(std::move(options)),
      signatures_(std::move(signatures)),
      face_(std::move(face)),
      sessions_(std::move(settings)),
      planner_(kLook, [this] { plan(); }) {}

std::optional<uint32_t> StreamService::fitting(const InferRequest& request) const {
  std::optional<uint32_t> found;
  for (uint32_t v = 0; v < signatures_.size(); ++v) {
    if (!fits_all(request, signatures_[v])) continue;
    if (found) return std::nullopt;
    found = v;
  }
  return found;
}

absl::Status StreamService::route(InferRequest& request, bool& answered) {
  const auto& variants = sessions_.settings().variants;
  if (request.frame == nullptr) {
    // Who knows nothing of streams is answered by what fits; where several do, by the smallest.
    request.service = variants[fitting(request).value_or(0)].name;
    if (!request.timeout) request.timeout = options_.slo;
    return absl::OkStatus();
  }
  policy::StreamFrame& frame = *request.frame;
  const std::scoped_lock lock(mutex_);
  answered = frame.hello || frame.leave;
  if (frame.leave) {
    sessions_.leave(frame.client, frame.owner);
    return absl::OkStatus();
  }
  if (frame.hello) return sessions_.hello(frame, request.arrival);
  for (const Tensor& tensor : request.inputs) frame.bytes += tensor.data.bytes.size();
  const std::optional<uint32_t> fit = fitting(request);
  if (!frame.input_size && fit) frame.input_size = variants[*fit].input_size;
  ASSIGN_OR_RETURN(const policy::StreamRoute route, sessions_.frame(frame, request.arrival));
  request.service = variants[route.variant].name;
  request.timeout = route.deadline - request.arrival;
  request.network_time = Duration();  // it is in the deadline
  request.start_from = route.start_from;
  return absl::OkStatus();
}

std::shared_ptr<const StreamReply> StreamService::reply_to(const policy::StreamFrame* frame,
                                                           Time arrival) const {
  if (frame == nullptr) return nullptr;
  const std::scoped_lock lock(mutex_);
  return std::make_shared<const StreamReply>(
      StreamReply{sessions_.advice(frame->client), monotonic_now() - arrival});
}

void StreamService::close(uint64_t owner) {
  const std::scoped_lock lock(mutex_);
  sessions_.close(owner);
}

void StreamService::plan() {
  plan::StreamProblem problem;
  {
    const std::scoped_lock lock(mutex_);
    const Time now = monotonic_now();
    if (!sessions_.wants_plan(now)) return;
    problem = sessions_.problem(now);
  }
  const plan::StreamPlan plan = plan::plan_streams(problem);
  const std::scoped_lock lock(mutex_);
  sessions_.planned(problem, plan);
  mapped_ = plan.served;
  mean_accuracy_ = plan.mean_accuracy;
  last_problem_ = std::move(problem);
}

std::optional<plan::StreamProblem> StreamService::last_problem() const {
  const std::scoped_lock lock(mutex_);
  return last_problem_;
}

StreamStatistics StreamService::statistics() const {
  const std::scoped_lock lock(mutex_);
  const policy::StreamTotals& totals = sessions_.totals();
  return {options_.name,   sessions_.clients(), mapped_,      totals.frames, totals.mismatches,
          totals.unmapped, totals.flooded,      totals.plans, mean_accuracy_};
}

}  // namespace fermata::engine
