#include "engine/composite/variants_service.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "engine/execute/evaluate.h"
#include "estimate/posterior.h"
#include "model/npy.h"

namespace fermata::engine {
namespace {

// Before anything was measured or stated.
constexpr double kUnknownAccuracy = 0.5;
constexpr double kLeastWeight = 1e-9;  // of a class in a prior

bool same(const std::vector<TensorSpec>& a, const std::vector<TensorSpec>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const TensorSpec& x, const TensorSpec& y) {
                      return x.name == y.name && x.datatype == y.datatype && x.dims == y.dims;
                    });
}

// Of the classes that the profile does not know, the accuracy is believed.
std::vector<double> recall_of(const AnswerProfile& answers, double accuracy) {
  std::vector<double> recall;
  for (const auto& known : answers.recall) recall.push_back(known.value_or(accuracy));
  return recall;
}

bool is_scores(const TensorSpec& output, size_t classes) {
  return output.datatype == DataType::kFp32 && output.dims == Shape{static_cast<int64_t>(classes)};
}

bool is_label(const TensorSpec& output) {
  return output.datatype == DataType::kInt64 && element_count(output.dims) == 1;
}

// A posterior can stand for its outputs: scores by class, or the class.
bool can_be_stood_for(const Signature& signature, size_t classes) {
  return absl::c_all_of(signature.outputs, [classes](const TensorSpec& output) {
    return is_scores(output, classes) || is_label(output);
  });
}

// -1 where a dimension is free.
int64_t fixed_size(const TensorSpec& spec) {
  const bool fixed = absl::c_find(spec.dims, -1) == spec.dims.end();
  return fixed ? static_cast<int64_t>(element_count(spec.dims)) : -1;
}

// Requests bring what they are compared by: `wanted` elements an item, -1 where any will do.
absl::Status check_compared(const ServiceOptions& options, const Variant& variant, int64_t wanted) {
  const auto& inputs = variant.signature.inputs;
  const std::string& name = options.variants->evidence->input;
  const auto it = absl::c_find_if(
      inputs, [&name](const TensorSpec& spec) { return name.empty() || spec.name == name; });
  if (it == inputs.end()) {
    std::vector<std::string> names;
    for (const TensorSpec& spec : inputs) names.push_back(spec.name);
    return invalid("service '{}': evidence.input is '{}', expected one of the inputs of '{}': {}",
                   options.name, name, variant.model, fmt::join(names, ", "));
  }
  const int64_t size = fixed_size(*it);
  if (size == -1 || wanted == -1 || size == wanted) return absl::OkStatus();
  return invalid("service '{}': input '{}' of '{}' has {} elements an item, its evidence {}",
                 options.name, it->name, variant.model, size, wanted);
}

absl::Status check_classes(const ServiceOptions& options,
                           const std::vector<std::shared_ptr<const Variant>>& variants,
                           const policy::VariantsInfo& info, size_t classes) {
  for (size_t v = 0; v < variants.size(); ++v) {
    const size_t known = info.variants[v].recall.size();
    if (known > 0 && known != classes) {
      return invalid("service '{}': the profile of '{}' has {} classes, the evidence has {}",
                     options.name, variants[v]->model, known, classes);
    }
  }
  if (info.prior.size() != classes) {
    return invalid("service '{}': the prior has {} classes, the evidence has {}", options.name,
                   info.prior.size(), classes);
  }
  return absl::OkStatus();
}

// Of all classes together so many requests; of one that no point is of, hardly any.
std::vector<double> frequencies(const estimate::LabelledPoints& points, double requests) {
  std::vector<double> weights(points.classes, kLeastWeight);
  const double each = requests / static_cast<double>(points.labels.size());
  for (const uint32_t label : points.labels) weights[label] += each;
  return weights;
}

// What a penalty that is not `step` lets happen.
std::string lets_happen(const plan::Penalty& penalty) {
  return penalty.depends_on_time()
             ? "its penalty lets requests be answered late, by up to their whole budget: `step` "
               "rejects those that can no longer meet their deadline"
             : "its penalty lets requests be answered however late: `step` rejects those that can "
               "no longer meet their deadline";
}

}  // namespace

std::string unknown_accuracy(std::string_view model, std::string_view folder) {
  return fmt::format(
      "no accuracy is known for '{}', so it counts as right half of the time. Try: fermata "
      "profile {} --data FEATURES --labels LABELS, or give the service `accuracy` or `labelled` "
      "data",
      model, folder);
}

policy::ServiceInfo VariantsService::info_for(const std::vector<KeyId>& keys) const {
  policy::VariantsInfo known = info;
  for (size_t v = 0; v < keys.size(); ++v) known.variants[v].key = keys[v];
  return known;
}

bool VariantsService::fits(const std::vector<policy::Estimate>& by_item, uint32_t items) const {
  return by_item.size() == items && absl::c_all_of(by_item, [this](const auto& estimate) {
           const auto* counts = std::get_if<policy::Evidence>(&estimate);
           return counts != nullptr && counts->size() == info.prior.size();
         });
}

std::vector<Tensor> VariantsService::short_circuit(const policy::Evidence& counts) const {
  estimate::Belief belief;
  belief.set(info.prior, std::span<const uint32_t>(counts));
  const std::span<const double> theta = belief.theta();
  const auto label = static_cast<int64_t>(estimate::likeliest_class(info.prior, counts));
  std::vector<Tensor> outputs;
  for (const TensorSpec& spec : public_model->signature.outputs) {
    Tensor& tensor = outputs.emplace_back();
    tensor.name = spec.name;
    tensor.datatype = spec.datatype;
    tensor.shape = spec.dims;
    if (public_model->signature.batches) tensor.shape.insert(tensor.shape.begin(), 1);
    tensor.data = spec.datatype == DataType::kInt64
                      ? payload_of(std::vector<int64_t>{label})
                      : payload_of(std::vector<float>(theta.begin(), theta.end()));
  }
  return outputs;
}

absl::StatusOr<std::shared_ptr<const VariantsService>> make_variants_service(
    const ServiceOptions& options, std::vector<std::shared_ptr<const Variant>> variants,
    const std::map<std::string, AnswerProfile>& answers, EvidenceModel* evidence, VariantId id) {
  auto service = std::make_shared<VariantsService>();
  const Variant& first = *variants.front();
  auto public_model = make_public_model(options.name, first, id);
  policy::VariantsInfo& info = service->info;
  info.name = options.name;
  info.penalty = options.variants->penalty;
  std::vector<std::string>& notes = public_model->notes;
  if (info.penalty.shape != plan::PenaltyShape::kStep) notes.push_back(lets_happen(info.penalty));
  for (const auto& variant : variants) {
    const Signature& signature = variant->signature;
    if (!same(signature.inputs, first.signature.inputs) ||
        !same(signature.outputs, first.signature.outputs) ||
        signature.batches != first.signature.batches) {
      return invalid("service '{}': model '{}' has other inputs or outputs than '{}'", options.name,
                     variant->model, first.model);
    }
    public_model->signature.max_batch =
        std::max(public_model->signature.max_batch, signature.max_batch);
    const auto said = options.variants->accuracy.find(variant->model);
    const bool stated = variant->profile.answers.accuracy.has_value();
    const auto tried = answers.find(variant->model);
    const AnswerProfile& known =
        stated || tried == answers.end() ? variant->profile.answers : tried->second;
    const double accuracy = said != options.variants->accuracy.end()
                                ? said->second
                                : known.accuracy.value_or(kUnknownAccuracy);
    info.variants.push_back({KeyId::none(), accuracy, recall_of(known, accuracy)});
    if (said == options.variants->accuracy.end() && !known.accuracy) {
      const std::filesystem::path version = std::filesystem::path(variant->file).parent_path();
      notes.push_back(unknown_accuracy(variant->model, version.parent_path().string()));
    }
  }
  if (evidence != nullptr && (options.variants->data_aware || options.variants->short_circuit)) {
    const size_t classes = evidence->classes();
    info.prior = evidence->prior();
    RETURN_IF_ERROR(check_classes(options, variants, info, classes));
    if (!options.variants->data_aware) {
      for (policy::VariantInfo& variant : info.variants) variant.recall.clear();
    }
    if (options.variants->short_circuit && can_be_stood_for(first.signature, classes)) {
      info.short_circuit = evidence->answers().accuracy;
    }
    service->evidence = evidence;
  }
  service->public_model = std::move(public_model);
  service->variants = std::move(variants);
  return service;
}

absl::StatusOr<AnswerProfile> try_out(const ServiceOptions& options,
                                      const std::shared_ptr<const Variant>& variant,
                                      ExecutorFactory& executors) {
  const LabelledFiles& files = *options.variants->labelled;
  ASSIGN_OR_RETURN(Tensor features, read_npy(files.features));
  ASSIGN_OR_RETURN(const Tensor labels, read_npy(files.labels));
  features.name = variant->signature.inputs[0].name;
  LabelledRequests data;
  auto classes = static_cast<uint32_t>(options.variants->prior.size());
  ASSIGN_OR_RETURN(data.labels, estimate::class_labels(labels, classes));
  ASSIGN_OR_RETURN(data.inputs, rows_as_requests({features}, variant->signature));
  const std::shared_ptr<Executor> executor = executors.make();
  RETURN_IF_ERROR(executor->load(variant));
  auto confusion =
      evaluate(*executor, *variant, std::move(data), {.classes = classes}, [](double) {});
  if (!confusion.ok()) {
    return invalid("service '{}': labelled data, model '{}': {}", options.name, variant->model,
                   message(confusion.status()));
  }
  return answers_of(*std::move(confusion));
}

absl::StatusOr<std::unique_ptr<EvidenceModel>> make_evidence(
    const ServiceOptions& options, const Variant* variant, std::shared_ptr<const Variant> extractor,
    ExecutorFactory& executors) {
  const EvidenceSource& source = *options.variants->evidence;
  ASSIGN_OR_RETURN(const Tensor features, read_npy(source.features));
  ASSIGN_OR_RETURN(const Tensor labels, read_npy(source.labels));
  EvidenceOptions made;
  made.input = source.input;
  made.extractor = std::move(extractor);
  made.output = source.output;
  made.k = source.k;
  made.scores = source.scores;
  made.prior = options.variants->prior;
  const auto classes = static_cast<uint32_t>(options.variants->prior.size());
  auto points = estimate::labelled_points(features, labels, classes);
  if (!points.ok()) {
    return invalid("service '{}': evidence: {}", options.name, message(points.status()));
  }
  made.training = *std::move(points);
  if (made.prior.empty() && options.variants->prior_requests > 0) {
    made.prior = frequencies(made.training, options.variants->prior_requests);
  }
  if (variant != nullptr) {
    const TensorSpec* compared =
        made.extractor == nullptr ? nullptr : &made.extractor->signature.inputs.front();
    const int64_t wanted = compared == nullptr ? static_cast<int64_t>(made.training.dimensions)
                                               : fixed_size(*compared);
    RETURN_IF_ERROR(check_compared(options, *variant, wanted));
  }
  auto model = EvidenceModel::make(std::move(made), executors);
  if (!model.ok()) {
    return invalid("service '{}': evidence: {}", options.name, message(model.status()));
  }
  return model;
}

}  // namespace fermata::engine
