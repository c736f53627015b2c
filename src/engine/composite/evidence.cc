#include "engine/composite/evidence.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "base/status.h"
#include "engine/execute/items.h"
#include "engine/threads/beside.h"
#include "estimate/cross_validation.h"
#include "estimate/neighbors.h"
#include "estimate/posterior.h"
#include "estimate/votes.h"
#include "model/signature.h"
#include "model/tensor_values.h"

namespace fermata::engine {
namespace {

constexpr size_t kMostLeftOut = 2048;  // points that the accuracy is measured on
constexpr double kJeffreys = 0.5;      // the prior of Jeffreys, section 6.3.3
constexpr size_t kMostExtracted = 64;  // requests that go through the extractor together

struct Waiting {
  std::shared_ptr<const std::vector<Tensor>> inputs;
  EvidenceModel::Done done;
};

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
  const auto& held_out = options.held_out;
  if (held_out && (held_out->size() == 0 || held_out->dimensions != training.dimensions ||
                   held_out->classes > training.classes)) {
    return invalid(
        "{} held-out points have {} features of {} classes, the training points {} of {}",
        held_out->size(), held_out->dimensions, held_out->classes, training.dimensions,
        training.classes);
  }
  if (options.prior.size() != training.classes) {
    return invalid("the prior has {} classes, the training points have {}", options.prior.size(),
                   training.classes);
  }
  return options.extractor == nullptr ? absl::OkStatus() : check_extractor(options);
}

}  // namespace

class EvidenceModel::Impl {
 public:
  // `executor` has the extractor, where there is one.
  Impl(EvidenceOptions options, std::unique_ptr<Executor> executor)
      : input_(std::move(options.input)),
        extractor_(std::move(options.extractor)),
        output_(std::move(options.output)),
        k_(options.k),
        scores_(options.scores),
        executor_(std::move(executor)),
        neighbors_(std::move(options.training)),
        prior_(std::move(options.prior)),
        answers_(answers_of(test(options.held_out))),
        looking_(kMostExtracted, options.queue_limit,
                 [this](absl::Span<Waiting> batch) { answer(batch); }) {}

  void submit(Waiting waiting) {
    if (looking_.submit(waiting)) return;
    dropped_.fetch_add(1, std::memory_order_relaxed);
    waiting.done(std::nullopt);
  }

  uint32_t classes() const { return neighbors_.points().classes; }
  const std::vector<double>& prior() const { return prior_; }
  const AnswerProfile& answers() const { return answers_; }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  // A request whose data is unfit keeps nothing.
  void answer(absl::Span<Waiting> batch) {
    std::vector<std::optional<RequestEvidence>> found(batch.size());
    if (extractor_ == nullptr) {
      for (size_t i = 0; i < batch.size(); ++i) {
        const Tensor* tensor = find_input(*batch[i].inputs, input_);
        if (tensor != nullptr) found[i] = look_up(*tensor);
      }
    } else {
      extract(batch, found);
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      std::exchange(batch[i].done, nullptr)(std::move(found[i]));
    }
  }

  uint32_t answer(const std::vector<uint32_t>& counts) const {
    return static_cast<uint32_t>(estimate::likeliest_class(prior_, counts));
  }

  std::vector<uint32_t> count(absl::Span<const float> features) const {
    return scores_ ? estimate::votes(features, k_) : neighbors_.evidence(features, k_).counts;
  }

  Confusion test(const std::optional<estimate::LabelledPoints>& held_out) const {
    if (!held_out && !scores_) {
      return estimate::leave_one_out(
          neighbors_, k_, kMostLeftOut,
          [this](const estimate::Evidence& evidence) { return answer(evidence.counts); });
    }
    const estimate::LabelledPoints& points = held_out ? *held_out : neighbors_.points();
    Confusion confusion(classes());
    for (size_t i = 0; i < points.size(); ++i) {
      confusion.add(points.labels[i], answer(count(points.row(i))));
    }
    return confusion;
  }

  void extract(absl::Span<const Waiting> batch,
               std::vector<std::optional<RequestEvidence>>& found) {
    std::vector<InferRequest> requests(batch.size());
    std::vector<std::optional<Admitted>> admitted(batch.size());
    std::vector<Item> items;
    std::vector<size_t> owner;  // of each item, as its place in the batch
    for (size_t i = 0; i < batch.size(); ++i) {
      const Tensor* tensor = find_input(*batch[i].inputs, input_);
      if (tensor == nullptr) continue;
      requests[i].inputs = {*tensor};
      requests[i].inputs[0].name = extractor_->signature.inputs[0].name;
      auto fits = admit(requests[i], extractor_->signature);
      if (!fits.ok()) continue;
      admitted[i] = *std::move(fits);
      append_items(requests[i].inputs, *admitted[i], items);
      owner.resize(items.size(), i);
      found[i].emplace();
    }
    (void)run_items(*executor_, *extractor_, items, output_,
                    [&](size_t item, const absl::StatusOr<std::vector<Tensor>>& outputs) {
                      add(outputs, found[owner[item]]);
                      return absl::OkStatus();
                    });
  }

  // Adds the neighbours of one item, whose features the extractor gave; or spoils all.
  void add(const absl::StatusOr<std::vector<Tensor>>& outputs,
           std::optional<RequestEvidence>& evidence) const {
    if (!evidence) return;
    const auto features = outputs.ok() ? as_floats(outputs->front())
                                       : absl::StatusOr<std::vector<float>>(outputs.status());
    if (features.ok() && features->size() == neighbors_.points().dimensions &&
        all_finite(*features)) {
      add(*features, *evidence);
    } else {
      evidence.reset();
    }
  }

  void add(absl::Span<const float> features, RequestEvidence& evidence) const {
    evidence.counts.push_back(count(features));
    evidence.answers.push_back(answer(evidence.counts.back()));
  }

  // A tensor as it is: one item, or one in each row.
  std::optional<RequestEvidence> look_up(const Tensor& tensor) const {
    const size_t dimensions = neighbors_.points().dimensions;
    const auto values = as_floats(tensor);
    if (!values.ok() || values->empty() || !all_finite(*values)) return std::nullopt;
    const bool rows = !tensor.shape.empty() &&
                      values->size() == static_cast<size_t>(tensor.shape[0]) * dimensions;
    if (!rows && values->size() != dimensions) return std::nullopt;
    RequestEvidence evidence;
    for (size_t at = 0; at < values->size(); at += dimensions) {
      add(absl::MakeConstSpan(*values).subspan(at, dimensions), evidence);
    }
    return evidence;
  }

  const std::string input_;
  const std::shared_ptr<const Variant> extractor_;
  const std::string output_;
  const uint32_t k_;
  const bool scores_;
  const std::unique_ptr<Executor> executor_;
  const estimate::Neighbors neighbors_;
  const std::vector<double> prior_;
  const AnswerProfile answers_;
  std::atomic<uint64_t> dropped_{0};
  Beside<Waiting> looking_;  // last: its thread uses the others
};

absl::StatusOr<std::unique_ptr<EvidenceModel>> EvidenceModel::make(EvidenceOptions options,
                                                                   ExecutorFactory& executors) {
  std::unique_ptr<Executor> executor;
  if (options.extractor != nullptr && options.output.empty()) {
    options.output = options.extractor->signature.outputs.front().name;
  }
  if (options.prior.empty()) options.prior.assign(options.training.classes, kJeffreys);
  RETURN_IF_ERROR(check(options));
  if (options.extractor != nullptr) {
    executor = executors.make();
    RETURN_IF_ERROR(executor->load(options.extractor));
  }
  return std::unique_ptr<EvidenceModel>(
      new EvidenceModel(std::make_unique<Impl>(std::move(options), std::move(executor))));
}

EvidenceModel::EvidenceModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EvidenceModel::~EvidenceModel() = default;

void EvidenceModel::submit(std::shared_ptr<const std::vector<Tensor>> inputs, Done done) {
  impl_->submit({std::move(inputs), std::move(done)});
}
uint32_t EvidenceModel::classes() const { return impl_->classes(); }
const std::vector<double>& EvidenceModel::prior() const { return impl_->prior(); }
const AnswerProfile& EvidenceModel::answers() const { return impl_->answers(); }
uint64_t EvidenceModel::dropped() const { return impl_->dropped(); }

}  // namespace fermata::engine
