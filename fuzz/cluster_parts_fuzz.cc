// What frontends, schedulers and workers say to each other of requests whose inputs stay with a
// frontend: what is accepted fits its model, and each request ends once.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "cluster/fixture.h"
#include "cluster/frontend/held_requests.h"
#include "cluster/wire/messages.h"
#include "cluster/wire/offered.h"
#include "cluster/wire/replies.h"
#include "cluster/wire/stream_messages.h"
#include "cluster/wire/tensor_reader.h"
#include "engine/admission.h"

namespace {

using namespace fermata;

constexpr uint64_t kKey = 7;

std::shared_ptr<const engine::Variant> variant() {
  static const auto made = [] {
    auto variant = std::make_shared<engine::Variant>();
    variant->signature = cluster::signature();
    return variant;
  }();
  return made;
}

void scheduler_hears(const cluster::Asked& asked) {
  for (const cluster::Submit& each : asked.submits()) {
    engine::InferRequest request;
    request.outputs.assign(each.outputs().begin(), each.outputs().end());
    request.elsewhere = std::make_shared<const engine::InputsElsewhere>(engine::InputsElsewhere{
        nullptr, each.key(), each.items(), Shape(each.shape().begin(), each.shape().end())});
    const auto admitted = engine::admit(request, variant()->signature, {4, 8});
    if (!admitted.ok()) continue;
    FERMATA_CHECK(admitted->items >= 1 && admitted->items <= 32);
    FERMATA_CHECK(admitted->shape.size() == 2 && admitted->shape[0] >= 0);
  }
  for (const cluster::ClientFrame& each : asked.frames()) {
    const engine::InferRequest request = cluster::read_frame(each);
    FERMATA_CHECK(request.network_time >= Duration());
    cluster::ClientFrame again;
    cluster::write_frame(each.key(), request, again);
  }
  for (const cluster::OperatorTimes& each : asked.operators()) {
    for (const Duration time : cluster::read_operators(each)) FERMATA_CHECK(time >= Duration());
  }
}

void worker_hears(const cluster::Frame& frame) {
  cluster::TensorReader tensors(frame);
  cluster::Part part;
  part.set_items(2);
  for (const cluster::Given& given : frame.message.inputs().given()) {
    const auto request = cluster::read_inputs(part, given.tensors(), given.parameters(),
                                              variant()->signature, tensors);
    if (request.ok()) FERMATA_CHECK(request->inputs[0].shape[0] == 2);
  }
}

void frontend_hears(const cluster::Frame& frame) {
  int replies = 0;
  cluster::HeldRequests requests(kKey);
  cluster::HeldRequests::Request held{.variant = variant()};
  held.request.inputs = {cluster::numbers("x", {3, 2}, {1, 2, 3, 4, 5, 6}),
                         cluster::texts("s", {"a", "bc", ""})};
  held.admitted.items = 3;
  held.reply = [&replies](engine::ReplyPart reply) {
    ++replies;
    if (reply.status.ok()) FERMATA_CHECK(reply.outputs.at(0).shape[0] == 3);
  };
  requests.add(requests.next_key(), std::move(held), 1, [](uint64_t, const auto&) {});
  for (const cluster::Piece& piece : frame.message.fetch().pieces()) {
    (void)requests.fetch({piece.key(), piece.first(), piece.items()});
  }
  cluster::TensorReader tensors(frame);
  for (const cluster::Answered& answered : frame.message.outputs().answered()) {
    const cluster::Piece& piece = answered.piece();
    requests.take({piece.key(), piece.first(), piece.items()}, {}, [&](const auto& by) {
      const engine::BatchPart part{&by.inputs, &by.outputs, piece.first(), piece.items()};
      return cluster::read_outputs(answered.tensors(), part, by.signature, tensors);
    });
  }
  for (const cluster::Reply& each : frame.message.told().replies()) {
    if (auto reply = cluster::read_reply(each); reply.ok()) {
      requests.told(each.key(),
                    {*std::move(reply), {each.answered_by().begin(), each.answered_by().end()}},
                    Time());
    }
  }
  for (const cluster::Directed& each : frame.message.told().directed()) {
    const auto direction = cluster::read_directed(each);
    if (direction.ok()) FERMATA_CHECK(direction->status.ok() || direction->service.empty());
    FERMATA_CHECK(!requests.take_frame(each.key()).has_value());  // none is a stream's
  }
  const auto offer = cluster::read_offered(frame.message.told().offered());
  if (offer.ok()) {
    for (const auto& [name, model] : offer->models) {
      for (const auto& version : model.variants) FERMATA_CHECK(version->signature.max_batch >= 1);
    }
  }
  requests.told(kKey, {}, Time());
  requests.lost(1);
  requests.end_all(absl::UnavailableError("it stops"));
  FERMATA_CHECK(replies == 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto frame = cluster::parse_frame({reinterpret_cast<const std::byte*>(data), size});
  if (!frame) return 0;
  scheduler_hears(frame->message.asked());
  worker_hears(*frame);
  frontend_hears(*frame);
  return 0;
}
