#include "engine/services/stream_face.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/composite/composite.h"
#include "model/tensor_values.h"

namespace fermata::engine {
namespace {

bool matches(const Tensor& tensor, const TensorSpec& spec, const Signature& signature) {
  const Shape wanted = signature.wire_shape(spec);
  return tensor.datatype == spec.datatype &&
         std::equal(tensor.shape.begin(), tensor.shape.end(), wanted.begin(), wanted.end(),
                    [](int64_t has, int64_t want) { return want == -1 || has == want; });
}

}  // namespace

std::vector<ServiceOptions> take_streams(std::vector<ServiceOptions>& services) {
  const auto is_stream = [](const ServiceOptions& s) { return s.stream.has_value(); };
  std::vector<ServiceOptions> streams;
  absl::c_copy_if(services, std::back_inserter(streams), is_stream);
  std::erase_if(services, is_stream);
  return streams;
}

absl::StatusOr<StreamFace> StreamFace::make(const ServiceOptions& options, const Catalog& catalog) {
  StreamFace face;
  face.variants_ = options.stream->variants;
  face.slo_ = options.slo;
  std::shared_ptr<const Variant> largest;
  for (const StreamOptions::Variant& v : face.variants_) {
    ASSIGN_OR_RETURN(largest, catalog.find(v.service, ""));
    face.signatures_.push_back(largest->signature);
  }
  auto service = std::make_shared<Service>();
  service->name = service->model = options.name;
  const auto public_model = make_public_model(options.name, *largest, largest->id);
  public_model->config.set_platform("fermata_stream");  // by which clients find such services
  service->versions = {public_model};
  face.service_ = std::move(service);
  return face;
}

std::shared_ptr<const Service> StreamFace::waiting(const ServiceOptions& options,
                                                   const Catalog& catalog, std::string why) {
  auto service = std::make_shared<Service>();
  service->name = service->model = options.name;
  service->trouble = std::move(why);
  for (const StreamOptions::Variant& v : options.stream->variants) {
    const auto found = catalog.find(v.service, "");
    if (found.ok()) continue;
    service->trouble = message(found.status());
    break;
  }
  return service;
}

bool StreamFace::fits(const InferRequest& request, size_t variant) const {
  const Signature& signature = signatures_[variant];
  return std::all_of(request.inputs.begin(), request.inputs.end(), [&](const Tensor& tensor) {
    const TensorSpec* spec = signature.input(tensor.name);
    return spec != nullptr && matches(tensor, *spec, signature);
  });
}

// Of one alone the frame need not tell.
std::optional<size_t> StreamFace::fitting(const InferRequest& request) const {
  std::optional<size_t> found;
  for (size_t v = 0; v < variants_.size(); ++v) {
    if (!fits(request, v)) continue;
    if (found) return std::nullopt;
    found = v;
  }
  return found;
}

void StreamFace::read_tensors(InferRequest& request) const {
  policy::StreamFrame& frame = *request.frame;
  frame.bytes += payload_bytes(request.inputs);
  const std::optional<size_t> fit = fitting(request);
  if (!frame.input_size && fit) frame.input_size = variants_[*fit].input_size;
}

void StreamFace::pass_on(InferRequest& request) const {
  request.service = variants_[fitting(request).value_or(0)].service;
  if (!request.timeout) request.timeout = slo_;
}

void StreamFace::sign(ReplyPart& reply) const {
  reply.model = name();
  reply.version = std::string(1, '1');
}

std::shared_ptr<const StreamReply> StreamFace::reply_to_stranger(Time arrival) const {
  return std::make_shared<const StreamReply>(
      StreamReply{{variants_.front().input_size, Duration()}, monotonic_now() - arrival});
}

ReplyPart StreamFace::ended(absl::Status status, std::string id,
                            std::shared_ptr<const StreamReply> told) const {
  ReplyPart reply;
  sign(reply);
  reply.id = std::move(id);
  if (!status.ok()) {
    reply.why.outcome = absl::IsInvalidArgument(status) ? Outcome::kInvalid : Outcome::kUnavailable;
  }
  reply.status = std::move(status);
  reply.stream = std::move(told);
  return reply;
}

}  // namespace fermata::engine
