#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/ids.h"
#include "engine/request.h"
#include "engine/schedule/job.h"

namespace fermata::engine {

// Of the queue of its service: a request asks for a place, a stage's takes one anyway, since the
// whole was let in, and one that has moved keeps the one that it had.
enum class Place : uint8_t { kAsked, kTaken, kHad };

// A request as a job that fits its service, has a place in its queue, and room for its inputs,
// which take `bytes_of(inputs)`. Null: it was rejected, and that was counted and replied.
std::shared_ptr<Job> let_in(JobId id, InferRequest&& request, Reply reply,
                            std::shared_ptr<Route> route, Place place);

// Of a request without a route: it is counted by the caller.
void reject(const InferRequest& request, Reply& reply, absl::Status why, Outcome outcome);

// What they take until their request ends. Of BYTES, ONNX Runtime has a string for each element.
uint64_t bytes_of(const std::vector<Tensor>& inputs);
// A reply that is there has to be sent: what its outputs take keeps later requests out until nobody
// has them any more.
void count_until_read(std::vector<Tensor>& outputs, const std::shared_ptr<ByteBudget>& budget);
// Why a service has no room for so many more bytes: RESOURCE_EXHAUSTED, or OUT_OF_RANGE where it
// never has.
absl::Status no_room_for(uint64_t bytes, const std::string& service, const ByteBudget& budget);

}  // namespace fermata::engine
