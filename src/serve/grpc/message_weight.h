#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace google::protobuf {
class Descriptor;
namespace io {
class ZeroCopyInputStream;
}
}  // namespace google::protobuf

namespace fermata::serve {

// Walks a message as it came and asks `hold` for what its parts will take when it is parsed and
// when a request is made of it: an empty part has two bytes on the wire and hundreds in memory.
// Nothing is kept; O(bytes). INVALID_ARGUMENT where it is no message of that type;
// RESOURCE_EXHAUSTED, as soon as that is known, where `hold` says no.
absl::Status hold_parsed(google::protobuf::io::ZeroCopyInputStream& wire,
                         const google::protobuf::Descriptor& type,
                         absl::FunctionRef<bool(size_t)> hold);

}  // namespace fermata::serve
