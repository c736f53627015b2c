#include "engine/execute/stages.h"

#include <cstring>
#include <filesystem>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "engine/execute/gather.h"

namespace fermata::engine {
namespace {

using Rows = std::vector<uint32_t>;  // of a batch's tensors, ascending

size_t row_bytes(const Tensor& tensor) {
  return tensor.shape[0] == 0 ? 0 : tensor.data.bytes.size() / static_cast<size_t>(tensor.shape[0]);
}

absl::Status check_rows(const Tensor& tensor, size_t expected) {
  if (!tensor.shape.empty() && tensor.shape[0] == static_cast<int64_t>(expected)) {
    return absl::OkStatus();
  }
  return not_by_items(tensor, expected);
}

Tensor rows_of(const Tensor& tensor, const Rows& rows) {
  const size_t size = row_bytes(tensor);
  std::vector<std::byte> bytes(rows.size() * size);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(bytes.data() + i * size, tensor.data.bytes.data() + rows[i] * size, size);
  }
  Tensor some = tensor;
  some.shape[0] = static_cast<int64_t>(rows.size());
  some.data = payload_of(std::move(bytes));
  return some;
}

// Puts the outputs of some items in the place of those that an earlier stage gave.
absl::Status overwrite(Tensor& whole, const Tensor& some, const Rows& rows) {
  const size_t size = row_bytes(whole);
  if (row_bytes(some) != size) {
    return internal("output '{}' has shape {} after one stage and {} after another", whole.name,
                    to_string(whole.shape), to_string(some.shape));
  }
  std::vector<std::byte> bytes(whole.data.bytes.begin(), whole.data.bytes.end());
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(bytes.data() + rows[i] * size, some.data.bytes.data() + i * size, size);
  }
  whole.data = payload_of(std::move(bytes));
  return absl::OkStatus();
}

// The places, within a stage's batch, of those that stay. What is no number is not sure.
Rows staying(const Tensor& confidence, double exit_above) {
  Rows places;
  for (uint32_t i = 0; i < confidence.shape[0]; ++i) {
    float sure = 0;
    std::memcpy(&sure, confidence.data.bytes.data() + i * sizeof(sure), sizeof(sure));
    if (!(sure >= exit_above)) places.push_back(i);
  }
  return places;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Stages>> load_stages(const std::string& first,
                                                          const OnnxOptions& options) {
  auto stages = std::make_shared<Stages>();
  for (const std::filesystem::path& file : stage_files(first)) {
    ASSIGN_OR_RETURN(auto stage, OnnxModel::load(file.string(), options));
    stages->push_back(std::move(stage));
  }
  return stages;
}

absl::StatusOr<std::vector<Tensor>> run_stages(const Stages& stages, std::vector<OnnxInput> inputs,
                                               const std::vector<std::string>& outputs,
                                               const DynamicNetwork& network, WidthOf width_of,
                                               const OrtRunOptions* options,
                                               std::vector<StageRun>& ran) {
  static const std::string kWidth = kWidthInput, kBetween = kFeatures;
  Rows rows(inputs.empty() || inputs[0].shape.empty() ? 0 : inputs[0].shape[0]);
  std::iota(rows.begin(), rows.end(), 0);
  const size_t all = rows.size();
  std::vector<Tensor> whole;
  Tensor features;
  for (size_t s = 0; s < stages.size() && !rows.empty(); ++s) {
    const Time start = monotonic_now();
    const bool last = s + 1 == stages.size();
    const auto left = static_cast<uint32_t>(rows.size());
    const int64_t width = width_of(s, left);
    inputs.push_back({&kWidth,
                      DataType::kInt64,
                      {1},
                      {reinterpret_cast<const std::byte*>(&width), sizeof(width)}});
    std::vector<std::string> names = outputs;
    if (!last) {
      names.emplace_back(kFeatures);
      names.emplace_back(kConfidence);
    }
    ASSIGN_OR_RETURN(std::vector<Tensor> given, stages[s]->run(inputs, names, options));
    for (const Tensor& tensor : given) RETURN_IF_ERROR(check_rows(tensor, left));
    for (size_t i = 0; left < all && i < outputs.size(); ++i) {
      RETURN_IF_ERROR(overwrite(whole[i], given[i], rows));
    }
    if (!last) {
      features = given[outputs.size()];
      if (network.exit_above) {
        if (given.back().data.bytes.size() != left * sizeof(float)) {
          return internal("output '{}' has shape {}, expected one number for each of {} items",
                          kConfidence, to_string(given.back().shape), left);
        }
        Rows stay = staying(given.back(), *network.exit_above);
        if (stay.size() < rows.size()) features = rows_of(features, stay);
        for (uint32_t& place : stay) place = rows[place];
        rows = std::move(stay);
      }
      inputs = {{&kBetween, features.datatype, features.shape, features.data.bytes}};
    }
    if (left == all) {
      given.resize(outputs.size());
      whole = std::move(given);
    }
    ran.push_back({left, monotonic_now() - start, width != network.width});
  }
  return whole;
}

}  // namespace fermata::engine
