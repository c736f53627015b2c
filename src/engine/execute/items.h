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

}  // namespace fermata::engine
