#include "serve/call/reply_outputs.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/status.h"
#include "serve/call/classification.h"

namespace fermata::serve {
namespace {

absl::Status write_to(const SharedMemory& regions, const RegionPlace& place, const Tensor& tensor) {
  if (tensor.data.bytes.size() > place.byte_size.value_or(0)) {
    return invalid("output {} has {} bytes, its place in shared memory region {} {}", tensor.name,
                   tensor.data.bytes.size(), place.region, place.byte_size.value_or(0));
  }
  return regions.write(place, tensor.data.bytes);
}

absl::StatusOr<ReadyOutput> ready(Tensor tensor, const TensorParameters& wish,
                                  const ReplyWishes& wishes, const SharedMemory& regions,
                                  const HeldBytes& held) {
  ReadyOutput result;
  result.binary = wish.binary_data.value_or(wishes.binary_data_output);
  if (wish.classification > 0) {
    const engine::Variant* model = wishes.classifier.get();
    const bool leads = model != nullptr && model->signature.batches;
    static const std::vector<std::string> kNone;
    const bool has_labels = model != nullptr && model->labels.contains(tensor.name);
    const auto& labels = has_labels ? model->labels.at(tensor.name) : kNone;
    ASSIGN_OR_RETURN(result.tensor,
                     classify(tensor, wish.classification, leads, labels, held.beside()));
    return result;
  }
  if (wish.shared_memory) {
    RETURN_IF_ERROR(write_to(regions, *wish.shared_memory, tensor));
    result.written = &*wish.shared_memory;
  }
  result.tensor = std::move(tensor);
  return result;
}

}  // namespace

absl::StatusOr<std::vector<ReadyOutput>> ready_outputs(std::vector<Tensor> outputs,
                                                       const ReplyWishes& wishes,
                                                       const SharedMemory& regions,
                                                       const HeldBytes& held) {
  std::vector<ReadyOutput> result;
  result.reserve(outputs.size());
  if (wishes.outputs.empty()) {
    for (Tensor& tensor : outputs) {
      result.push_back({std::move(tensor), wishes.binary_data_output});
    }
    return result;
  }
  for (const WantedOutput& wanted : wishes.outputs) {
    const auto found = std::find_if(outputs.begin(), outputs.end(), [&](const Tensor& tensor) {
      return tensor.name == wanted.name;
    });
    if (found == outputs.end()) return internal("the model gave no output {}", wanted.name);
    ASSIGN_OR_RETURN(ReadyOutput output,
                     ready(std::move(*found), wanted.parameters, wishes, regions, held));
    result.push_back(std::move(output));
  }
  return result;
}

std::vector<std::pair<std::string_view, ParameterValue>> explain(const engine::Explanation& why,
                                                                 const ReplyWishes& wishes) {
  const auto micros = [](Duration d) { return int64_t{d.nanos() / 1000}; };
  std::vector<std::pair<std::string_view, ParameterValue>> result = {
      {"outcome", name(why.outcome)},
      {"variant", std::string_view(why.variant)},
      {"variant_version", std::string_view(why.version)},
  };
  if (why.outcome == engine::Outcome::kRejectedDeadline) {
    result.emplace_back("expected_wait_us", micros(why.queueing));
    result.emplace_back("expected_run_us", micros(why.run));
  } else if (why.outcome == engine::Outcome::kOnTime || why.outcome == engine::Outcome::kLate ||
             why.batch_items > 0) {
    result.emplace_back("worker", int64_t{why.worker});
    result.emplace_back("batch_size", int64_t{why.batch_items});
    result.emplace_back("queueing_us", micros(why.queueing));
    result.emplace_back("run_us", micros(why.run));
  }
  if (!why.budget.is_infinite()) {
    result.emplace_back("budget_us", micros(why.budget));
    result.emplace_back("remaining_us", micros(why.remaining));
  }
  if (!wishes.unknown.empty()) {
    result.emplace_back("unknown_parameters", std::string_view(wishes.unknown));
  }
  if (!why.stages.empty()) result.emplace_back("stages", std::string_view(why.stages));
  if (why.alternatives.empty()) return result;
  result.emplace_back("reason", std::string_view(why.reason));
  result.emplace_back("expected_accuracy", why.expected_accuracy);
  result.emplace_back("alternatives", std::string_view(why.alternatives));
  if (why.difficulty) result.emplace_back("difficulty", *why.difficulty);
  if (!why.posterior.empty()) result.emplace_back("posterior", std::string_view(why.posterior));
  return result;
}

}  // namespace fermata::serve
