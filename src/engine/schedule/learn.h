#pragma once

#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "engine/request.h"
#include "engine/schedule/job.h"
#include "policy/service.h"

namespace fermata::engine {

// The inputs of a request that something can be learned from; null: there is nothing to learn.
std::shared_ptr<const std::vector<Tensor>> worth_a_look(const Route& route,
                                                        const InferRequest& request,
                                                        uint32_t items);

// Finds out what they say: calls `tell` with what is known of each item, at most once, from any
// thread, and never before the scheduler has the request. What comes too late changes nothing.
using TellEstimates = absl::AnyInvocable<void(std::vector<policy::Estimate> by_item)>;
void learn(const Route& route, std::shared_ptr<const std::vector<Tensor>> inputs, uint32_t items,
           TellEstimates tell);

}  // namespace fermata::engine
