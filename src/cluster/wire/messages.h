#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cluster/wire/channel.h"
#include "engine/execute/executor.h"
#include "engine/request.h"
#include "model/signature.h"

namespace fermata::cluster {

void write_kept(const KeptElsewhere& from, Kept& to);

// What is sent, with the bytes of its tensors, which `kept` keeps alive.
struct Outgoing {
  Message message;
  std::vector<Channel::Bytes> payload;
  std::vector<Payload> kept;

  void add(const Tensor& tensor, TensorHead& head);
  uint64_t bytes() const;
  // Whether the other side takes so much: RESOURCE_EXHAUSTED says that it does not.
  absl::Status check() const;
};

// The rows of each part only; the parts' data must live until it is sent.
absl::StatusOr<Outgoing> write_batch(uint64_t number, const engine::BatchRun& batch,
                                     const Signature& signature, Time now);

class TensorReader;
using TensorHeads = google::protobuf::RepeatedPtrField<TensorHead>;

// A batch as it came, to be run here.
struct ReceivedBatch {
  uint64_t number = 0;
  std::vector<engine::InferRequest> requests;  // one a part
  engine::BatchRun run;                        // its parts point into them
};
// INVALID_ARGUMENT where it does not fit the model or its frame.
absl::StatusOr<ReceivedBatch> read_batch(const Frame& frame, const Signature& signature, Time now);

// What it says of a part whose inputs have come, which must live as long; of all its parts; and
// what its inputs are. INVALID_ARGUMENT where these do not fit the model.
absl::StatusOr<engine::BatchPart> part_of(const Part& from, const engine::InferRequest& request,
                                          Time now);
absl::Status check_batch(const Batch& batch, const Signature& signature);
absl::StatusOr<engine::InferRequest> read_inputs(const Part& part, const TensorHeads& heads,
                                                 std::string parameters, const Signature& signature,
                                                 TensorReader& tensors);
// Every output that is wanted, once, in any order: INVALID_ARGUMENT where it is another.
absl::StatusOr<std::vector<Tensor>> read_outputs(const TensorHeads& heads,
                                                 const engine::BatchPart& part,
                                                 const Signature& signature, TensorReader& tensors);

// `waited`: since the batch was there. The result must live until it is sent.
Outgoing write_ended(uint64_t number, Duration waited, const engine::BatchResult& result);

struct ReceivedEnd {
  engine::BatchResult result;  // its link and times there, but not when it started
  Duration waited;
};
// INVALID_ARGUMENT where it is no answer to that batch.
absl::StatusOr<ReceivedEnd> read_ended(const Frame& frame, uint64_t number,
                                       absl::Span<const engine::BatchPart> parts,
                                       const Signature& signature);

// What two hosts must agree on about a model, a line a tensor.
std::string signature_text(const Signature& signature);

}  // namespace fermata::cluster
