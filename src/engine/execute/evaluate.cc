#include "engine/execute/evaluate.h"

#include <algorithm>
#include <optional>

#include "base/status.h"
#include "engine/admission.h"
#include "engine/execute/gather.h"
#include "engine/execute/items.h"
#include "model/answer.h"

namespace fermata::engine {
namespace {

struct Answers {
  std::vector<uint32_t> classes;  // by item
  uint32_t scored = 0;            // how many classes have a score; 0: the output is a class
};

absl::Status read_answer(const Tensor& output, Answers& answers) {
  const uint64_t elements = element_count(output.shape);
  const bool scores = is_floating(output.datatype);
  const std::optional<int64_t> answer = answered_class(output);
  if (!answer || (scores ? elements < 2 || elements > Confusion::kMostClasses : elements != 1)) {
    return invalid(
        "output '{}' is {} of shape {} for one item, expected a float score for each of "
        "2 to {} classes, or one whole number",
        output.name, name(output.datatype), to_string(output.shape), Confusion::kMostClasses);
  }
  const uint32_t scored = scores ? static_cast<uint32_t>(elements) : 0;
  if (!answers.classes.empty() && scored != answers.scored) {
    return invalid("output '{}' has {} scores for one item and {} for another", output.name,
                   answers.scored, scored);
  }
  if (*answer < 0 || *answer >= Confusion::kMostClasses) {
    return invalid("output '{}' names class {}, expected 0 to {}", output.name, *answer,
                   Confusion::kMostClasses - 1);
  }
  answers.scored = scored;
  answers.classes.push_back(static_cast<uint32_t>(*answer));
  return absl::OkStatus();
}

absl::StatusOr<Answers> ask(Executor& executor, const Variant& variant,
                            const std::vector<Item>& items, const std::string& output,
                            absl::FunctionRef<void(double)> progress) {
  Answers answers;
  RETURN_IF_ERROR(run_items(
      executor, variant, items, output,
      [&](size_t item, const absl::StatusOr<std::vector<Tensor>>& outputs) -> absl::Status {
        if (!outputs.ok()) return invalid("example {}: {}", item, message(outputs.status()));
        progress(static_cast<double>(item + 1) / static_cast<double>(items.size()));
        return read_answer(outputs->front(), answers);
      }));
  return answers;
}

absl::StatusOr<Confusion> count(const std::vector<uint32_t>& labels, const Answers& answers,
                                uint32_t classes) {
  const uint32_t highest_label = *std::max_element(labels.begin(), labels.end());
  const uint32_t highest_answer = *std::max_element(answers.classes.begin(), answers.classes.end());
  if (classes == 0) classes = answers.scored;
  if (classes == 0) classes = std::max(highest_label, highest_answer) + 1;
  if (highest_label >= classes || highest_label >= Confusion::kMostClasses) {
    const auto at = std::find(labels.begin(), labels.end(), highest_label) - labels.begin();
    return invalid("example {} has label {}, but the classes are 0 to {}", at, highest_label,
                   std::min(classes, Confusion::kMostClasses) - 1);
  }
  if (highest_answer >= classes) {
    return invalid("the model answers class {}, but the classes are 0 to {}", highest_answer,
                   classes - 1);
  }
  Confusion confusion(classes);
  for (size_t i = 0; i < labels.size(); ++i) confusion.add(labels[i], answers.classes[i]);
  return confusion;
}

}  // namespace

absl::StatusOr<std::vector<std::vector<Tensor>>> rows_as_requests(const std::vector<Tensor>& inputs,
                                                                  const Signature& signature) {
  for (const Tensor& input : inputs) {
    if (input.shape.empty() || input.shape[0] < 1 || input.shape[0] != inputs[0].shape[0]) {
      return invalid("input '{}' has shape {}, expected as many rows as the other inputs, from 1",
                     input.name, to_string(input.shape));
    }
  }
  const auto n = inputs.empty() ? 0 : inputs[0].shape[0];
  std::vector<std::vector<Tensor>> requests;
  const int64_t most = signature.batches ? signature.max_batch : 1;
  for (int64_t first = 0; first < n; first += most) {
    const auto items = static_cast<uint32_t>(std::min(most, n - first));
    std::vector<Tensor>& request = requests.emplace_back(inputs);
    for (Tensor& tensor : request) {
      ASSIGN_OR_RETURN(tensor.data, rows(tensor, static_cast<uint32_t>(first), items));
      tensor.shape[0] = items;
      if (!signature.batches) tensor.shape.erase(tensor.shape.begin());
    }
  }
  return requests;
}

absl::StatusOr<Confusion> evaluate(Executor& executor, const Variant& variant,
                                   LabelledRequests data, const EvaluateOptions& options,
                                   absl::FunctionRef<void(double)> progress) {
  const std::string& output =
      options.output.empty() ? variant.signature.outputs.front().name : options.output;
  if (variant.signature.output(output) == nullptr) {
    return invalid("'{}' is no output of the model", output);
  }
  ASSIGN_OR_RETURN(const std::vector<Admitted> admitted, admit_all(data.inputs, variant.signature));
  std::vector<Item> items;
  for (size_t i = 0; i < admitted.size(); ++i) append_items(data.inputs[i], admitted[i], items);
  if (items.empty()) return invalid("there are no examples, expected at least one");
  if (items.size() != data.labels.size()) {
    return invalid("there are {} labels for {} examples", data.labels.size(), items.size());
  }
  ASSIGN_OR_RETURN(const Answers answers, ask(executor, variant, items, output, progress));
  return count(data.labels, answers, options.classes);
}

}  // namespace fermata::engine
