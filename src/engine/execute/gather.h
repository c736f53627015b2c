#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/execute/executor.h"
#include "engine/onnx/onnx_model.h"
#include "model/signature.h"

namespace fermata::engine {

// `items` rows of a tensor whose first dimension counts them, from `first` on; the
// bytes stay where they are. O(1), for BYTES O(elements before the end).
absl::StatusOr<Payload> rows(const Tensor& tensor, uint32_t first, uint32_t items);

uint64_t bytes_of(absl::Span<const BatchPart> parts);  // of their inputs

// Puts the parts of a batch together, as the model wants them. One part is borrowed
// where it lies; several are copied, once, into buffers that live until the next call.
class Gatherer {
 public:
  // INVALID_ARGUMENT where a payload is not what its shape says.
  absl::StatusOr<std::vector<OnnxInput>> gather(const Signature& signature,
                                                absl::Span<const BatchPart> parts);
  // The batch has run: buffers of the usual size are kept for the next one, large ones are not.
  void ran();

 private:
  absl::Status gather_input(const TensorSpec& spec, bool batches, size_t index,
                            absl::Span<const BatchPart> parts, size_t buffer, OnnxInput& input);
  std::vector<std::vector<std::byte>> buffers_;  // by input
};

// The same into memory of somebody else: all parts are copied there, one input behind the other at
// multiples of `alignment`. RESOURCE_EXHAUSTED where they do not fit.
absl::StatusOr<std::vector<OnnxInput>> gather_into(const Signature& signature,
                                                   absl::Span<const BatchPart> parts,
                                                   absl::Span<std::byte> memory, size_t alignment);

// Whether bytes are so many BYTES elements and nothing else.
bool are_strings(absl::Span<const std::byte> bytes, uint64_t elements);

// The outputs of one part: views of its rows of the batch's outputs, which must lead
// with `batch_items`, reshaped to what the signature promises.
absl::StatusOr<std::vector<Tensor>> scatter(const Signature& signature,
                                            const std::vector<Tensor>& outputs,
                                            const BatchPart& part, uint32_t first_in_batch,
                                            uint32_t batch_items);

// The same of all parts, in order; adds none where one fails.
absl::Status scatter_all(const Signature& signature, const std::vector<Tensor>& outputs,
                         absl::Span<const BatchPart> parts,
                         std::vector<absl::StatusOr<std::vector<Tensor>>>& results);

// The outputs that some part asks for.
std::vector<std::string> output_names(const Signature& signature,
                                      absl::Span<const BatchPart> parts);

// Runs all parts together, by `together`, which adds one result for each, or none where they fail
// as one. Then each is run alone; so are those from the start that ask for it. Where their inputs
// take more than its `most_bytes`, so many run together as take no more, at least one.
void run_parts(const BatchRun& batch, BatchResult& result,
               absl::FunctionRef<absl::Status(absl::Span<const BatchPart>, BatchResult&)> together);

// Of scatter() and of a dynamic network's stages: an output does not lead with the batch's items.
absl::Status not_by_items(const Tensor& output, uint64_t items);
bool is_not_by_items(const absl::Status& status);

// The same outputs of consecutive parts as one, copied.
absl::StatusOr<std::vector<Tensor>> join(absl::Span<const std::vector<Tensor>> parts);

}  // namespace fermata::engine
