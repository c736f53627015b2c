#include <png.h>
#include <turbojpeg.h>

#include <cstring>

#include "base/status.h"
#include "operators/kinds.h"
#include "operators/values.h"

namespace fermata::operators {
namespace {

constexpr int64_t kMostPixels = 32'000'000;

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

class DecodeImage final : public Operator {
 public:
  explicit DecodeImage(int64_t most)
      : Operator({{.name = "encoded", .datatype = DataType::kBytes, .dims = {1}}},
                 {{.name = "image", .datatype = DataType::kUint8, .dims = {-1, -1, 3}}}),
        most_(most) {}

 private:
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    ASSIGN_OR_RETURN(const Bytes bytes, only_text(inputs[0]));
    absl::StatusOr<cv::Mat> image =
        invalid("the picture begins with neither the bytes of a JPEG nor of a PNG");
    if (begins_with(bytes, "\xff\xd8\xff")) image = decode_jpeg(bytes, most_);
    if (begins_with(bytes, "\x89PNG\r\n\x1a\n")) image = decode_png(bytes, most_);
    if (!image.ok()) return image.status();
    return std::vector<Tensor>{picture("image", *image)};
  }

  const int64_t most_;
};

}  // namespace

std::shared_ptr<const Operator> read_decode_image(ObjectReader& options, Resolve) {
  return std::make_shared<DecodeImage>(
      options["max_pixels"].integer(1, int64_t{1} << 30, kMostPixels));
}

}  // namespace fermata::operators
