#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "base/byte_budget.h"

namespace google::protobuf {
class Descriptor;
namespace io {
class ZeroCopyInputStream;
}
}  // namespace google::protobuf

namespace fermata::serve {

// Walks a message as it came and takes into `held` what its parts will take when it is parsed and
// when a request is made of it: an empty part has two bytes on the wire and hundreds in memory.
// Nothing is kept; O(bytes). INVALID_ARGUMENT where it is no message of that type; where `held`
// cannot grow, as no_memory_for() says.
absl::Status hold_parsed(google::protobuf::io::ZeroCopyInputStream& wire,
                         const google::protobuf::Descriptor& type, HeldBytes& held);

}  // namespace fermata::serve
