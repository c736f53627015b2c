#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/catalog.h"
#include "engine/execute/executor.h"
#include "model/confusion.h"
#include "model/tensor.h"

namespace fermata::engine {

// What a model is tried on: requests of one or more items, and the class of each item.
struct LabelledRequests {
  std::vector<std::vector<Tensor>> inputs;  // by request
  std::vector<uint32_t> labels;             // of the items of all requests, in order
};

// Inputs of shape [n, ...], one example a row, as requests that the model can run: n rows
// of a model that batches in requests of its largest batch, else one by one. The payloads
// are shared. INVALID_ARGUMENT where the inputs do not have the same n, or none.
absl::StatusOr<std::vector<std::vector<Tensor>>> rows_as_requests(const std::vector<Tensor>& inputs,
                                                                  const Signature& signature);

struct EvaluateOptions {
  std::string output;    // floats: a score for each class; a whole number: the class. Empty:
                         // the model's first
  uint32_t classes = 0;  // 0: as many as scores, or as labels and answers name
};

// Runs a loaded variant on labelled data, in batches of its largest size, and counts its
// answers (SneakPeek, section 3.2: accuracy for every label). INVALID_ARGUMENT where a
// request does not fit the model, labels and items differ in number, a label is no class
// of the model, or its output is neither scores nor a class. Blocks. `progress` gets the
// share that is done.
absl::StatusOr<Confusion> evaluate(Executor& executor, const Variant& variant,
                                   LabelledRequests data, const EvaluateOptions& options,
                                   absl::FunctionRef<void(double)> progress);

}  // namespace fermata::engine
