#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"
#include "model/tensor.h"

namespace fermata::engine {

struct Variant;  // engine/catalog.h: a loaded model version with its configuration and profile

// The part of a batch that belongs to one task: whole tensors of one request,
// or for a request that was split, `items` rows of them from `first_item` on.
struct BatchPart {
  const std::vector<Tensor>* inputs = nullptr;        // alive until done is called
  const std::vector<std::string>* outputs = nullptr;  // names asked for; empty: all
  uint32_t first_item = 0, items = 1;
};

struct BatchResult {
  // One per part, in order: its outputs, or why that part alone failed.
  std::vector<absl::StatusOr<std::vector<Tensor>>> parts;
  Duration input, run, output;  // gathering, computing, scattering
};

struct BatchRun {
  VariantId variant;
  std::vector<BatchPart> parts;
  absl::AnyInvocable<void(BatchResult)> done;
};

// Where batches run; one per worker. Nothing above it knows which kind it is.
class Executor {
 public:
  virtual ~Executor() = default;
  // Blocks; not on the request path. Safe beside run().
  virtual absl::Status load(VariantId id, std::shared_ptr<const Variant> variant) = 0;
  virtual void unload(VariantId id) = 0;
  // Returns at once; calls done exactly once, from any thread. One bad item
  // fails its own part, not the batch. Runs one batch at a time, in order.
  virtual void run(BatchRun batch) = 0;
};

}  // namespace fermata::engine
