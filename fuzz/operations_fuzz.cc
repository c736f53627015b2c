#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "infer_check.h"
#include "serve/json/message_json.h"
#include "serve/json/operation_bodies.h"

namespace fermata::serve {
namespace {

// What was read prints as JSON again; a refusal says something.
template <class Message>
void check_body(const absl::StatusOr<Message>& read) {
  if (read.ok()) {
    (void)message_to_json(*read);
  } else {
    check_refusal(read.status());
  }
}

}  // namespace
}  // namespace fermata::serve

// The bodies of index, load, unload and register.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata::serve;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  check_body(read_index_body(body));
  check_body(read_load_body(body));
  check_body(read_unload_body(body));
  check_body(read_register_body(body));
  return 0;
}
