#include "engine/composite/ensemble_history.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "base/status.h"
#include "engine/execute/evaluate.h"
#include "engine/execute/items.h"
#include "engine/trial/loader.h"
#include "model/repository.h"
#include "model/tensor_values.h"

namespace fermata::engine {
namespace {

using estimate::OutputTable;

constexpr double kRecordingShare = 0.7;  // of the work; the rest is trying subsets

absl::Status check(const EnsembleSpec& spec) {
  const size_t models = spec.models.size();
  if (models < 1 || models > estimate::kMostBaseModels) {
    return invalid("an ensemble of {} base models is given, expected 1 to {}", models,
                   estimate::kMostBaseModels);
  }
  for (size_t k = 0; k < models; ++k) {
    if (spec.models[k].empty() || spec.models[k].find('+') != std::string::npos) {
      return invalid("base model '{}' is given, expected a name without +", spec.models[k]);
    }
    if (std::count(spec.models.begin(), spec.models.end(), spec.models[k]) > 1) {
      return invalid("base model '{}' is given twice", spec.models[k]);
    }
  }
  const bool stacking = spec.aggregator.aggregation == estimate::Aggregation::kStacking;
  if (stacking == spec.meta.empty()) {
    return stacking ? invalid("aggregation is stacking, but no meta model is named")
                    : invalid("meta model '{}' is named, but aggregation is {}", spec.meta,
                              name(spec.aggregator.aggregation));
  }
  return spec.aggregator.check(static_cast<uint32_t>(models));
}

absl::Status add_output(const Tensor& output, OutputTable& table) {
  ASSIGN_OR_RETURN(const std::vector<float> values, as_floats(output));
  if (values.empty() || (table.width != 0 && values.size() != table.width)) {
    return invalid("output '{}' has {} numbers, expected {}", output.name, values.size(),
                   table.width == 0 ? "some" : std::to_string(table.width));
  }
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
    return invalid("output '{}' has a number that is not finite", output.name);
  }
  table.width = static_cast<uint32_t>(values.size());
  table.values.insert(table.values.end(), values.begin(), values.end());
  return absl::OkStatus();
}

void keep_inputs(const Signature& signature, std::vector<std::vector<Tensor>>& requests) {
  for (std::vector<Tensor>& inputs : requests) {
    std::erase_if(inputs, [&](const Tensor& t) { return signature.input(t.name) == nullptr; });
  }
}

absl::StatusOr<OutputTable> run(Executor& executor, const Variant& variant,
                                std::vector<std::vector<Tensor>> requests,
                                const std::string& output,
                                absl::FunctionRef<void(double)> progress) {
  ASSIGN_OR_RETURN(const std::vector<Admitted> admitted, admit_all(requests, variant.signature));
  std::vector<Item> items;
  for (size_t i = 0; i < admitted.size(); ++i) append_items(requests[i], admitted[i], items);
  if (items.empty()) return invalid("the history is empty, expected at least one example");
  OutputTable table;
  RETURN_IF_ERROR(run_items(
      executor, variant, items, output,
      [&](size_t item, const absl::StatusOr<std::vector<Tensor>>& outputs) -> absl::Status {
        absl::Status done =
            outputs.ok() ? add_output(outputs->front(), table) : absl::Status(outputs.status());
        if (!done.ok()) return invalid("example {}: {}", item, message(done));
        progress(static_cast<double>(item + 1) / static_cast<double>(items.size()));
        return done;
      }));
  return table;
}

// Rows for a model of one input: of its own shape where that holds as many numbers.
absl::StatusOr<Tensor> as_input(const OutputTable& table, const TensorSpec& spec) {
  if (spec.datatype != DataType::kFp32) {
    return invalid("its input '{}' is {}, expected FP32", spec.name, name(spec.datatype));
  }
  const auto owner = std::make_shared<const std::vector<float>>(table.values);
  Shape shape = {static_cast<int64_t>(table.size()), table.width};
  if (element_count(spec.dims) == table.width) {
    shape.assign(spec.dims.begin(), spec.dims.end());
    shape.insert(shape.begin(), static_cast<int64_t>(table.size()));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(owner->data());
  return Tensor{spec.name, DataType::kFp32, shape, {{bytes, owner->size() * sizeof(float)}, owner}};
}

// The newest version of a model.
absl::StatusOr<LoadedModel> load_newest(Loader& loader, ExecutorFactory& executors,
                                        const EngineOptions& options, const std::string& model,
                                        const std::string& output) {
  ASSIGN_OR_RETURN(const ModelFolder folder, read_model_folder(options.repository, model));
  ASSIGN_OR_RETURN(Variant opened, loader.open(folder, folder.versions.back()));
  return load_model(std::make_shared<const Variant>(std::move(opened)), output, executors);
}

}  // namespace

absl::StatusOr<EnsembleRecorder> EnsembleRecorder::open(EnsembleSpec spec,
                                                        const EngineOptions& options) {
  RETURN_IF_ERROR(check(spec));
  EnsembleRecorder recorder;
  spec.outputs.resize(spec.models.size());
  ASSIGN_OR_RETURN(recorder.executors_.emplace_back(), make_executors(options.workers));
  Loader loader(options, recorder.executors_);
  for (size_t k = 0; k < spec.models.size(); ++k) {
    ASSIGN_OR_RETURN(recorder.models_.emplace_back(),
                     load_newest(loader, *recorder.executors_.front(), options, spec.models[k],
                                 spec.outputs[k]));
  }
  if (!spec.meta.empty()) {
    ASSIGN_OR_RETURN(recorder.meta_, load_newest(loader, *recorder.executors_.front(), options,
                                                 spec.meta, spec.meta_output));
    if (recorder.meta_.variant->signature.inputs.size() != 1) {
      return invalid("meta model '{}' has {} inputs, expected one: all outputs in a row", spec.meta,
                     recorder.meta_.variant->signature.inputs.size());
    }
  }
  recorder.spec_ = std::move(spec);
  return recorder;
}

absl::StatusOr<OutputTable> EnsembleRecorder::record(size_t model,
                                                     std::vector<std::vector<Tensor>> requests,
                                                     absl::FunctionRef<void(double)> progress) {
  const LoadedModel& loaded = models_[model];
  keep_inputs(loaded.variant->signature, requests);
  auto table = run(*loaded.executor, *loaded.variant, std::move(requests), loaded.output, progress);
  if (!table.ok()) return invalid("model '{}': {}", spec_.models[model], message(table.status()));
  return table;
}

absl::StatusOr<OutputTable> EnsembleRecorder::combine(absl::Span<const OutputTable> by_model,
                                                      const estimate::Filling* filling,
                                                      estimate::Subset subset,
                                                      absl::Span<const uint32_t> rows) {
  if (meta_.variant == nullptr) {
    return estimate::aggregate_rows(spec_.aggregator, by_model, subset, rows);
  }
  OutputTable inputs;
  std::vector<absl::Span<const float>> outputs(by_model.size());
  for (const uint32_t row : rows) {
    for (uint32_t k = 0; k < by_model.size(); ++k) {
      if (estimate::contains(subset, k)) outputs[k] = by_model[k].row(row);
    }
    ASSIGN_OR_RETURN(const auto filled, filling->fill(outputs, row));
    for (const std::vector<float>& part : filled) {
      inputs.values.insert(inputs.values.end(), part.begin(), part.end());
    }
  }
  inputs.width = static_cast<uint32_t>(inputs.values.size() / rows.size());
  const Signature& signature = meta_.variant->signature;
  auto table = [&]() -> absl::StatusOr<OutputTable> {
    ASSIGN_OR_RETURN(const Tensor tensor, as_input(inputs, signature.inputs[0]));
    ASSIGN_OR_RETURN(auto requests, rows_as_requests({tensor}, signature));
    return run(*meta_.executor, *meta_.variant, std::move(requests), meta_.output, [](double) {});
  }();
  if (!table.ok()) return invalid("meta model '{}': {}", spec_.meta, message(table.status()));
  return table;
}

absl::StatusOr<RecordedDifficulty> record_difficulty(
    EnsembleRecorder& recorder, std::vector<std::vector<std::vector<Tensor>>> requests,
    std::vector<uint32_t> labels, const estimate::DifficultyOptions& options,
    absl::FunctionRef<void(double, std::string_view)> progress) {
  const EnsembleSpec& spec = recorder.spec();
  estimate::EnsembleHistory history{.labels = std::move(labels)};
  const auto models = static_cast<double>(spec.models.size());
  for (size_t k = 0; k < spec.models.size(); ++k) {
    ASSIGN_OR_RETURN(history.by_model.emplace_back(),
                     recorder.record(k, std::move(requests[k]), [&](double share) {
                       progress(kRecordingShare * (static_cast<double>(k) + share) / models,
                                spec.models[k]);
                     }));
  }
  RETURN_IF_ERROR(estimate::check_tables(history.by_model));
  std::optional<estimate::Filling> filling;
  if (!spec.meta.empty()) filling.emplace(history.by_model, spec.neighbors);
  const auto outputs_of = [&](estimate::Subset subset, absl::Span<const uint32_t> rows) {
    return recorder.combine(history.by_model, filling ? &*filling : nullptr, subset, rows);
  };
  std::vector<uint32_t> all(history.by_model[0].size());
  std::iota(all.begin(), all.end(), 0);
  ASSIGN_OR_RETURN(history.ensemble,
                   outputs_of(estimate::all_models(static_cast<uint32_t>(models)), all));
  ASSIGN_OR_RETURN(
      estimate::DifficultyFit fit,
      estimate::fit_difficulty(
          spec.name, spec.models, spec.aggregator, history, outputs_of, options, [&](double share) {
            progress(kRecordingShare + (1 - kRecordingShare) * share, "subsets");
          }));
  if (filling) fit.profile.neighbors = filling->k();
  return RecordedDifficulty{std::move(history), std::move(fit)};
}

}  // namespace fermata::engine
