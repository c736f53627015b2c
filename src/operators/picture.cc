// Operators that make pictures of pictures.
#include <cmath>
#include <opencv2/imgproc.hpp>

#include "base/status.h"
#include "operators/boxes.h"
#include "operators/kinds.h"
#include "operators/pictures.h"
#include "operators/values.h"

namespace fermata::operators {
namespace {

constexpr int64_t kLongestSide = 16'384;
const TensorSpec kImage = {.name = "image", .datatype = DataType::kUint8, .dims = {-1, -1, 3}};

int side(Reader reader) { return static_cast<int>(reader.integer(1, kLongestSide)); }

// [height, width]
cv::Size size_of(Reader reader) {
  const std::vector<Reader> sides = reader.list(2);
  if (sides.size() != 2) {
    if (!reader.failed()) reader.fail("a list of height and width");
    return {1, 1};
  }
  return {side(sides[1]), side(sides[0])};
}

// As large as goes into `size` without another ratio of its sides, at the top left; the rest is
// `fill`.
cv::Mat fitted(const cv::Mat& image, cv::Size size, int fill) {
  const double factor = std::min(static_cast<double>(size.width) / image.cols,
                                 static_cast<double>(size.height) / image.rows);
  const auto scaled = [factor](int length, int most) {
    return std::clamp(static_cast<int>(std::lround(length * factor)), 1, most);
  };
  cv::Mat result(size, CV_8UC3, cv::Scalar::all(fill));
  const cv::Size inner(scaled(image.cols, size.width), scaled(image.rows, size.height));
  resized(image, inner).copyTo(result(cv::Rect({0, 0}, inner)));
  return result;
}

class Resize final : public Operator {
 public:
  struct Options {
    cv::Size size;            // empty: from the longest side
    bool keep_ratio = false;  // of `size`
    int fill = 127;           // of what keep_ratio leaves
    int longest = 0, multiple = 1;
  };
  explicit Resize(const Options& options)
      : Operator({kImage}, {{.name = "image",
                             .datatype = DataType::kUint8,
                             .dims = options.size.empty()
                                         ? Shape{-1, -1, 3}
                                         : Shape{options.size.height, options.size.width, 3}}}),
        options_(options) {}

 private:
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    const cv::Mat image = picture(inputs[0]);
    if (image.empty()) return invalid("input 'image' has no pixels");
    if (options_.keep_ratio) {
      return std::vector{picture("image", fitted(image, options_.size, options_.fill))};
    }
    const cv::Size size = options_.size.empty() ? size_for(image.size()) : options_.size;
    return std::vector{picture("image", resized(image, size))};
  }

  // The longest side is at most `longest`, both are multiples.
  cv::Size size_for(cv::Size size) const {
    const double factor =
        std::min(1.0, static_cast<double>(options_.longest) / std::max(size.width, size.height));
    const auto rounded = [&](int length) {
      const auto times = static_cast<int>(std::lround(length * factor / options_.multiple));
      return std::max(1, times) * options_.multiple;
    };
    return {rounded(size.width), rounded(size.height)};
  }

  const Options options_;
};

class Normalise final : public Operator {
 public:
  struct Options {
    cv::Scalar mean, deviation;
    double scale = 1.0 / 255;
    bool channels_first = true, blue_first = false;
  };
  explicit Normalise(const Options& options)
      : Operator({kImage},
                 {{.name = "tensor",
                   .datatype = DataType::kFp32,
                   .dims = options.channels_first ? Shape{3, -1, -1} : Shape{-1, -1, 3}}}),
        options_(options) {}

 private:
  // The mean and the deviation are in the order of the output's channels.
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    const cv::Mat image = picture(inputs[0]);
    const auto pixels = static_cast<size_t>(image.total());
    std::vector<float> values(pixels * 3);
    for (int to = 0; to < 3; ++to) {
      const int from = options_.blue_first ? 2 - to : to;
      const auto factor = static_cast<float>(options_.scale / options_.deviation[to]);
      const auto shift = static_cast<float>(-options_.mean[to] / options_.deviation[to]);
      const size_t step = options_.channels_first ? 1 : 3;
      float* out = values.data() + (options_.channels_first ? to * pixels : to);
      const uint8_t* in = image.data + from;
      for (size_t i = 0; i < pixels; ++i) out[i * step] = in[i * 3] * factor + shift;
    }
    const int64_t height = image.rows, width = image.cols;
    return std::vector{floats(
        "tensor", options_.channels_first ? Shape{3, height, width} : Shape{height, width, 3},
        std::move(values))};
  }

  const Options options_;
};

// By boxes, which may be turned: each becomes an upright picture of its own.
class Crop final : public Operator {
 public:
  struct Options {
    cv::Size size;   // of every crop: what is left over is filled
    int widest = 0;  // crops become as wide as the widest one of a picture wants, to this,
    int step = 0;    // in steps of this
    int fill = 127;
    bool upright = false;  // one that is higher than 1.5 times its width is turned
  };
  explicit Crop(const Options& options)
      : Operator({kImage, {.name = "boxes", .datatype = DataType::kFp32, .dims = {-1, 4, 2}}},
                 {{.name = "image",
                   .datatype = DataType::kUint8,
                   .dims = {options.size.height,
                            options.widest > options.size.width ? -1 : options.size.width, 3}}},
                 true),
        options_(options) {}

 private:
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    const cv::Mat image = picture(inputs[0]);
    ASSIGN_OR_RETURN(const std::vector<Box> boxes, boxes_in(inputs[1], image.size()));
    std::vector<cv::Mat> crops;
    double widest = 0;
    for (const Box& box : boxes) {
      crops.push_back(cut(image, box));
      widest = std::max(widest, static_cast<double>(crops.back().cols) / crops.back().rows);
    }
    const cv::Size size(width_for(widest), options_.size.height);
    const auto bytes = static_cast<size_t>(size.area()) * 3;
    std::vector<uint8_t> all(bytes * crops.size());
    for (size_t i = 0; i < crops.size(); ++i) {
      const cv::Mat fits = fitted(crops[i], size, options_.fill);
      std::copy_n(fits.data, bytes, all.data() + i * bytes);
    }
    return std::vector{Tensor{"image",
                              DataType::kUint8,
                              {static_cast<int64_t>(crops.size()), size.height, size.width, 3},
                              payload_of(std::move(all))}};
  }

  int width_for(double ratio) const {
    if (options_.widest <= options_.size.width) return options_.size.width;
    const double wanted = std::ceil(ratio * options_.size.height);
    const double steps = std::ceil((wanted - options_.size.width) / options_.step);
    const double width = options_.size.width + std::max(0.0, steps) * options_.step;
    return static_cast<int>(std::min<double>(options_.widest, width));
  }

  cv::Mat cut(const cv::Mat& image, const Box& box) const {
    const auto length = [&](int from, int to) { return cv::norm(box[from] - box[to]); };
    const auto side_of = [](double a, double b) {
      return static_cast<float>(std::clamp(std::round(std::max(a, b)), 1.0, 1.0 * kLongestSide));
    };
    const float width = side_of(length(0, 1), length(3, 2));
    const float height = side_of(length(0, 3), length(1, 2));
    const Box upright = {cv::Point2f(0, 0), {width, 0}, {width, height}, {0, height}};
    cv::Mat result;
    cv::warpPerspective(image, result, cv::getPerspectiveTransform(box.data(), upright.data()),
                        cv::Size(static_cast<int>(width), static_cast<int>(height)),
                        cv::INTER_LINEAR, cv::BORDER_REPLICATE);
    if (options_.upright && height >= 1.5F * width) {
      cv::rotate(result, result, cv::ROTATE_90_COUNTERCLOCKWISE);
    }
    return result;
  }

  const Options options_;
};

// By 180 degrees where a model says so.
class Rotate final : public Operator {
 public:
  explicit Rotate(float least)
      : Operator({kImage, {.name = "scores", .datatype = DataType::kFp32, .dims = {2}}}, {kImage}),
        least_(least) {}

 private:
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    const Floats scores(inputs[1]);
    if (scores.values()[1] < least_) {
      Tensor same = inputs[0];
      same.name = "image";
      return std::vector{std::move(same)};
    }
    cv::Mat turned;
    cv::rotate(picture(inputs[0]), turned, cv::ROTATE_180);
    return std::vector{picture("image", turned)};
  }

  const float least_;
};

cv::Scalar three(Reader reader, double fallback, bool divides) {
  cv::Scalar result = cv::Scalar::all(fallback);
  if (!reader.present()) return result;
  const std::vector<Reader> values = reader.list(3);
  if (values.size() != 3 && !reader.failed()) reader.fail("a list of three numbers");
  for (size_t i = 0; i < std::min<size_t>(3, values.size()); ++i) {
    result[static_cast<int>(i)] = divides ? values[i].positive() : values[i].number();
  }
  return result;
}

int fill_of(ObjectReader& options, int fallback) {
  return static_cast<int>(options["fill"].integer(0, 255, fallback));
}

}  // namespace

std::shared_ptr<const Operator> read_resize(ObjectReader& options, Resolve) {
  Resize::Options wanted;
  Reader size = options["size"], longest = options["longest"];
  if (size.present() == longest.present()) {
    size.fail("either size: [height, width] or longest: N");
  } else if (size.present()) {
    wanted.size = size_of(size);
    wanted.keep_ratio = options["keep_ratio"].boolean(false);
    wanted.fill = fill_of(options, wanted.fill);
  } else {
    wanted.longest = side(longest);
    wanted.multiple = static_cast<int>(options["multiple"].integer(1, 1024, 1));
  }
  return std::make_shared<Resize>(wanted);
}

std::shared_ptr<const Operator> read_normalise(ObjectReader& options, Resolve) {
  return std::make_shared<Normalise>(Normalise::Options{
      .mean = three(options["mean"], 0, false),
      .deviation = three(options["deviation"], 1, true),
      .scale = options["scale"].positive(1.0 / 255),
      .channels_first = options["layout"].choice({"chw", "hwc"}, 0) == 0,
      .blue_first = options["channels"].choice({"rgb", "bgr"}, 0) == 1,
  });
}

std::shared_ptr<const Operator> read_crop(ObjectReader& options, Resolve) {
  Crop::Options wanted{.size = size_of(options["size"])};
  wanted.widest = static_cast<int>(options["widest"].integer(1, kLongestSide, wanted.size.width));
  wanted.step = static_cast<int>(options["step"].integer(1, kLongestSide, wanted.size.width));
  wanted.fill = fill_of(options, wanted.fill);
  wanted.upright = options["upright"].boolean(false);
  return std::make_shared<Crop>(wanted);
}

std::shared_ptr<const Operator> read_rotate(ObjectReader& options, Resolve) {
  return std::make_shared<Rotate>(static_cast<float>(options["threshold"].between(0, 1, 0.9)));
}

}  // namespace fermata::operators
