#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "cluster.pb.h"
#include "engine/admission.h"
#include "engine/request.h"
#include "engine/schedule/learn.h"

namespace fermata::cluster {

// What a scheduler needs to know of a request whose inputs stay with its frontend.
void write_submit(uint64_t key, const engine::InferRequest& request,
                  const engine::Admitted& admitted, Submit& to);

// What was found in its data, as a scheduler takes it.
void write_learned(uint64_t key, const std::vector<policy::Estimate>& by_item, Learned& to);
std::vector<policy::Estimate> read_learned(const Learned& from);
// Else nobody is told: it would be too much for a frame, and without it the profiles count.
bool can_be_told(const std::vector<policy::Estimate>& by_item);

// A scheduler's reply: without the outputs, which workers have sent to the frontend; of an ensemble
// with whose answers are to be put together there.
void write_reply(uint64_t key, const engine::ReplyPart& reply, Reply& to);
// Without what the frontend knows itself. INVALID_ARGUMENT says what no scheduler sends.
absl::StatusOr<engine::ReplyPart> read_reply(const Reply& from);

}  // namespace fermata::cluster
