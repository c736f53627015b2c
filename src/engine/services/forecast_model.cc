#include "engine/services/forecast_model.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/status.h"
#include "model/tensor_values.h"

namespace fermata::engine {
namespace {

constexpr int64_t kLoads = estimate::kForecastWindow;

// [n, columns] with n free, or 1.
bool takes_rows(const FileTensor& tensor, int64_t columns) {
  return tensor.datatype == DataType::kFp32 && tensor.shape.size() == 2 &&
         (tensor.shape[0] == -1 || tensor.shape[0] == 1) &&
         (tensor.shape[1] == columns || tensor.shape[1] == -1);
}

}  // namespace

ForecastModel::ForecastModel(std::shared_ptr<OnnxModel> model, std::string input,
                             std::string output)
    : model_(std::move(model)), input_(std::move(input)), output_(std::move(output)) {}

absl::StatusOr<std::unique_ptr<ForecastModel>> ForecastModel::load(const std::string& file) {
  ASSIGN_OR_RETURN(const std::shared_ptr<OnnxModel> model, OnnxModel::load(file, {}));
  const FileSignature& face = model->signature();
  if (face.inputs.size() != 1 || !takes_rows(face.inputs[0], kLoads)) {
    return invalid("{}: expected one FP32 input [-1,{}], the loads of as many seconds", file,
                   kLoads);
  }
  if (face.outputs.size() != 1 || !takes_rows(face.outputs[0], 1)) {
    return invalid("{}: expected one FP32 output [-1,1], the highest load to come", file);
  }
  std::unique_ptr<ForecastModel> forecast(
      new ForecastModel(model, face.inputs[0].name, face.outputs[0].name));
  const std::array<double, estimate::kForecastWindow> calm = {};
  ASSIGN_OR_RETURN(double tried, forecast->forecast(estimate::LoadSpan(calm)));
  (void)tried;
  return forecast;
}

absl::StatusOr<double> ForecastModel::forecast(estimate::LoadSpan loads) const {
  std::array<float, estimate::kForecastWindow> data;
  std::transform(loads.begin(), loads.end(), data.begin(),
                 [](double load) { return static_cast<float>(load); });
  const OnnxInput input{
      .name = &input_,
      .datatype = DataType::kFp32,
      .shape = {1, kLoads},
      .data = absl::MakeConstSpan(reinterpret_cast<const std::byte*>(data.data()), sizeof data)};
  ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, model_->run({input}, {output_}));
  ASSIGN_OR_RETURN(const std::vector<float> values, as_floats(outputs.at(0)));
  if (values.size() != 1 || !std::isfinite(values[0])) {
    return absl::InternalError("the forecasting network did not answer one finite number");
  }
  return std::max(0.0, static_cast<double>(values[0]));
}

}  // namespace fermata::engine
