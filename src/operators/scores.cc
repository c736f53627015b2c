// Operators that read what a classifier or a detector says.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/status.h"
#include "operators/kinds.h"
#include "operators/lines.h"
#include "operators/values.h"

namespace fermata::operators {
namespace {

const TensorSpec kScores = {.name = "scores", .datatype = DataType::kFp32, .dims = {-1}};

// The k classes of the highest scores, the highest first; of equal ones the first. NaN is least.
std::vector<int64_t> best_classes(absl::Span<const float> scores, size_t k) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto worth = [&](int64_t i) {
    const float score = scores[static_cast<size_t>(i)];
    return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
  };
  k = std::min(k, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<ptrdiff_t>(k), order.end(),
      [&](int64_t a, int64_t b) { return worth(a) != worth(b) ? worth(a) > worth(b) : a < b; });
  order.resize(k);
  return order;
}

class TopK final : public Operator {
 public:
  TopK(size_t k, std::vector<std::string> labels)
      : Operator({kScores}, outputs_for(k, !labels.empty())), k_(k), labels_(std::move(labels)) {}

 private:
  static std::vector<TensorSpec> outputs_for(size_t k, bool labels) {
    const auto count = static_cast<int64_t>(k);
    std::vector<TensorSpec> outputs = {
        {.name = "classes", .datatype = DataType::kInt64, .dims = {count}},
        {.name = "scores", .datatype = DataType::kFp32, .dims = {count}}};
    if (labels)
      outputs.push_back({.name = "labels", .datatype = DataType::kBytes, .dims = {count}});
    return outputs;
  }

  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    const Floats scores(inputs[0]);
    const size_t count = scores.values().size();
    if (count < k_ || (!labels_.empty() && count != labels_.size())) {
      return invalid("input 'scores' has {} classes, expected {}{}", count,
                     labels_.empty() ? "at least " : "", labels_.empty() ? k_ : labels_.size());
    }
    std::vector<int64_t> best = best_classes(scores.values(), k_);
    std::vector<float> values;
    std::vector<std::string> names;
    for (const int64_t i : best) {
      values.push_back(scores.values()[static_cast<size_t>(i)]);
      if (!labels_.empty()) names.push_back(labels_[static_cast<size_t>(i)]);
    }
    const auto k = static_cast<int64_t>(k_);
    std::vector<Tensor> outputs = {whole_numbers("classes", {k}, std::move(best)),
                                   floats("scores", {k}, std::move(values))};
    if (!labels_.empty()) outputs.push_back(texts("labels", names));
    return outputs;
  }

  const size_t k_;
  const std::vector<std::string> labels_;
};

class Argmax final : public Operator {
 public:
  Argmax()
      : Operator({kScores}, {{.name = "class", .datatype = DataType::kInt64, .dims = {1}},
                             {.name = "score", .datatype = DataType::kFp32, .dims = {1}}}) {}

 private:
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    const Floats scores(inputs[0]);
    if (scores.values().empty()) return invalid("input 'scores' has no classes");
    const int64_t best = best_classes(scores.values(), 1).front();
    return std::vector{whole_numbers("class", {1}, {best}),
                       floats("score", {1}, {scores.values()[static_cast<size_t>(best)]})};
  }
};

// Boxes whose score reaches the threshold.
class Threshold final : public Operator {
 public:
  explicit Threshold(float least)
      : Operator({{.name = "boxes", .datatype = DataType::kFp32, .dims = {-1, 4, 2}}, kScores},
                 {{.name = "boxes", .datatype = DataType::kFp32, .dims = {-1, 4, 2}}, kScores}),
        least_(least) {}

 private:
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    const Floats boxes(inputs[0]), scores(inputs[1]);
    const size_t count = scores.values().size();
    if (static_cast<int64_t>(count) != inputs[0].shape[0]) {
      return invalid("input 'scores' has {} scores, expected one of each of {} boxes", count,
                     inputs[0].shape[0]);
    }
    std::vector<float> kept_boxes, kept_scores;
    for (size_t i = 0; i < count; ++i) {
      if (!(scores.values()[i] >= least_)) continue;
      const auto box = boxes.values().subspan(i * 8, 8);
      kept_boxes.insert(kept_boxes.end(), box.begin(), box.end());
      kept_scores.push_back(scores.values()[i]);
    }
    const auto kept = static_cast<int64_t>(kept_scores.size());
    return std::vector{floats("boxes", {kept, 4, 2}, std::move(kept_boxes)),
                       floats("scores", {kept}, std::move(kept_scores))};
  }

  const float least_;
};

}  // namespace

std::shared_ptr<const Operator> read_argmax(ObjectReader&, Resolve) {
  return std::make_shared<Argmax>();
}

std::shared_ptr<const Operator> read_top_k(ObjectReader& options, Resolve resolve) {
  Reader labels = options["labels"];
  std::vector<std::string> names;
  if (labels.present()) names = lines_of(labels, resolve);
  const auto most = names.empty() ? 100'000 : static_cast<int64_t>(names.size());
  return std::make_shared<TopK>(static_cast<size_t>(options["k"].integer(1, most)),
                                std::move(names));
}

std::shared_ptr<const Operator> read_threshold(ObjectReader& options, Resolve) {
  return std::make_shared<Threshold>(static_cast<float>(options["least"].number()));
}

}  // namespace fermata::operators
