#include "engine/composite/ensemble_model.h"

#include <algorithm>
#include <atomic>
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

}  // namespace

class EnsembleModel::Impl {
 public:
  struct Query {
    std::shared_ptr<const std::vector<Tensor>> inputs;
    uint32_t items = 1;
    Scored done;
  };
  struct Stack {
    Numbers outputs;
    plan::Subset used = 0;
    Combined done;
  };

  EnsembleOptions options;
  estimate::DifficultyProfile profile;
  LoadedModel predictor, gating, meta;
  std::unique_ptr<estimate::Competence> competence;
  std::unique_ptr<estimate::Filling> filling;
  TensorSpec output;
  bool batches = false;
  std::atomic<uint64_t> dropped{0};
  std::unique_ptr<BackgroundThread<Query>> predicting;
  std::unique_ptr<BackgroundThread<Stack>> stacking;

  void start() {
    if (predicts()) {
      predicting = std::make_unique<BackgroundThread<Query>>(
          kMostTogether, kQueueLimit, [this](absl::Span<Query> queries) { predict(queries); });
    }
    if (meta) {
      stacking = std::make_unique<BackgroundThread<Stack>>(
          kMostTogether, std::numeric_limits<size_t>::max(),
          [this](absl::Span<Stack> stacks) { run_meta(stacks); });
    }
  }

  bool predicts() const { return predictor || gating || competence != nullptr; }

  const estimate::SubsetProfile& subset_profile() const {
    const bool agreement = options.score == DifficultyScore::kAgreement;
    return agreement ? profile.agreement.profile : profile.discrepancy.profile;
  }

  void score(Query query) {
    if (predicting->submit(query)) return;
    dropped.fetch_add(1, std::memory_order_relaxed);
    query.done(unknown(query.items));
  }

  void combine(std::vector<std::optional<Tensor>> answers, Combined done) {
    Numbers outputs(answers.size());
    plan::Subset used = 0;
    for (size_t k = 0; k < answers.size(); ++k) {
      if (!answers[k]) continue;
      auto values = numbers_of(*answers[k], profile.width);
      FERMATA_CHECK(values.ok());
      outputs[k] = *std::move(values);
      used |= estimate::only(static_cast<uint32_t>(k));
    }
    if (!meta) return done(finished(estimate::aggregate(profile.aggregator, spans(outputs))), used);
    Stack stack{std::move(outputs), used, std::move(done)};
    stacking->submit(stack);
  }

 private:
  static std::vector<policy::Difficulty> unknown(uint32_t items) {
    return std::vector<policy::Difficulty>(items, {.bin = policy::Difficulty::kUnknown});
  }

  static std::vector<absl::Span<const float>> spans(const Numbers& outputs) {
    return {outputs.begin(), outputs.end()};
  }

  absl::StatusOr<Tensor> finished(absl::StatusOr<std::vector<float>> values) const {
    if (!values.ok()) return error(absl::StatusCode::kInternal, "{}", message(values.status()));
    Tensor tensor;
    tensor.name = output.name;
    tensor.datatype = DataType::kFp32;
    tensor.shape = output.dims;
    // A free dimension is as long as it has to be.
    if (element_count(tensor.shape) != values->size()) {
      tensor.shape = {static_cast<int64_t>(values->size())};
    }
    if (batches) tensor.shape.insert(tensor.shape.begin(), 1);
    tensor.data = payload_of(*std::move(values));
    return tensor;
  }

  void predict(absl::Span<Query> queries) {
    std::vector<std::vector<policy::Difficulty>> found;
    for (const Query& query : queries) found.push_back(unknown(query.items));
    if (predictor) {
      run(predictor, queries, [&](size_t query, uint32_t item, const std::vector<float>& values) {
        if (values.size() != 1) return;
        found[query][item].score = values[0];
        found[query][item].bin = static_cast<uint32_t>(subset_profile().bin_of(values[0]));
      });
    }
    if (gating) {
      run(gating, queries, [&](size_t query, uint32_t item, const std::vector<float>& weights) {
        found[query][item].selected = by_weight(weights);
      });
    }
    if (competence != nullptr) {
      for (size_t q = 0; q < queries.size(); ++q) select(queries[q], found[q]);
    }
    for (size_t q = 0; q < queries.size(); ++q) queries[q].done(std::move(found[q]));
  }

  // Calls `each` for every item with finite outputs.
  void run(const LoadedModel& helper, absl::Span<Query> queries,
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
  plan::Subset by_weight(const std::vector<float>& weights) const {
    if (weights.size() != options.models.size()) return 0;
    const double equal = 1.0 / static_cast<double>(weights.size());
    const double least = options.gating_threshold > 0 ? options.gating_threshold : equal;
    plan::Subset selected =
        estimate::only(static_cast<uint32_t>(absl::c_max_element(weights) - weights.begin()));
    for (uint32_t k = 0; k < weights.size(); ++k) {
      if (weights[k] >= least) selected |= estimate::only(k);
    }
    return selected;
  }

  void select(const Query& query, std::vector<policy::Difficulty>& found) const {
    if (query.inputs->empty()) return;
    const auto values = as_floats(query.inputs->front());
    if (!values.ok() || values->size() % query.items != 0) return;
    const size_t width = values->size() / query.items;
    if (width != competence->dimensions()) return;
    for (uint32_t i = 0; i < query.items; ++i) {
      const auto row = absl::MakeConstSpan(*values).subspan(i * width, width);
      if (absl::c_all_of(row, [](float v) { return std::isfinite(v); })) {
        found[i].selected = competence->select(row);
      }
    }
  }

  void run_meta(absl::Span<Stack> stacks) {
    const Signature& signature = meta.variant->signature;
    std::vector<std::vector<Tensor>> inputs(stacks.size());
    const Admitted one;
    std::vector<Item> items;
    std::vector<size_t> owner;
    for (size_t s = 0; s < stacks.size(); ++s) {
      auto full = filling->fill(spans(stacks[s].outputs));
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
    (void)run_items(*meta.executor, *meta.variant, items, meta.output,
                    [&](size_t item, const absl::StatusOr<std::vector<Tensor>>& outputs) {
                      auto values = outputs.ok()
                                        ? as_floats(outputs->front())
                                        : absl::StatusOr<std::vector<float>>(outputs.status());
                      Stack& stack = stacks[owner[item]];
                      std::exchange(stack.done, nullptr)(finished(std::move(values)), stack.used);
                      return absl::OkStatus();
                    });
  }
};

absl::StatusOr<std::unique_ptr<EnsembleModel>> EnsembleModel::make(const std::string& service,
                                                                   const EnsembleOptions& options,
                                                                   Helpers helpers,
                                                                   const Variant& base,
                                                                   ExecutorFactory& executors) {
  auto impl = std::make_unique<Impl>();
  const auto prepare = [&]() -> absl::Status {
    impl->options = options;
    ASSIGN_OR_RETURN(impl->profile, read_difficulty_profile(options));
    impl->profile.name = service;
    ASSIGN_OR_RETURN(impl->predictor,
                     load_model(std::move(helpers.predictor), options.predictor_output, executors));
    ASSIGN_OR_RETURN(impl->gating, load_model(std::move(helpers.gating), "", executors));
    ASSIGN_OR_RETURN(impl->meta,
                     load_model(std::move(helpers.meta), options.meta_output, executors));
    if (options.selector == Selector::kDynamicSelection) {
      if (impl->profile.aggregator.prediction != estimate::Prediction::kClassification) {
        return invalid("dynamic selection is for classes");
      }
      ASSIGN_OR_RETURN(impl->competence, read_competence(options));
    }
    const TensorSpec* output = base.signature.output(
        options.output.empty() ? base.signature.outputs.front().name : options.output);
    if (output == nullptr) {
      return invalid("model '{}' has no output '{}'", base.model, options.output);
    }
    const uint64_t width = element_count(output->dims);  // 0: a dimension is free
    if (width > 0 && width != impl->profile.width) {
      return invalid("output '{}' of model '{}' has {} numbers, those of the profile in {} have {}",
                     output->name, base.model, width, options.profile, impl->profile.width);
    }
    impl->output = *output;
    impl->batches = base.signature.batches;
    if (impl->meta) {
      RETURN_IF_ERROR(check_meta(*impl->meta.variant, options, impl->profile.width));
      ASSIGN_OR_RETURN(const auto history, read_history(options));
      impl->filling = std::make_unique<estimate::Filling>(history, options.neighbours);
      impl->output = *impl->meta.variant->signature.output(impl->meta.output);
    }
    impl->output.datatype = DataType::kFp32;
    return absl::OkStatus();
  };
  if (const absl::Status prepared = prepare(); !prepared.ok()) {
    return invalid("service '{}': {}", service, message(prepared));
  }
  impl->start();
  return std::unique_ptr<EnsembleModel>(new EnsembleModel(std::move(impl)));
}

EnsembleModel::EnsembleModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EnsembleModel::~EnsembleModel() = default;

bool EnsembleModel::predicts() const { return impl_->predicts(); }

void EnsembleModel::score(std::shared_ptr<const std::vector<Tensor>> inputs, uint32_t items,
                          Scored done) {
  impl_->score({std::move(inputs), items, std::move(done)});
}

void EnsembleModel::stop_scoring() { impl_->predicting.reset(); }

absl::Status EnsembleModel::check_answer(const Tensor& answer) const {
  return numbers_of(answer, width()).status();
}

void EnsembleModel::combine(std::vector<std::optional<Tensor>> answers, Combined done) {
  impl_->combine(std::move(answers), std::move(done));
}

const estimate::SubsetProfile& EnsembleModel::profile() const { return impl_->subset_profile(); }
uint32_t EnsembleModel::width() const { return impl_->profile.width; }
const TensorSpec& EnsembleModel::output() const { return impl_->output; }
uint64_t EnsembleModel::dropped() const { return impl_->dropped.load(std::memory_order_relaxed); }

}  // namespace fermata::engine
