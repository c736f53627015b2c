#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/status.h"

// What a server and `fermata nursery` say to each other, on a stream that keeps messages apart. An
// order has descriptors: a child's, and last the one from which it reads a byte before it goes on;
// its bytes are the child's arguments. One without is a text to prepare with. Answers are 64 bits,
// and words after them: 0 where it is ready or prepared, below it why not, as errno has it; above
// it where a child is there, which says so itself: whose number it has the kernel tells. Before the
// answer to a text comes one more, with the descriptor that lets the nursery copy itself
// (copy_gate.h).
namespace fermata::engine::nursery {

inline constexpr int kStream = 3;  // the nursery's descriptor of it
inline constexpr int kAside = 32;  // descriptors that are none of a child's first ones
inline constexpr size_t kMostWords = 64 << 10, kMostDescriptors = 16;
inline constexpr char kBetween = '\0';  // between two words
// OpenBLAS, which libraries of OpenCV's may bring, starts threads when it is read unless this says
// 1. Children are to have what stood there before.
inline constexpr const char* kThreads = "OPENBLAS_NUM_THREADS";

inline absl::Status unavailable(std::string_view why) {
  return error(absl::StatusCode::kUnavailable, "{}", why);
}

absl::Status send(int stream, std::string_view words, absl::Span<const int> descriptors);

}  // namespace fermata::engine::nursery
