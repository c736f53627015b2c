#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/execute/items.h"
#include "engine/options.h"
#include "estimate/aggregation.h"
#include "estimate/difficulty.h"
#include "estimate/filling.h"
#include "model/signature.h"
#include "model/tensor.h"

namespace fermata::engine {

// What an ensemble is made of, wherever that is said.
struct EnsembleSpec {
  std::string name;
  std::vector<std::string> models;   // base models in the repository, without '+' in their names
  std::vector<std::string> outputs;  // of each model; empty: its first
  estimate::Aggregator aggregator;
  std::string meta, meta_output;  // of stacking: the model that gets all outputs in a row
  uint32_t neighbors = estimate::Filling::kUsualK;  // of stacking, for missing outputs
};

// Runs an ensemble on a user's history, outside a server: each model on an executor of
// its own, one after the other, in batches of its largest size. All of it blocks; errors name the
// model and the example.
class EnsembleRecorder {
 public:
  // Loads the newest version of every model. INVALID_ARGUMENT where the specification is not
  // sound, NOT_FOUND where a model is not there. `options` has the repository and the worker.
  static absl::StatusOr<EnsembleRecorder> open(EnsembleSpec spec, const EngineOptions& options);

  const EnsembleSpec& spec() const { return spec_; }
  const Signature& signature(size_t model) const { return models_[model].variant->signature; }

  // The output of one base model for every item of its requests; it is given the tensors that
  // are its inputs, the others are left out. INVALID_ARGUMENT where a request does not fit
  // the model, it fails, or its output is not of one length or not finite.
  absl::StatusOr<estimate::OutputTable> record(size_t model,
                                               std::vector<std::vector<Tensor>> requests,
                                               absl::FunctionRef<void(double)> progress);

  // The ensemble's outputs of some rows from those of a subset of its base models. `filling` is
  // of the same history, whose row itself is never a neighbour; stacking only, else null.
  absl::StatusOr<estimate::OutputTable> combine(absl::Span<const estimate::OutputTable> by_model,
                                                const estimate::Filling* filling,
                                                estimate::Subset subset,
                                                absl::Span<const uint32_t> rows);

 private:
  EnsembleRecorder() = default;

  EnsembleSpec spec_;
  std::vector<std::unique_ptr<ExecutorFactory>> executors_;  // one
  std::vector<LoadedModel> models_;
  LoadedModel meta_;  // null without stacking
};

struct RecordedDifficulty {
  estimate::EnsembleHistory history;
  estimate::DifficultyFit fit;
};

// Records the ensemble on a history and fits its difficulty (estimate/difficulty.h). `requests`
// by model, as its signature wants them, the same examples for each. `progress` gets the share
// that is done and what is being done.
absl::StatusOr<RecordedDifficulty> record_difficulty(
    EnsembleRecorder& recorder, std::vector<std::vector<std::vector<Tensor>>> requests,
    std::vector<uint32_t> labels, const estimate::DifficultyOptions& options,
    absl::FunctionRef<void(double, std::string_view)> progress);

}  // namespace fermata::engine
