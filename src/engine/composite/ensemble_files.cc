#include "engine/composite/ensemble_files.h"

#include <string>
#include <utility>

#include "base/file.h"
#include "base/status.h"
#include "estimate/difficulty_document.h"
#include "model/npy.h"
#include "model/tensor_values.h"

namespace fermata::engine {
namespace {

constexpr size_t kLargestProfile = size_t{64} << 20;

// One row a query.
absl::StatusOr<estimate::OutputTable> read_outputs(const std::string& file) {
  ASSIGN_OR_RETURN(const Tensor tensor, read_npy(file));
  estimate::OutputTable table;
  ASSIGN_OR_RETURN(table.values, as_floats(tensor));
  const auto rows = tensor.shape.empty() ? 0 : static_cast<size_t>(tensor.shape[0]);
  if (rows == 0 || table.values.size() % rows != 0) return invalid("{}: there are no rows", file);
  table.width = static_cast<uint32_t>(table.values.size() / rows);
  return table;
}

absl::Status check_profile(const estimate::DifficultyProfile& profile,
                           const EnsembleOptions& options) {
  if (profile.models != options.models) {
    return invalid("the profile in {} is of {}, expected {}, in this order", options.profile,
                   fmt::join(profile.models, ", "), fmt::join(options.models, ", "));
  }
  if (profile.aggregator.aggregation != options.aggregation ||
      (!options.weights.empty() && profile.aggregator.weights != options.weights)) {
    return invalid("the profile in {} is of another aggregation: {}", options.profile,
                   estimate::name(profile.aggregator.aggregation));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<estimate::DifficultyProfile> read_difficulty_profile(
    const EnsembleOptions& options) {
  const std::string file = options.profile + "/profile.json";
  ASSIGN_OR_RETURN(const std::string text, read_file(file, kLargestProfile));
  ASSIGN_OR_RETURN(estimate::DifficultyProfile profile, estimate::parse_difficulty(text, file));
  RETURN_IF_ERROR(check_profile(profile, options));
  return profile;
}

absl::StatusOr<std::vector<estimate::OutputTable>> read_history(const EnsembleOptions& options) {
  std::vector<estimate::OutputTable> tables;
  for (const std::string& model : options.models) {
    ASSIGN_OR_RETURN(auto table, read_outputs(options.profile + "/outputs-" + model + ".npy"));
    tables.push_back(std::move(table));
  }
  RETURN_IF_ERROR(estimate::check_tables(tables));
  return tables;
}

absl::StatusOr<std::unique_ptr<estimate::Competence>> read_competence(
    const EnsembleOptions& options) {
  ASSIGN_OR_RETURN(const auto features, read_outputs(options.features));
  ASSIGN_OR_RETURN(const auto tables, read_history(options));
  ASSIGN_OR_RETURN(const auto ensemble, read_outputs(options.profile + "/ensemble.npy"));
  if (features.size() != ensemble.size() || ensemble.size() != tables[0].size()) {
    return invalid("{} has {} rows, the history in {} has {}", options.features, features.size(),
                   options.profile, ensemble.size());
  }
  estimate::LabelledPoints points;
  points.dimensions = features.width;
  points.classes = ensemble.width;
  points.features = features.values;
  std::vector<estimate::Subset> right;
  for (size_t i = 0; i < ensemble.size(); ++i) {
    points.labels.push_back(estimate::class_of(ensemble.row(i)));
    right.push_back(0);
    for (uint32_t k = 0; k < tables.size(); ++k) {
      if (estimate::class_of(tables[k].row(i)) == points.labels[i]) {
        right.back() |= estimate::only(k);
      }
    }
  }
  return std::make_unique<estimate::Competence>(std::move(points), std::move(right),
                                                static_cast<uint32_t>(tables.size()));
}

}  // namespace fermata::engine
