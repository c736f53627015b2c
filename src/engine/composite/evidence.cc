#include "engine/composite/evidence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status.h"
#include "estimate/cross_validation.h"
#include "estimate/posterior.h"
#include "estimate/votes.h"
#include "model/signature.h"
#include "model/tensor_values.h"

namespace fermata::engine {
namespace {

constexpr size_t kMostLeftOut = 2048;  // points that the accuracy is measured on
constexpr double kJeffreys = 0.5;      // the prior of Jeffreys, section 6.3.3
constexpr size_t kMostExtracted = 64;  // requests that go through the extractor together

const Tensor* find_input(const std::vector<Tensor>& inputs, const std::string& name) {
  const auto it = std::find_if(inputs.begin(), inputs.end(), [&name](const Tensor& tensor) {
    return name.empty() || tensor.name == name;
  });
  return it == inputs.end() ? nullptr : &*it;
}

bool all_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

absl::Status check_extractor(const EvidenceOptions& options) {
  const Variant& extractor = *options.extractor;
  if (extractor.signature.inputs.size() != 1) {
    return invalid("extractor '{}' has {} inputs, expected one", extractor.model,
                   extractor.signature.inputs.size());
  }
  const TensorSpec* output = extractor.signature.output(options.output);
  if (output == nullptr) {
    return invalid("extractor '{}' has no output '{}'", extractor.model, options.output);
  }
  const bool fixed = std::count(output->dims.begin(), output->dims.end(), -1) == 0;
  if (fixed && element_count(output->dims) != options.training.dimensions) {
    return invalid("extractor '{}' gives {} features, the training points have {}", extractor.model,
                   element_count(output->dims), options.training.dimensions);
  }
  return absl::OkStatus();
}

absl::Status check(const EvidenceOptions& options) {
  const estimate::LabelledPoints& training = options.training;
  if (options.scores && training.dimensions != training.classes) {
    return invalid("the training points have {} scores of {} classes, expected one for each class",
                   training.dimensions, training.classes);
  }
  if (!options.scores && (options.k < 1 || options.k >= training.size())) {
    return invalid("k is {}, expected 1 to {}: there are {} training points", options.k,
                   std::max<size_t>(training.size(), 1) - 1, training.size());
  }
  if (options.prior.size() != training.classes) {
    return invalid("the prior has {} classes, the training points have {}", options.prior.size(),
                   training.classes);
  }
  return options.extractor == nullptr ? absl::OkStatus() : check_extractor(options);
}

}  // namespace

EvidenceModel::EvidenceModel(EvidenceOptions options, LoadedModel extractor)
    : input_(std::move(options.input)),
      extractor_(std::move(extractor)),
      k_(options.k),
      scores_(options.scores),
      neighbors_(std::move(options.training)),
      prior_(std::move(options.prior)),
      answers_(answers_of(test())),
      looking_(kMostExtracted, options.queue_limit,
               [this](absl::Span<Waiting> batch) { answer(batch); }) {}

void EvidenceModel::submit(std::shared_ptr<const std::vector<Tensor>> inputs, Done done) {
  Waiting waiting{std::move(inputs), std::move(done)};
  if (looking_.submit(waiting)) return;
  dropped_.fetch_add(1, std::memory_order_relaxed);
  waiting.done(std::nullopt);
}

// A request whose data is unfit keeps nothing.
void EvidenceModel::answer(absl::Span<Waiting> batch) {
  std::vector<std::optional<RequestEvidence>> found(batch.size());
  if (extractor_) {
    extract(batch, found);
  } else {
    for (size_t i = 0; i < batch.size(); ++i) {
      const Tensor* tensor = find_input(*batch[i].inputs, input_);
      if (tensor != nullptr) found[i] = look_up(*tensor);
    }
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    std::exchange(batch[i].done, nullptr)(std::move(found[i]));
  }
}

uint32_t EvidenceModel::answer(const std::vector<uint32_t>& counts) const {
  return static_cast<uint32_t>(estimate::likeliest_class(prior_, counts));
}

std::vector<uint32_t> EvidenceModel::count(absl::Span<const float> features) const {
  return scores_ ? estimate::votes(features, k_) : neighbors_.evidence(features, k_).counts;
}

Confusion EvidenceModel::test() const {
  if (!scores_) {
    return estimate::leave_one_out(
        neighbors_, k_, kMostLeftOut,
        [this](const estimate::Evidence& evidence) { return answer(evidence.counts); });
  }
  const estimate::LabelledPoints& points = neighbors_.points();
  Confusion confusion(classes());
  for (size_t i = 0; i < points.size(); ++i) {
    confusion.add(points.labels[i], answer(count(points.row(i))));
  }
  return confusion;
}

void EvidenceModel::extract(absl::Span<const Waiting> batch,
                            std::vector<std::optional<RequestEvidence>>& found) {
  std::vector<std::vector<Tensor>> requests(batch.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    const Tensor* tensor = find_input(*batch[i].inputs, input_);
    if (tensor == nullptr) continue;
    requests[i] = {*tensor};
    requests[i][0].name = extractor_.variant->signature.inputs[0].name;
  }
  const size_t dimensions = neighbors_.points().dimensions;
  run_requests(
      extractor_, std::move(requests),
      [&](size_t request, uint32_t) { return found[request].emplace(), true; },
      [&](size_t request, uint32_t, const absl::StatusOr<std::vector<float>>& features) {
        auto& evidence = found[request];
        if (!evidence) return;
        if (features.ok() && features->size() == dimensions && all_finite(*features)) {
          add(*features, *evidence);
        } else {
          evidence.reset();  // one item that is unfit spoils all
        }
      });
}

void EvidenceModel::add(absl::Span<const float> features, RequestEvidence& evidence) const {
  evidence.counts.push_back(count(features));
  evidence.answers.push_back(answer(evidence.counts.back()));
}

// A tensor as it is: one item, or one in each row.
std::optional<RequestEvidence> EvidenceModel::look_up(const Tensor& tensor) const {
  const size_t dimensions = neighbors_.points().dimensions;
  const auto values = as_floats(tensor);
  if (!values.ok() || values->empty() || !all_finite(*values)) return std::nullopt;
  const bool rows =
      !tensor.shape.empty() && values->size() == static_cast<size_t>(tensor.shape[0]) * dimensions;
  if (!rows && values->size() != dimensions) return std::nullopt;
  RequestEvidence evidence;
  for (size_t at = 0; at < values->size(); at += dimensions) {
    add(absl::MakeConstSpan(*values).subspan(at, dimensions), evidence);
  }
  return evidence;
}

absl::StatusOr<std::unique_ptr<EvidenceModel>> EvidenceModel::make(EvidenceOptions options,
                                                                   ExecutorFactory& executors) {
  if (options.extractor != nullptr && options.output.empty()) {
    options.output = options.extractor->signature.outputs.front().name;
  }
  if (options.prior.empty()) options.prior.assign(options.training.classes, kJeffreys);
  RETURN_IF_ERROR(check(options));
  ASSIGN_OR_RETURN(LoadedModel extractor, load_model(options.extractor, options.output, executors));
  return std::unique_ptr<EvidenceModel>(
      new EvidenceModel(std::move(options), std::move(extractor)));
}

}  // namespace fermata::engine
