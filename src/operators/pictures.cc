#include "operators/pictures.h"

#include <png.h>
#include <turbojpeg.h>

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

}  // namespace

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
