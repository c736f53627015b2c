// Streams' frames at a frontend, which wait for the word of their scheduler.
#include <memory>
#include <shared_mutex>
#include <utility>

#include "cluster/frontend/frontend_engine.h"
#include "engine/schedule/entry.h"
#include "engine/services/stream_costs.h"
#include "model/tensor_values.h"

namespace fermata::cluster {

// Its bytes count with those of a variant, the first that is loaded.
void FrontendEngine::hold_frame(JobId id, HeldRequests::Request frame) {
  const uint64_t bytes = payload_bytes(frame.request.inputs);
  const auto routes = routes_.read();
  for (size_t v = 0; v < frame.stream->variants(); ++v) {
    const auto route = routes->find(frame.stream->variant(v), "");
    if (!route.ok()) continue;
    ByteBudget& budget = *(*route)->gate->bytes;
    if (bytes > 0 && !budget.take(bytes)) {
      return frame.reply(frame.stream->ended(
          engine::no_room_for(bytes, frame.request.service, budget), frame.request.id, nullptr));
    }
    frame.bytes = HeldBytes((*route)->gate->bytes, bytes);
    break;
  }
  OfDivision& division = *divisions_[frame.division];
  const std::shared_lock lock(division.asking);
  uint64_t session = division.link->session();
  if (session != division.asked_session) session = 0;  // behind those that wait: look() asks
  requests_.add(id.value(), std::move(frame), session,
                [&](uint64_t key, const auto& of) { ask(session, key, of); });
}

void FrontendEngine::tell_operators(Time now) {
  streams_.tell_operators(now, [this](const std::string& variant) {
    const auto route = routes_.read()->find(variant, "");
    if (!route.ok()) return Duration();
    return engine::StreamCosts::operators(
        (*route)->pipeline, [this](const auto& pipeline) { return trees_.runs(pipeline); });
  });
}

}  // namespace fermata::cluster
