#include <cstdint>
#include <memory>
#include <string>

#include "infer_check.h"
#include "serve/http/web_stream.h"

// A message of a WebSocket's client: text, or binary where the first byte is odd.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata;
  using namespace fermata::serve;
  if (size == 0) return 0;
  const SharedMemory regions;
  fermata::HeldBytes held;
  const auto bytes =
      std::make_shared<std::string>(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto body = read_web_message(*bytes, data[0] % 2 == 1, bytes);
  if (!body.ok()) {
    check_refusal(body.status());
    return 0;
  }
  const std::string_view json = body->bytes.substr(0, body->json_length.value_or(SIZE_MAX));
  FERMATA_CHECK(json.size() <= bytes->size());
  const auto call = decode_json_infer(*body, regions, held);
  if (call.ok()) {
    check_call(*call, regions);
    (void)id_of(json);
  } else {
    check_refusal(call.status());
    engine::ReplyPart part;
    part.status = call.status();
    const ReplyWishes wishes{.explain = (data[0] & 2) != 0};
    FERMATA_CHECK(encode_json_failure(id_of(json), part, wishes).back() == '}');
  }
  return 0;
}
