#pragma once

#include <cstdint>
#include <opencv2/core.hpp>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace fermata::operators {

// Pictures are CV_8UC3, red first.

inline constexpr int64_t kMostPixels = 32'000'000;

// A JPEG or PNG file. INVALID_ARGUMENT where it is neither, is broken, or has more pixels: then
// before it is decoded.
absl::StatusOr<cv::Mat> decode_picture(absl::Span<const std::byte> bytes,
                                       int64_t most_pixels = kMostPixels);
// How many bytes decode_picture() writes, those of every pass over the picture, by what the file
// says of itself; 0 where it says nothing. Decodes nothing. O(bytes), at most some milliseconds.
uint64_t decoding_work(absl::Span<const std::byte> bytes);
// What shrinks takes the mean of what falls together. Shares the pixels of a picture that has the
// size already.
cv::Mat resized(const cv::Mat& image, cv::Size size);

}  // namespace fermata::operators
