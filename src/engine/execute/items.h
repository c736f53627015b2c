#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/admission.h"
#include "engine/catalog.h"
#include "engine/execute/executor.h"

namespace fermata::engine {

// A model that is loaded to be run beside the workers, and which output of it counts.
struct LoadedModel {
  std::shared_ptr<const Variant> variant;  // null: none
  std::shared_ptr<Executor> executor;
  std::string output;

  explicit operator bool() const { return variant != nullptr; }
};

// `output` empty: the first. Blocks; INVALID_ARGUMENT where the model has no such output.
absl::StatusOr<LoadedModel> load_model(std::shared_ptr<const Variant> variant,
                                       const std::string& output, ExecutorFactory& executors);

// One item of a request that fits its model; both are the caller's.
struct Item {
  const std::vector<Tensor>* inputs = nullptr;  // in the signature's order
  uint32_t row = 0;
  const Admitted* request = nullptr;
};

// Puts the inputs of every request into the signature's order. INVALID_ARGUMENT names the
// request by its place.
absl::StatusOr<std::vector<Admitted>> admit_all(std::vector<std::vector<Tensor>>& requests,
                                                const Signature& signature);

// Every item of a request, in order.
void append_items(const std::vector<Tensor>& inputs, const Admitted& request,
                  std::vector<Item>& items);

// Runs items through a loaded variant, each neighbouring few of one shape as one batch up to
// its largest, and waits for them. `each` gets every item's one output in order, or why that
// item failed; the first error that it returns ends the run and is returned. Not for a request
// path: blocks.
absl::Status run_items(
    Executor& executor, const Variant& variant, absl::Span<const Item> items,
    const std::string& output,
    absl::FunctionRef<absl::Status(size_t item, const absl::StatusOr<std::vector<Tensor>>&)> each);

// Runs those requests that fit the model, and of which `wanted` says so that knows how many items
// they have, and waits. `each` gets the numbers of every item's output, or why there are none.
void run_requests(
    const LoadedModel& model, std::vector<std::vector<Tensor>> requests,
    absl::FunctionRef<bool(size_t request, uint32_t items)> wanted,
    absl::FunctionRef<void(size_t request, uint32_t item, absl::StatusOr<std::vector<float>>)>
        each);

}  // namespace fermata::engine
