#pragma once

#include <string_view>

namespace fermata::load {

// The request parameter that asks for an explanation, and those of a reply that
// hold it, as docs/protocol.md says.
inline constexpr std::string_view kExplain = "explain";
inline constexpr std::string_view kBatchItems = "batch_size";
inline constexpr std::string_view kQueueingUs = "queueing_us";
inline constexpr std::string_view kRunUs = "run_us";
// Microseconds from a request's last byte; the protocol's own.
inline constexpr std::string_view kTimeout = "timeout";

}  // namespace fermata::load
