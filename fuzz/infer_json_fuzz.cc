#include <cstdint>
#include <memory>
#include <string>

#include "infer_check.h"
#include "serve/json/json_request.h"

// The JSON of an infer request, without a binary part.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata::serve;
  const SharedMemory regions;
  fermata::HeldBytes held;
  const auto text = std::make_shared<std::string>(reinterpret_cast<const char*>(data), size);
  const auto call = decode_json_infer({*text, {}, text}, regions, held);
  if (call.ok()) {
    check_call(*call, regions);
  } else {
    check_refusal(call.status());
  }
  return 0;
}
