// What parts on other hosts send: a frame's head, its message and the tensors behind it. What is
// accepted as a batch, or as the end of one, must be what its model takes and gives.
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "cluster/fixture.h"
#include "cluster/wire/messages.h"

namespace {

using namespace fermata;

void check_within(const std::vector<Tensor>& tensors, const cluster::Frame& frame) {
  for (const Tensor& tensor : tensors) {
    const auto bytes = tensor.data.bytes;
    FERMATA_CHECK(bytes.empty() ||
                  (bytes.data() >= frame.payload.get() &&
                   bytes.data() + bytes.size() <= frame.payload.get() + frame.bytes));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Signature signature = cluster::signature();
  const auto parsed = cluster::parse_frame({reinterpret_cast<const std::byte*>(data), size});
  if (!parsed) return 0;
  const cluster::Frame& frame = *parsed;
  const auto batch = cluster::read_batch(frame, signature, Time());
  if (batch.ok()) {
    uint64_t items = 0;
    for (const auto& part : batch->run.parts) {
      check_within(*part.inputs, frame);
      items += part.items;
    }
    FERMATA_CHECK(items >= 1 && items <= signature.max_batch);
  }
  static const std::vector<std::string> all, one = {"y"};
  static const std::vector<Tensor> none;
  const std::vector<engine::BatchPart> parts = {{&none, &all, 0, 1}, {&none, &one, 1, 2}};
  const auto end = cluster::read_ended(frame, 5, parts, signature);
  if (!end.ok()) return 0;
  FERMATA_CHECK(end->result.parts.size() == parts.size());
  for (const auto& outputs : end->result.parts) {
    if (outputs.ok()) check_within(*outputs, frame);
  }
  return 0;
}
