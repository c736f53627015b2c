#include "operators/pictures.h"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <opencv2/imgproc.hpp>
#include <string_view>

#include "base/status.h"

namespace fermata::operators {
namespace {

absl::Status too_large(int64_t width, int64_t height, int64_t most) {
  return invalid("the picture has {} x {} pixels, expected at most {} in all", width, height, most);
}

using Bytes = absl::Span<const std::byte>;

bool begins_with(Bytes bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

absl::StatusOr<cv::Mat> decode_jpeg(Bytes bytes, int64_t most) {
  const std::unique_ptr<void, int (*)(tjhandle)> handle(tjInitDecompress(), tjDestroy);
  if (handle == nullptr) return internal("libjpeg-turbo could not start");
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto size = static_cast<unsigned long>(bytes.size());
  int width = 0, height = 0, subsampling = 0, space = 0;
  const auto broken = [&] {
    return invalid("the picture is no JPEG that can be decoded: {}", tjGetErrorStr2(handle.get()));
  };
  if (tjDecompressHeader3(handle.get(), data, size, &width, &height, &subsampling, &space) != 0) {
    return broken();
  }
  if (space == TJCS_CMYK || space == TJCS_YCCK) {
    return invalid("the picture is a JPEG in CMYK, as for print, expected one in grey or RGB");
  }
  if (int64_t{width} * height > most) return too_large(width, height, most);
  cv::Mat image(height, width, CV_8UC3);
  // A file of few bytes may ask for thousands of passes over the picture.
  constexpr int kFlags = TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  if (tjDecompress2(handle.get(), data, size, image.data, width, 0, height, TJPF_RGB, kFlags) !=
      0) {
    return broken();
  }
  return image;
}

absl::StatusOr<cv::Mat> decode_png(Bytes bytes, int64_t most) {
  png_image header = {};
  header.version = PNG_IMAGE_VERSION;
  const auto broken = [&] {
    return invalid("the picture is no PNG that can be decoded: {}",
                   static_cast<const char*>(header.message));
  };
  if (png_image_begin_read_from_memory(&header, bytes.data(), bytes.size()) == 0) return broken();
  const std::unique_ptr<png_image, void (*)(png_image*)> free(&header, png_image_free);
  if (int64_t{header.width} * header.height > most) {
    return too_large(header.width, header.height, most);
  }
  header.format = PNG_FORMAT_RGB;
  cv::Mat image(static_cast<int>(header.height), static_cast<int>(header.width), CV_8UC3);
  const png_color white = {255, 255, 255};
  if (png_image_finish_read(&header, &white, image.data, 0, nullptr) == 0) return broken();
  return image;
}

uint64_t number_at(Bytes bytes, size_t at, size_t length) {
  uint64_t value = 0;
  for (size_t i = 0; i < length && at + i < bytes.size(); ++i) {
    value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return value;
}

// Where the marker of the next segment, or of the end, begins; the end of the bytes: nowhere.
size_t next_segment(Bytes bytes, size_t at) {
  constexpr uint8_t kMark = 0xff, kFirstBare = 0xd0, kLastBare = 0xd8;  // restarts, and the start
  while (at + 1 < bytes.size()) {
    const void* mark = std::memchr(bytes.data() + at, kMark, bytes.size() - at - 1);
    if (mark == nullptr) break;
    at = static_cast<size_t>(static_cast<const std::byte*>(mark) - bytes.data());
    const auto kind = static_cast<uint8_t>(bytes[at + 1]);
    if (kind > 1 && kind != kMark && (kind < kFirstBare || kind > kLastBare)) return at;
    at += kind == kMark ? 1 : 2;
  }
  return bytes.size();
}

// By its segments: the frame says the size, and each scan is a pass over it. What stands between
// segments is looked through up to a length that only large pictures have; beyond it all may be
// scans.
uint64_t jpeg_work(Bytes bytes) {
  constexpr uint8_t kFrame = 0xc0, kLastFrame = 0xcf, kEnd = 0xd9, kScan = 0xda;
  constexpr size_t kMostBetween = 1 << 20, kLeastScan = 10;
  uint64_t pixels = 0, scans = 0;
  size_t between = 0;
  for (size_t at = 2; at + 1 < bytes.size();) {
    const size_t left = kMostBetween - between;
    const size_t found = next_segment(bytes.first(std::min(bytes.size(), at + left)), at);
    between += found - at;
    if (between >= kMostBetween) {
      scans += (bytes.size() - found) / kLeastScan;
      break;
    }
    if (found + 1 >= bytes.size()) break;
    const auto kind = static_cast<uint8_t>(bytes[found + 1]);
    if (kind == kEnd) break;
    const bool is_table = kind == 0xc4 || kind == 0xc8 || kind == 0xcc;
    if (kind >= kFrame && kind <= kLastFrame && !is_table) {
      pixels = std::max(pixels, number_at(bytes, found + 5, 2) * number_at(bytes, found + 7, 2));
    }
    scans += kind == kScan;
    at = found + 2 + number_at(bytes, found + 2, 2);
  }
  return pixels * std::max<uint64_t>(scans, 1);
}

}  // namespace

uint64_t decoding_work(Bytes bytes) {
  constexpr uint64_t kChannels = 3;
  if (begins_with(bytes, "\xff\xd8\xff")) return jpeg_work(bytes) * kChannels;
  return number_at(bytes, 16, 4) * number_at(bytes, 20, 4) * kChannels;  // IHDR comes first
}

absl::StatusOr<cv::Mat> decode_picture(Bytes bytes, int64_t most_pixels) {
  if (begins_with(bytes, "\xff\xd8\xff")) return decode_jpeg(bytes, most_pixels);
  if (begins_with(bytes, "\x89PNG\r\n\x1a\n")) return decode_png(bytes, most_pixels);
  return invalid("the picture begins with neither the bytes of a JPEG nor of a PNG");
}

cv::Mat resized(const cv::Mat& image, cv::Size size) {
  if (image.size() == size) return image;
  cv::Mat result;
  const bool shrinks = size.area() < image.size().area();
  cv::resize(image, result, size, 0, 0, shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
  return result;
}

}  // namespace fermata::operators
