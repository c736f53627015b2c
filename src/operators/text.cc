// Operators for reading text: where it is, and what it says.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <opencv2/imgproc.hpp>

#include "base/status.h"
#include "operators/boxes.h"
#include "operators/kinds.h"
#include "operators/lines.h"
#include "operators/values.h"

namespace fermata::operators {
namespace {

// Of a heat map of how likely each pixel belongs to text, as differentiable binarisation leaves it:
// the map is smaller than the text, so boxes grow by area times `unclip` over circumference.
class TextBoxes final : public Operator {
 public:
  struct Options {
    double threshold = 0.3, box_threshold = 0.6, unclip = 1.5;
    int least_side = 3;
    size_t most = kMostBoxes;
  };
  explicit TextBoxes(const Options& options)
      : Operator({{.name = "heat", .datatype = DataType::kFp32, .dims = {1, -1, -1}},
                  {.name = "image", .datatype = DataType::kUint8, .dims = {-1, -1, 3}}},
                 {{.name = "boxes", .datatype = DataType::kFp32, .dims = {-1, 4, 2}},
                  {.name = "scores", .datatype = DataType::kFp32, .dims = {-1}}}),
        options_(options) {}

 private:
  struct Found {
    Box box;
    float score;
  };

  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    const Floats values(inputs[0]);
    const auto height = static_cast<int>(inputs[0].shape[1]);
    const auto width = static_cast<int>(inputs[0].shape[2]);
    if (height == 0 || width == 0) return invalid("input 'heat' has no pixels");
    const cv::Mat heat(height, width, CV_32F, const_cast<float*>(values.values().data()));
    const cv::Size picture_size(static_cast<int>(inputs[1].shape[1]),
                                static_cast<int>(inputs[1].shape[0]));
    std::vector<Found> found = boxes_of(heat);
    in_reading_order(found);
    std::vector<float> corners, scores;
    for (const Found& one : found) {
      for (const cv::Point2f& corner : one.box) {
        corners.push_back(std::clamp(corner.x / static_cast<float>(width), 0.0F, 1.0F) *
                          static_cast<float>(picture_size.width));
        corners.push_back(std::clamp(corner.y / static_cast<float>(height), 0.0F, 1.0F) *
                          static_cast<float>(picture_size.height));
      }
      scores.push_back(one.score);
    }
    const auto count = static_cast<int64_t>(found.size());
    return std::vector{floats("boxes", {count, 4, 2}, std::move(corners)),
                       floats("scores", {count}, std::move(scores))};
  }

  std::vector<Found> boxes_of(const cv::Mat& heat) const {
    const cv::Mat text = heat > options_.threshold;
    std::vector<std::vector<cv::Point>> outlines;
    cv::findContours(text, outlines, cv::RETR_LIST, cv::CHAIN_APPROX_SIMPLE);
    if (outlines.size() > options_.most) outlines.resize(options_.most);
    std::vector<Found> found;
    for (const std::vector<cv::Point>& outline : outlines) {
      cv::RotatedRect rect = cv::minAreaRect(outline);
      const float shorter = std::min(rect.size.width, rect.size.height);
      if (shorter < static_cast<float>(options_.least_side)) continue;
      const float score = mean_inside(heat, rect);
      if (!(score >= options_.box_threshold)) continue;
      const double grow =
          rect.size.area() * options_.unclip / (2.0 * (rect.size.width + rect.size.height));
      rect.size.width += static_cast<float>(2 * grow);
      rect.size.height += static_cast<float>(2 * grow);
      found.push_back({corners_of(rect), score});
    }
    return found;
  }

  static float mean_inside(const cv::Mat& heat, const cv::RotatedRect& rect) {
    const cv::Rect around = rect.boundingRect() & cv::Rect(0, 0, heat.cols, heat.rows);
    if (around.empty()) return 0;
    cv::Mat mask = cv::Mat::zeros(around.size(), CV_8U);
    std::array<cv::Point2f, 4> corners;
    rect.points(corners.data());
    std::array<cv::Point, 4> inside;
    for (size_t i = 0; i < 4; ++i) {
      inside[i] = cv::Point(corners[i]) - around.tl();
    }
    cv::fillConvexPoly(mask, inside.data(), 4, cv::Scalar(1));
    return static_cast<float>(cv::mean(heat(around), mask)[0]);
  }

  // Clockwise from the top left.
  static Box corners_of(const cv::RotatedRect& rect) {
    Box corners;
    rect.points(corners.data());
    std::sort(corners.begin(), corners.end(),
              [](const cv::Point2f& a, const cv::Point2f& b) { return a.x < b.x; });
    const bool left_swapped = corners[0].y > corners[1].y;
    const bool right_swapped = corners[2].y > corners[3].y;
    return {corners[left_swapped ? 1 : 0], corners[right_swapped ? 3 : 2],
            corners[right_swapped ? 2 : 3], corners[left_swapped ? 0 : 1]};
  }

  // Line by line: boxes whose tops differ by less than half of the height stand in one line.
  static void in_reading_order(std::vector<Found>& found) {
    const auto top = [](const Found& f) { return f.box[0].y; };
    std::sort(found.begin(), found.end(),
              [&](const Found& a, const Found& b) { return top(a) < top(b); });
    for (size_t begin = 0; begin < found.size();) {
      const double height = cv::norm(found[begin].box[3] - found[begin].box[0]);
      size_t end = begin + 1;
      while (end < found.size() && top(found[end]) - top(found[begin]) < height / 2) ++end;
      std::sort(found.begin() + static_cast<ptrdiff_t>(begin),
                found.begin() + static_cast<ptrdiff_t>(end),
                [](const Found& a, const Found& b) { return a.box[0].x < b.box[0].x; });
      begin = end;
    }
  }

  const Options options_;
};

// Connectionist temporal classification, greedily: the likeliest class of each step, repetitions
// and blanks (class 0) left out.
class CtcDecode final : public Operator {
 public:
  CtcDecode(std::string file, bool space)
      : Operator({{.name = "steps", .datatype = DataType::kFp32, .dims = {-1, -1}}},
                 {{.name = "text", .datatype = DataType::kBytes, .dims = {1}},
                  {.name = "score", .datatype = DataType::kFp32, .dims = {1}}}),
        file_(std::move(file)),
        space_(space) {}

 private:
  using Characters = std::vector<std::string>;

  // The file may come with the model, later than the configuration: it is read when it is first
  // needed.
  absl::StatusOr<std::shared_ptr<const Characters>> characters() const {
    const std::lock_guard lock(mutex_);
    if (characters_ != nullptr) return characters_;
    Characters lines = lines_of(file_);
    if (lines.empty()) {
      return error(absl::StatusCode::kUnavailable,
                   "{} cannot be read, expected a text file with one character a line", file_);
    }
    if (space_) lines.emplace_back(" ");
    characters_ = std::make_shared<const Characters>(std::move(lines));
    return characters_;
  }

  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    ASSIGN_OR_RETURN(const auto characters, this->characters());
    const size_t classes = characters->size() + 1;
    if (inputs[0].shape[1] != static_cast<int64_t>(classes)) {
      return invalid("input 'steps' has {} classes, expected {}: a blank and the characters of {}",
                     inputs[0].shape[1], classes, file_);
    }
    const Floats values(inputs[0]);
    const auto steps = static_cast<size_t>(inputs[0].shape[0]);
    std::string text;
    double sum = 0;
    size_t kept = 0, before = 0;
    for (size_t step = 0; step < steps; ++step) {
      const float* row = values.values().data() + step * classes;
      const auto best = static_cast<size_t>(std::max_element(row, row + classes) - row);
      if (best != 0 && best != before) {
        text += (*characters)[best - 1];
        sum += row[best];
        ++kept;
      }
      before = best;
    }
    const auto score = static_cast<float>(kept == 0 ? 0 : sum / static_cast<double>(kept));
    return std::vector{texts("text", {std::move(text)}), floats("score", {1}, {score})};
  }

  const std::string file_;
  const bool space_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Characters> characters_;
};

}  // namespace

std::shared_ptr<const Operator> read_text_boxes(ObjectReader& options, Resolve) {
  TextBoxes::Options wanted;
  wanted.threshold = options["threshold"].between(0, 1, wanted.threshold);
  wanted.box_threshold = options["box_threshold"].between(0, 1, wanted.box_threshold);
  wanted.unclip = options["unclip"].between(0, 10, wanted.unclip);
  wanted.least_side = static_cast<int>(options["least_side"].integer(1, 1024, wanted.least_side));
  wanted.most = static_cast<size_t>(
      options["most"].integer(1, kMostBoxes, static_cast<int64_t>(wanted.most)));
  return std::make_shared<TextBoxes>(wanted);
}

std::shared_ptr<const Operator> read_ctc_decode(ObjectReader& options, Resolve resolve) {
  std::string file = resolve(options["characters"].string());
  return std::make_shared<CtcDecode>(std::move(file), options["space"].boolean(true));
}

}  // namespace fermata::operators
