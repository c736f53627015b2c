#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/apart/layout.h"
#include "engine/execute/executor.h"
#include "engine/onnx/onnx_model.h"
#include "model/signature.h"
#include "model/tensor.h"

namespace fermata::engine::apart {

// What stands in the records of a slot, on both sides.

// The server's: what it asks. RESOURCE_EXHAUSTED where it has more tensors than there is room for.
struct Asked {
  uint32_t number = 0, variant = 0;
  bool to_the_end = false;
  absl::Span<const OnnxInput> inputs;  // of which the data lie in the shared file from `base` on
  const std::byte* base = nullptr;
  absl::Span<const std::string> outputs;
  absl::Span<const BatchPart> parts;
  bool notes = false;  // the parts' ids and parameters too, as far as there is room
};
absl::Status write_request(const Asked& asked, const Signature& signature,
                           absl::Span<std::byte> record);

// The process's: the same, as places among the inputs and outputs of the signature.
struct Request {
  struct Input {
    uint32_t tensor = 0;
    Shape shape;
    uint64_t offset = 0, bytes = 0;
  };
  uint32_t number = 0, variant = 0, items = 0;
  bool to_the_end = false;
  std::vector<Input> inputs;
  std::vector<uint32_t> outputs;
  std::vector<PartRecord> parts;
};
absl::StatusOr<Request> read_request(absl::Span<const std::byte> record);

// The process's answer; the places of its tensors' data are in the file.
struct Written {
  uint32_t tensor = 0;
  const Tensor* value = nullptr;
  uint64_t offset = 0;
};
void write_reply(uint32_t number, const absl::Status& status, absl::Span<const Written> outputs,
                 absl::Span<const StageRun> stages, Duration run, absl::Span<std::byte> record);

// What the server expects of an answer, and nothing else does it take.
struct Expected {
  uint32_t number = 0;
  const Signature* signature = nullptr;
  absl::Span<const std::string> outputs;  // that were asked for
  uint32_t parts = 0;
  uint64_t begin = 0, end = 0;  // where in the file outputs may lie
};
// An answer whose places, sizes, shapes and datatypes are right; the data are where they were.
struct Reply {
  struct Output {
    const TensorSpec* spec = nullptr;
    Shape shape;
    uint64_t offset = 0, bytes = 0, elements = 0;
    uint32_t part = kWhole;
  };
  absl::Status status;
  std::vector<Output> outputs;  // every one that was asked for once, in order, of all or of a part
  std::vector<StageRun> stages;
  std::vector<std::pair<uint32_t, absl::Status>> failed;  // parts
};
// Copies the record before it looks at it, since the process may still write there. INTERNAL says
// what is wrong with it.
absl::StatusOr<Reply> read_reply(absl::Span<const std::byte> record, const Expected& expected);

}  // namespace fermata::engine::apart
