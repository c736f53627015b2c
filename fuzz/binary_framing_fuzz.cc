#include <cstdint>
#include <memory>
#include <string>

#include "infer_check.h"
#include "serve/json/json_request.h"
#include "serve/net/compression.h"

// A body with a header length that may lie (the first two bytes of the input):
// JSON with tensors behind it, one raw tensor, or something compressed.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata;
  using namespace fermata::serve;
  if (size < 2) return 0;
  const size_t json_length = data[0] | data[1] << 8;
  const SharedMemory regions;
  fermata::HeldBytes held;
  const auto text =
      std::make_shared<std::string>(reinterpret_cast<const char*>(data + 2), size - 2);
  const InferBody body{*text, json_length, text};
  const auto call = decode_json_infer(body, regions, held);
  if (call.ok()) {
    size_t claimed = json_length;
    for (const Tensor& tensor : call->request.inputs) {
      const auto* start = reinterpret_cast<const char*>(tensor.data.bytes.data());
      if (start >= text->data() && start < text->data() + text->size()) {
        claimed += tensor.data.bytes.size();
      }
    }
    FERMATA_CHECK(claimed == text->size());
    check_call(*call, regions);
  } else {
    check_refusal(call.status());
  }
  engine::Variant variant;
  variant.signature.batches = json_length % 2 == 0;
  variant.signature.inputs.push_back({"x", DataType(json_length % 14), {-1, 3}, {-1, 3}});
  if (const auto raw = decode_raw_infer(body, variant, held); raw.ok()) check_call(*raw, regions);
  for (const Encoding encoding : {Encoding::kGzip, Encoding::kDeflate}) {
    const auto plain = decompress(*text, encoding, 1 << 20);
    FERMATA_CHECK(!plain.ok() ||
                  decompress(compress({*plain}, encoding), encoding, 1 << 20) == plain);
  }
  return 0;
}
