#include "engine/composite/ensemble_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/status.h"
#include "engine/composite/base_answers.h"
#include "engine/composite/ensemble_files.h"
#include "engine/execute/items.h"
#include "engine/threads/background_thread.h"
#include "estimate/competence.h"
#include "estimate/filling.h"
#include "model/tensor_values.h"

namespace fermata::engine {
namespace {

constexpr size_t kMostTogether = 64;  // queries that go through the predictor together
constexpr size_t kQueueLimit = 1024;

using Numbers = std::vector<std::vector<float>>;

// It gets all outputs in a row.
absl::Status check_meta(const Variant& meta, const EnsembleOptions& options, uint32_t width) {
  const std::vector<TensorSpec>& inputs = meta.signature.inputs;
  if (inputs.size() != 1 || inputs[0].datatype != DataType::kFp32) {
    return invalid("meta model '{}' has {} inputs, expected one of FP32", meta.model,
                   inputs.size());
  }
  const uint64_t expected = uint64_t{width} * options.models.size();
  const uint64_t known = element_count(inputs[0].dims);  // 0: a dimension is free
  if (known != 0 && known != expected) {
    return invalid("meta model '{}' takes {} numbers, the {} base models give {}", meta.model,
                   known, options.models.size(), expected);
  }
  return absl::OkStatus();
}

// The inputs that the model knows; its only one by whatever name.
std::vector<Tensor> inputs_for(const Signature& signature, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> own;
  for (const Tensor& tensor : inputs) {
    if (signature.input(tensor.name) != nullptr) own.push_back(tensor);
  }
  if (own.empty() && signature.inputs.size() == 1 && !inputs.empty()) {
    own = {inputs[0]};
    own[0].name = signature.inputs[0].name;
  }
  return own;
}

std::vector<policy::Difficulty> unknown(uint32_t items) {
  return std::vector<policy::Difficulty>(items, {.bin = policy::Difficulty::kUnknown});
}

std::vector<absl::Span<const float>> spans(const Numbers& outputs) {
  return {outputs.begin(), outputs.end()};
}

}  // namespace

const estimate::SubsetProfile& EnsembleModel::profile() const {
  const bool agreement = options_.score == DifficultyScore::kAgreement;
  return agreement ? profile_.agreement.profile : profile_.discrepancy.profile;
}

void EnsembleModel::score(std::shared_ptr<const std::vector<Tensor>> inputs, uint32_t items,
                          Scored done) {
  Query query{std::move(inputs), items, std::move(done)};
  if (predicting_->submit(query)) return;
  query.done(unknown(query.items));
}

void EnsembleModel::combine(std::vector<std::optional<Tensor>> answers, Combined done) {
  Numbers outputs(answers.size());
  plan::Subset used = 0;
  for (size_t k = 0; k < answers.size(); ++k) {
    if (!answers[k]) continue;
    auto values = numbers_of(*answers[k], profile_.width);
    FERMATA_CHECK(values.ok());
    outputs[k] = *std::move(values);
    used |= estimate::only(static_cast<uint32_t>(k));
  }
  if (!meta_) return done(finished(estimate::aggregate(profile_.aggregator, spans(outputs))), used);
  Stack stack{std::move(outputs), used, std::move(done)};
  stacking_->submit(stack);
}

absl::StatusOr<Tensor> EnsembleModel::finished(absl::StatusOr<std::vector<float>> values) const {
  if (!values.ok()) return error(absl::StatusCode::kInternal, "{}", message(values.status()));
  Tensor tensor;
  tensor.name = output_.name;
  tensor.datatype = DataType::kFp32;
  tensor.shape = output_.dims;
  // A free dimension is as long as it has to be.
  if (element_count(tensor.shape) != values->size()) {
    tensor.shape = {static_cast<int64_t>(values->size())};
  }
  if (batches_) tensor.shape.insert(tensor.shape.begin(), 1);
  tensor.data = payload_of(*std::move(values));
  return tensor;
}

void EnsembleModel::predict(absl::Span<Query> queries) {
  std::vector<std::vector<policy::Difficulty>> found;
  for (const Query& query : queries) found.push_back(unknown(query.items));
  if (predictor_) {
    run(predictor_, queries, [&](size_t query, uint32_t item, const std::vector<float>& values) {
      if (values.size() != 1) return;
      found[query][item].score = values[0];
      found[query][item].bin = static_cast<uint32_t>(profile().bin_of(values[0]));
    });
  }
  if (gating_) {
    run(gating_, queries, [&](size_t query, uint32_t item, const std::vector<float>& weights) {
      found[query][item].selected = by_weight(weights);
    });
  }
  if (competence_ != nullptr) {
    for (size_t q = 0; q < queries.size(); ++q) select(queries[q], found[q]);
  }
  for (size_t q = 0; q < queries.size(); ++q) queries[q].done(std::move(found[q]));
}

// Calls `each` for every item with finite outputs.
void EnsembleModel::run(const LoadedModel& helper, absl::Span<Query> queries,
                        absl::FunctionRef<void(size_t, uint32_t, const std::vector<float>&)> each) {
  std::vector<std::vector<Tensor>> requests;
  for (const Query& query : queries) {
    requests.push_back(inputs_for(helper.variant->signature, *query.inputs));
  }
  run_requests(
      helper, std::move(requests),
      [&](size_t query, uint32_t items) { return items == queries[query].items; },
      [&](size_t query, uint32_t item, const absl::StatusOr<std::vector<float>>& values) {
        const bool fine =
            values.ok() && absl::c_all_of(*values, [](float v) { return std::isfinite(v); });
        if (fine) each(query, item, *values);
      });
}

// "Filtering models with low gating weights" (section III-B); the heaviest stays.
plan::Subset EnsembleModel::by_weight(const std::vector<float>& weights) const {
  if (weights.size() != options_.models.size()) return 0;
  const double equal = 1.0 / static_cast<double>(weights.size());
  const double least = options_.gating_threshold > 0 ? options_.gating_threshold : equal;
  plan::Subset selected =
      estimate::only(static_cast<uint32_t>(absl::c_max_element(weights) - weights.begin()));
  for (uint32_t k = 0; k < weights.size(); ++k) {
    if (weights[k] >= least) selected |= estimate::only(k);
  }
  return selected;
}

void EnsembleModel::select(const Query& query, std::vector<policy::Difficulty>& found) const {
  if (query.inputs->empty()) return;
  const auto values = as_floats(query.inputs->front());
  if (!values.ok() || values->size() % query.items != 0) return;
  const size_t width = values->size() / query.items;
  if (width != competence_->dimensions()) return;
  for (uint32_t i = 0; i < query.items; ++i) {
    const auto row = absl::MakeConstSpan(*values).subspan(i * width, width);
    if (absl::c_all_of(row, [](float v) { return std::isfinite(v); })) {
      found[i].selected = competence_->select(row);
    }
  }
}

void EnsembleModel::run_meta(absl::Span<Stack> stacks) {
  const Signature& signature = meta_.variant->signature;
  std::vector<std::vector<Tensor>> inputs(stacks.size());
  const Admitted one;
  std::vector<Item> items;
  std::vector<size_t> owner;
  for (size_t s = 0; s < stacks.size(); ++s) {
    auto full = filling_->fill(spans(stacks[s].outputs));
    if (!full.ok()) {
      std::exchange(stacks[s].done, nullptr)(finished(full.status()), stacks[s].used);
      continue;
    }
    Tensor& tensor = inputs[s].emplace_back();
    const std::vector<float> row = estimate::meta_input(spans(*full));
    tensor.name = signature.inputs[0].name;
    tensor.datatype = DataType::kFp32;
    tensor.shape = signature.inputs[0].dims;
    if (element_count(tensor.shape) != row.size()) {
      tensor.shape = {static_cast<int64_t>(row.size())};
    }
    if (signature.batches) tensor.shape.insert(tensor.shape.begin(), 1);
    tensor.data = payload_of(row);
    items.push_back({&inputs[s], 0, &one});
    owner.push_back(s);
  }
  (void)run_items(*meta_.executor, *meta_.variant, items, meta_.output,
                  [&](size_t item, const absl::StatusOr<std::vector<Tensor>>& outputs) {
                    auto values = outputs.ok()
                                      ? as_floats(outputs->front())
                                      : absl::StatusOr<std::vector<float>>(outputs.status());
                    Stack& stack = stacks[owner[item]];
                    std::exchange(stack.done, nullptr)(finished(std::move(values)), stack.used);
                    return absl::OkStatus();
                  });
}

absl::StatusOr<std::unique_ptr<EnsembleModel>> EnsembleModel::make(const std::string& service,
                                                                   const EnsembleOptions& options,
                                                                   Helpers helpers,
                                                                   const Variant& base,
                                                                   ExecutorFactory& executors) {
  std::unique_ptr<EnsembleModel> model(new EnsembleModel());
  const auto prepare = [&]() -> absl::Status {
    model->options_ = options;
    ASSIGN_OR_RETURN(model->profile_, read_difficulty_profile(options));
    model->profile_.name = service;
    ASSIGN_OR_RETURN(model->predictor_,
                     load_model(std::move(helpers.predictor), options.predictor_output, executors));
    ASSIGN_OR_RETURN(model->gating_, load_model(std::move(helpers.gating), "", executors));
    ASSIGN_OR_RETURN(model->meta_,
                     load_model(std::move(helpers.meta), options.meta_output, executors));
    if (options.selector == Selector::kDynamicSelection) {
      if (model->profile_.aggregator.prediction != estimate::Prediction::kClassification) {
        return invalid("dynamic selection is for classes");
      }
      ASSIGN_OR_RETURN(model->competence_, read_competence(options));
    }
    const TensorSpec* output = base.signature.output(
        options.output.empty() ? base.signature.outputs.front().name : options.output);
    if (output == nullptr) {
      return invalid("model '{}' has no output '{}'", base.model, options.output);
    }
    const uint64_t width = element_count(output->dims);  // 0: a dimension is free
    if (width > 0 && width != model->profile_.width) {
      return invalid("output '{}' of model '{}' has {} numbers, those of the profile in {} have {}",
                     output->name, base.model, width, options.profile, model->profile_.width);
    }
    model->output_ = *output;
    model->batches_ = base.signature.batches;
    if (model->meta_) {
      RETURN_IF_ERROR(check_meta(*model->meta_.variant, options, model->profile_.width));
      ASSIGN_OR_RETURN(const auto history, read_history(options));
      model->filling_ = std::make_unique<estimate::Filling>(history, options.neighbours);
      model->output_ = *model->meta_.variant->signature.output(model->meta_.output);
    }
    model->output_.datatype = DataType::kFp32;
    return absl::OkStatus();
  };
  if (const absl::Status prepared = prepare(); !prepared.ok()) {
    return invalid("service '{}': {}", service, message(prepared));
  }
  EnsembleModel* const made = model.get();
  if (made->predicts()) {
    made->predicting_ = std::make_unique<BackgroundThread<Query>>(
        kMostTogether, kQueueLimit, [made](absl::Span<Query> queries) { made->predict(queries); });
  }
  if (made->meta_) {
    made->stacking_ = std::make_unique<BackgroundThread<Stack>>(
        kMostTogether, std::numeric_limits<size_t>::max(),
        [made](absl::Span<Stack> stacks) { made->run_meta(stacks); });
  }
  return model;
}

absl::Status EnsembleModel::check_answer(const Tensor& answer) const {
  return numbers_of(answer, width()).status();
}

}  // namespace fermata::engine
