#include "serve/call/status_map.h"

#include <grpcpp/support/status.h>

#include <string>

#include "base/status.h"

namespace fermata::serve {
namespace {

bool is_inside_a_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Of a message that is too long: where the fault is stands at its start, what was expected at its
// end, and what a client sent between them. No character of UTF-8 is cut.
std::string_view first_half(std::string_view text) {
  size_t size = kLongestMessage / 2;
  while (size > 0 && is_inside_a_character(text[size])) --size;
  return text.substr(0, size);
}
std::string_view second_half(std::string_view text) {
  size_t from = text.size() - kLongestMessage / 2;
  while (from < text.size() && is_inside_a_character(text[from])) ++from;
  return text.substr(from);
}

}  // namespace

uint16_t http_status(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::string shortened(std::string_view text) {
  if (text.size() <= kLongestMessage) return std::string(text);
  return fmt::format("{} ... {}", first_half(text), second_half(text));
}

std::string client_message(const absl::Status& status) {
  const std::string_view prefix = absl::IsDeadlineExceeded(status) ? "Deadline Exceeded: " : "";
  return fmt::format("{}{}", prefix, shortened(message(status)));
}

grpc::Status grpc_status(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = absl::IsOutOfRange(status) ? grpc::StatusCode::INVALID_ARGUMENT
                                               : static_cast<grpc::StatusCode>(status.raw_code());
  return {code, client_message(status)};
}

}  // namespace fermata::serve
