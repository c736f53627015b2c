#include "engine/execute/items.h"

#include <future>
#include <utility>

#include "base/status.h"

namespace fermata::engine {
namespace {

// The items of one batch at `first`.
absl::Span<const Item> batch_at(absl::Span<const Item> items, size_t first, uint32_t most) {
  size_t end = first + 1;
  while (end < items.size() && end < first + most &&
         items[end].request->shape == items[first].request->shape) {
    ++end;
  }
  return items.subspan(first, end - first);
}

BatchResult run_batch(Executor& executor, VariantId variant, absl::Span<const Item> items,
                      const std::vector<std::string>& outputs) {
  BatchRun run{.variant = variant};
  for (const Item& item : items) run.parts.push_back({item.inputs, &outputs, item.row, 1});
  std::promise<BatchResult> landed;
  run.done = [&landed](BatchResult result) { landed.set_value(std::move(result)); };
  executor.run(std::move(run));
  return landed.get_future().get();
}

}  // namespace

absl::StatusOr<std::vector<Admitted>> admit_all(std::vector<std::vector<Tensor>>& requests,
                                                const Signature& signature) {
  std::vector<Admitted> admitted;
  for (std::vector<Tensor>& inputs : requests) {
    InferRequest request{.inputs = std::move(inputs)};
    auto fits = admit(request, signature);
    if (!fits.ok()) return invalid("example {}: {}", admitted.size(), message(fits.status()));
    admitted.push_back(*std::move(fits));
    inputs = std::move(request.inputs);
  }
  return admitted;
}

void append_items(const std::vector<Tensor>& inputs, const Admitted& request,
                  std::vector<Item>& items) {
  for (uint32_t row = 0; row < request.items; ++row) items.push_back({&inputs, row, &request});
}

absl::Status run_items(
    Executor& executor, const Variant& variant, absl::Span<const Item> items,
    const std::string& output,
    absl::FunctionRef<absl::Status(size_t item, const absl::StatusOr<std::vector<Tensor>>&)> each) {
  const std::vector<std::string> outputs = {output};
  size_t done = 0;
  while (done < items.size()) {
    const auto batch = batch_at(items, done, variant.signature.max_batch);
    const BatchResult result = run_batch(executor, variant.id, batch, outputs);
    for (const auto& part : result.parts) RETURN_IF_ERROR(each(done++, part));
  }
  return absl::OkStatus();
}

}  // namespace fermata::engine
