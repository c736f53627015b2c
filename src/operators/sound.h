#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace fermata::operators {

inline constexpr uint32_t kLeastSoundRate = 1000, kMostSoundRate = 192'000;  // of a file

// A WAV file (whole numbers of 8 to 32 bits, or floating-point ones; any number of channels, of
// which the mean is taken) at this rate, clipped to [-1, 1]. INVALID_ARGUMENT where it is none, is
// broken or holds more seconds: then before it is decoded. O(bytes), and where it has another rate
// what resampled() takes.
absl::StatusOr<std::vector<float>> decode_sound(absl::Span<const std::byte> bytes, uint32_t rate,
                                                double most_seconds);

// The same sound at another rate, by a windowed sinc; what the new rate cannot carry is left out.
// Some 33 steps for each sample of the higher of the two rates; twice as many where the new rate
// has little in common with the other.
std::vector<float> resampled(absl::Span<const float> samples, uint32_t from, uint32_t to);

}  // namespace fermata::operators
