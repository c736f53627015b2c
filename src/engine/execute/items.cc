#include "engine/execute/items.h"

#include <utility>

#include "base/status.h"
#include "model/tensor_values.h"

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
  return run_and_wait(executor, std::move(run));
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

absl::StatusOr<LoadedModel> load_model(std::shared_ptr<const Variant> variant,
                                       const std::string& output, ExecutorFactory& executors) {
  LoadedModel model;
  if (variant == nullptr) return model;
  model.output = output.empty() ? variant->signature.outputs.front().name : output;
  if (variant->signature.output(model.output) == nullptr) {
    return invalid("model '{}' has no output '{}'", variant->model, model.output);
  }
  model.executor = executors.make();
  RETURN_IF_ERROR(model.executor->load(variant));
  model.variant = std::move(variant);
  return model;
}

void run_requests(
    const LoadedModel& model, std::vector<std::vector<Tensor>> requests,
    absl::FunctionRef<bool(size_t request, uint32_t items)> wanted,
    absl::FunctionRef<void(size_t request, uint32_t item, absl::StatusOr<std::vector<float>>)>
        each) {
  std::vector<Admitted> admitted(requests.size());
  std::vector<Item> items;
  std::vector<size_t> owner;  // of each item
  for (size_t r = 0; r < requests.size(); ++r) {
    InferRequest request{.inputs = std::move(requests[r])};
    auto fits = admit(request, model.variant->signature);
    if (!fits.ok() || !wanted(r, fits->items)) continue;
    requests[r] = std::move(request.inputs);
    admitted[r] = *std::move(fits);
    append_items(requests[r], admitted[r], items);
    owner.resize(items.size(), r);
  }
  (void)run_items(*model.executor, *model.variant, items, model.output,
                  [&](size_t item, const absl::StatusOr<std::vector<Tensor>>& outputs) {
                    each(owner[item], items[item].row,
                         outputs.ok() ? as_floats(outputs->front())
                                      : absl::StatusOr<std::vector<float>>(outputs.status()));
                    return absl::OkStatus();
                  });
}

}  // namespace fermata::engine
