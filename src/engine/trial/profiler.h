#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "engine/catalog.h"
#include "engine/execute/executor.h"
#include "model/profile.h"

namespace fermata::engine {

// How long runs took, by items, in their order.
using MadeRuns = std::map<uint32_t, std::vector<Duration>>;

struct MeasureOptions {
  uint32_t max_batch = 0;                // 0: the model's
  uint32_t runs = 30;                    // of each batch size, at most
  Duration each = Duration::seconds(2);  // no further run of a size after this
  Duration all = Duration::infinite();   // no further size after this
  // The quantiles of a size are all its fastest run: what else the machine did does not count. A
  // first run that is longer than `each` counts, and no other is made.
  bool fastest = false;
  std::map<std::string, Shape> shapes;  // per item, of inputs with free dimensions
  MadeRuns made;  // before, of a model without free dimensions: they stand for as many of its own
};

// Measures a variant by batch size (1, 2, 4, ... and the largest) through the executor, so
// with everything that a batch costs a worker. The first run of a size is not
// counted. Free dimensions that no shape is given for take those of model_warmup, else 1,
// else 32 where the model refuses 1. Blocks. `progress` gets the share that is done.
// Fails with the model's own error. Leaves load time and memory to the caller.
absl::StatusOr<Profile> measure(Executor& executor, const Variant& variant,
                                const MeasureOptions& options,
                                absl::FunctionRef<void(double)> progress);

}  // namespace fermata::engine
