#include "operators/operator.h"

#include <opencv2/core.hpp>

#include "base/check.h"
#include "base/status.h"
#include "model/tensor_values.h"
#include "operators/kinds.h"

namespace fermata::operators {
namespace {

// BYTES elements carry their lengths, which whoever made the tensor has checked.
absl::Status check_input(const Tensor& tensor, const TensorSpec& spec) {
  const auto fits = [&] {
    if (tensor.shape.size() != spec.dims.size()) return false;
    for (size_t i = 0; i < spec.dims.size(); ++i) {
      if (tensor.shape[i] < 0) return false;
      if (spec.dims[i] >= 0 && tensor.shape[i] != spec.dims[i]) return false;
    }
    return true;
  };
  if (tensor.datatype != spec.datatype || !fits()) {
    return invalid("input '{}' is {} {}, expected {} {}", spec.name, name(tensor.datatype),
                   to_string(tensor.shape), name(spec.datatype), to_string(spec.dims));
  }
  const size_t element = element_size(spec.datatype);
  if (element > 0 && element_count(tensor.shape) * element != tensor.data.bytes.size()) {
    return invalid("input '{}' {} has {} bytes, expected {}", spec.name, to_string(tensor.shape),
                   tensor.data.bytes.size(), element_count(tensor.shape) * element);
  }
  return absl::OkStatus();
}

struct Kind {
  std::string_view name;
  std::shared_ptr<const Operator> (*read)(ObjectReader&, Resolve);
};

constexpr Kind kKinds[] = {
    {"decode-image", read_decode_image},
    {"resize", read_resize},
    {"normalise", read_normalise},
    {"crop", read_crop},
    {"rotate", read_rotate},
    {"text-boxes", read_text_boxes},
    {"ctc-decode", read_ctc_decode},
    {"argmax", read_argmax},
    {"top-k", read_top_k},
    {"threshold", read_threshold},
    {"decode-sound", read_decode_sound},
    {"windows", read_windows},
    {"keep", read_keep},
};

}  // namespace

Operator::Operator(std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs, bool fans_out)
    : inputs_(std::move(inputs)), outputs_(std::move(outputs)), fans_out_(fans_out) {}

uint64_t Operator::work(absl::Span<const Tensor> inputs) const { return payload_bytes(inputs); }

absl::StatusOr<std::vector<Tensor>> Operator::run(absl::Span<const Tensor> inputs) const {
  if (inputs.size() != inputs_.size()) {
    return invalid("{} inputs, expected {}", inputs.size(), inputs_.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) RETURN_IF_ERROR(check_input(inputs[i], inputs_[i]));
  try {
    return apply(inputs);
  } catch (const cv::Exception& e) {
    return internal("{}", e.what());
  }
}

std::shared_ptr<const Operator> read_operator(std::string_view name, ObjectReader& options,
                                              Resolve resolve) {
  // Stages run side by side on threads of their own.
  static const bool once = (cv::setNumThreads(1), true);
  (void)once;
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return kind.read(options, resolve);
  }
  FERMATA_CHECK(false);
}

const std::vector<std::string_view>& operator_names() {
  static const auto* const names = [] {
    auto* all = new std::vector<std::string_view>;
    for (const Kind& kind : kKinds) all->push_back(kind.name);
    return all;
  }();
  return *names;
}

}  // namespace fermata::operators
