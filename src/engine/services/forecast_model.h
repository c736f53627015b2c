#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/onnx/onnx_model.h"
#include "estimate/forecast.h"

namespace fermata::engine {

// A forecasting network: one FP32 input [n, 120], the loads of the last seconds with the newest
// last, and one FP32 output [n, 1], the highest load of the next 20. `python -m fermata_train
// forecast` trains one.
class ForecastModel {
 public:
  // Blocks. INVALID_ARGUMENT names the file and what is wrong with it.
  static absl::StatusOr<std::unique_ptr<ForecastModel>> load(const std::string& file);

  // Runs on the calling thread, well below a millisecond. Not below 0. INTERNAL where the network
  // answers what is no number.
  absl::StatusOr<double> forecast(estimate::LoadSpan loads) const;

 private:
  ForecastModel(std::shared_ptr<OnnxModel> model, std::string input, std::string output);
  const std::shared_ptr<OnnxModel> model_;
  const std::string input_, output_;
};

}  // namespace fermata::engine
