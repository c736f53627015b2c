#include "cli/local_model.h"

#include <utility>

#include "base/status.h"

namespace fermata::cli {

absl::StatusOr<LocalModel> LocalModel::load(const std::string& file, uint32_t side) {
  ASSIGN_OR_RETURN(std::shared_ptr<engine::OnnxModel> model, engine::OnnxModel::load(file, {}));
  std::vector<load::InputInfo> inputs;
  for (const auto& input : model->signature().inputs) {
    inputs.push_back({input.name, input.datatype, input.shape});
  }
  auto encoder = client::FrameEncoder::make(inputs, {});
  if (!encoder.ok()) return invalid("{}: {}", file, message(encoder.status()));
  // [.., height, width, 3] and [.., 3, height, width] both have a side last but one.
  const Shape& shape = inputs.front().shape;
  if (side == 0 && shape.size() >= 3 && shape[shape.size() - 2] > 0) {
    side = static_cast<uint32_t>(shape[shape.size() - 2]);
  }
  if (side == 0) {
    return invalid("{} takes pictures of any size, expected --local-size with the side to use",
                   file);
  }
  return LocalModel(std::move(model), *std::move(encoder), side);
}

LocalModel::LocalModel(std::shared_ptr<engine::OnnxModel> model, client::FrameEncoder encoder,
                       uint32_t side)
    : model_(std::move(model)), encoder_(std::move(encoder)), side_(side) {
  for (const auto& output : model_->signature().outputs) outputs_.push_back(output.name);
}

absl::StatusOr<std::vector<Tensor>> LocalModel::run(const cv::Mat& picture) {
  ASSIGN_OR_RETURN(const Tensor tensor, encoder_.encode(picture, side_));
  return model_->run({{&tensor.name, tensor.datatype, tensor.shape, tensor.data.bytes}}, outputs_);
}

}  // namespace fermata::cli
