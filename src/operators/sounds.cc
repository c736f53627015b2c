// Operators on sound: samples are FP32 [n], in [-1, 1].
#include <algorithm>

#include "base/status.h"
#include "operators/kinds.h"
#include "operators/sound.h"
#include "operators/values.h"

namespace fermata::operators {
namespace {

constexpr double kStepsOfSample = 33;  // of resampled()
const TensorSpec kSamples = {.name = "samples", .datatype = DataType::kFp32, .dims = {-1}};
const TensorSpec kStart = {.name = "start", .datatype = DataType::kInt64, .dims = {1}};

class DecodeSound final : public Operator {
 public:
  DecodeSound(uint32_t rate, double most_seconds)
      : Operator({{.name = "encoded", .datatype = DataType::kBytes, .dims = {1}}}, {kSamples}),
        rate_(rate),
        most_seconds_(most_seconds) {}

  // As if it had a byte for each sample, and as few samples a second as it may.
  uint64_t work(absl::Span<const Tensor> inputs) const override {
    const double samples = static_cast<double>(Operator::work(inputs)) * rate_ / kLeastSoundRate;
    return static_cast<uint64_t>(std::min(samples, most_seconds_ * rate_) * kStepsOfSample);
  }

 private:
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    ASSIGN_OR_RETURN(const absl::Span<const std::byte> bytes, only_text(inputs[0]));
    ASSIGN_OR_RETURN(std::vector<float> samples, decode_sound(bytes, rate_, most_seconds_));
    const auto count = static_cast<int64_t>(samples.size());
    return std::vector{floats("samples", {count}, std::move(samples))};
  }

  const uint32_t rate_;
  const double most_seconds_;
};

// The last one is filled up with zeros.
class Windows final : public Operator {
 public:
  Windows(size_t size, size_t step, size_t most)
      : Operator(
            {kSamples},
            {{.name = "samples", .datatype = DataType::kFp32, .dims = {static_cast<int64_t>(size)}},
             kStart},
            true),
        size_(size),
        step_(step),
        most_(most) {}

 private:
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    const Floats samples(inputs[0]);
    const size_t count = samples.values().size();
    const size_t behind = count > size_ ? count - size_ : 0;
    // Where they leave gaps, the last would begin in one.
    const size_t windows = std::min(1 + (behind + step_ - 1) / step_, (count + step_ - 1) / step_);
    if (windows > most_) {
      return invalid("input 'samples' has {} windows, expected at most {}", windows, most_);
    }
    std::vector<float> all(windows * size_);
    std::vector<int64_t> starts;
    for (size_t w = 0; w < windows; ++w) {
      const size_t start = w * step_;
      starts.push_back(static_cast<int64_t>(start));
      const auto part = samples.values().subspan(start, std::min(size_, count - start));
      std::copy(part.begin(), part.end(), all.begin() + static_cast<ptrdiff_t>(w * size_));
    }
    const auto made = static_cast<int64_t>(windows);
    return std::vector{floats("samples", {made, static_cast<int64_t>(size_)}, std::move(all)),
                       whole_numbers("start", {made, 1}, std::move(starts))};
  }

  const size_t size_, step_, most_;
};

// The item, or none.
class Keep final : public Operator {
 public:
  Keep(size_t index, float least)
      : Operator({kSamples, kStart, {.name = "scores", .datatype = DataType::kFp32, .dims = {-1}}},
                 {kSamples, kStart}, true),
        index_(index),
        least_(least) {}

 private:
  absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const override {
    const Floats scores(inputs[2]);
    if (index_ >= scores.values().size()) {
      return invalid("input 'scores' has {} classes, expected more than {}", scores.values().size(),
                     index_);
    }
    const bool kept = scores.values()[index_] >= least_;
    std::vector<Tensor> outputs(inputs.begin(), inputs.begin() + 2);
    for (Tensor& output : outputs) {
      output.shape.insert(output.shape.begin(), kept ? 1 : 0);
      if (!kept) output.data = payload_of(std::vector<float>{});
    }
    outputs[0].name = kSamples.name;
    outputs[1].name = kStart.name;
    return outputs;
  }

  const size_t index_;
  const float least_;
};

}  // namespace

std::shared_ptr<const Operator> read_decode_sound(ObjectReader& options, Resolve) {
  const auto rate = static_cast<uint32_t>(options["rate"].integer(1000, 192'000, 16'000));
  return std::make_shared<DecodeSound>(
      rate, static_cast<double>(options["max_seconds"].integer(1, 3600, 60)));
}

std::shared_ptr<const Operator> read_windows(ObjectReader& options, Resolve) {
  const int64_t size = options["size"].integer(1, int64_t{1} << 24);
  const int64_t step = options["step"].integer(1, int64_t{1} << 24, std::max<int64_t>(size, 1));
  const int64_t most = options["most"].integer(1, 100'000, 1000);
  return std::make_shared<Windows>(static_cast<size_t>(size), static_cast<size_t>(step),
                                   static_cast<size_t>(most));
}

std::shared_ptr<const Operator> read_keep(ObjectReader& options, Resolve) {
  const auto index = static_cast<size_t>(options["class"].integer(0, 100'000));
  return std::make_shared<Keep>(index, static_cast<float>(options["least"].number(0.5)));
}

}  // namespace fermata::operators
