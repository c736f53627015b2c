#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/frame_encoder.h"
#include "engine/onnx/onnx_model.h"

namespace fermata::cli {

// A model file that looks at pictures in this process: what a stream's client runs while no DNN
// of the service can serve it in time.
class LocalModel {
 public:
  // `side` 0: the file's. INVALID_ARGUMENT where the file is no such model, or leaves its size
  // open and no side is given. Blocks.
  static absl::StatusOr<LocalModel> load(const std::string& file, uint32_t side);
  absl::StatusOr<std::vector<Tensor>> run(const cv::Mat& picture);
  uint32_t side() const { return side_; }

 private:
  LocalModel(std::shared_ptr<engine::OnnxModel> model, client::FrameEncoder encoder, uint32_t side);

  std::shared_ptr<engine::OnnxModel> model_;
  client::FrameEncoder encoder_;
  uint32_t side_;
  std::vector<std::string> outputs_;
};

}  // namespace fermata::cli
