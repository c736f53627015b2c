#pragma once

#include "base/document.h"

namespace google::protobuf {
class Message;
}

namespace fermata::serve {

// A protocol message as the HTTP side of the protocol spells it: field names as
// they are in the .proto, whole numbers as numbers, every field present. (Unlike
// protobuf's own JSON, which makes strings of 64-bit numbers.)
Json message_to_json(const google::protobuf::Message& message);

}  // namespace fermata::serve
