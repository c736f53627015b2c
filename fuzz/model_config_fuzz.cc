// config.pbtxt, as text or JSON, and its completion from a model file.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = parse_model_config(text, "config.pbtxt");
  if (!config.ok()) {
    FERMATA_CHECK(!config.status().message().empty());
    return 0;
  }
  const FileSignature file{{{"x", DataType::kFp32, {-1, 3, -1}, {"n", "", ""}}},
                           {{"y", DataType::kInt64, {-1, 10}, {"n", ""}}}};
  const auto complete = complete_model_config(*config, file, "m", 64);
  if (!complete.ok()) return 0;
  const Signature signature = signature_of(*complete);
  FERMATA_CHECK(signature.max_batch >= 1);
  for (const TensorSpec& input : signature.inputs) {
    Shape item = input.dims;
    for (int64_t& dim : item) dim = dim == -1 ? 2 : dim;
    (void)element_count(input.reshaped(item));
  }
  return 0;
}
