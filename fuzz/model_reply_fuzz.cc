// The answers of model processes, which may write what they like.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "engine/apart/record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata;
  static const Signature signature = [] {
    Signature made{.batches = true, .max_batch = 4};
    made.outputs = {{.name = "y", .datatype = DataType::kFp32, .dims = {3}, .model_dims = {3}},
                    {.name = "t", .datatype = DataType::kBytes, .dims = {-1}, .model_dims = {-1}}};
    return made;
  }();
  static const std::vector<std::string> names = {"y", "t"};
  constexpr uint64_t kBegin = 4096, kEnd = 8192;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto reply = engine::apart::read_reply({bytes, std::min(size, engine::apart::kReplySize)},
                                               {.number = 1,
                                                .signature = &signature,
                                                .outputs = names,
                                                .parts = 2,
                                                .begin = kBegin,
                                                .end = kEnd});
  if (!reply.ok()) return 0;
  for (const auto& output : reply->outputs) {
    FERMATA_CHECK(output.offset >= kBegin && output.offset + output.bytes <= kEnd);
    FERMATA_CHECK(output.part == engine::apart::kWhole || output.part < 2);
  }
  for (const auto& [part, why] : reply->failed) FERMATA_CHECK(part < 2 && !why.ok());
  return 0;
}
