#include "base/status.h"
#include "operators/kinds.h"
#include "operators/pictures.h"
#include "operators/values.h"

namespace fermata::operators {
namespace {

class DecodeImage final : public Operator {
 public:
  explicit DecodeImage(int64_t most)
      : Operator({{.name = "encoded", .datatype = DataType::kBytes, .dims = {1}}},
                 {{.name = "image", .datatype = DataType::kUint8, .dims = {-1, -1, 3}}}),
        most_(most) {}

  uint64_t work(absl::Span<const Tensor> inputs) const override {
    const auto bytes = only_text(inputs[0]);
    return bytes.ok() ? decoding_work(*bytes) : 0;
  }

 private:
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    ASSIGN_OR_RETURN(const absl::Span<const std::byte> bytes, only_text(inputs[0]));
    ASSIGN_OR_RETURN(const cv::Mat image, decode_picture(bytes, most_));
    return std::vector<Tensor>{picture("image", image)};
  }

  const int64_t most_;
};

}  // namespace

std::shared_ptr<const Operator> read_decode_image(ObjectReader& options, Resolve) {
  return std::make_shared<DecodeImage>(
      options["max_pixels"].integer(1, int64_t{1} << 30, kMostPixels));
}

}  // namespace fermata::operators
