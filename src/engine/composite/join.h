#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "engine/composite/part_run.h"
#include "model/tensor.h"

namespace fermata::engine {

class EnsembleModel;  // engine/composite/ensemble_model.h

using Outputs = std::vector<Tensor>;

// What the parts of a request have answered, and one answer made of it: all of them one after the
// other, as items are; the numbers of an ensemble's base models, aggregated; or one of them, passed
// on as it is. Each takes the answers that it needs.
class Join {
 public:
  explicit Join(size_t parts) : parts_(parts) {}

  void take(size_t part, Outputs outputs);
  bool has(size_t part) const { return parts_[part].has_value(); }
  bool complete() const { return taken_ == parts_.size(); }
  plan::Subset taken() const;  // of at most 32

  // Of the first that has answered; one has.
  Outputs pass_on_first();
  // All have answered.
  absl::StatusOr<Outputs> concatenate();
  // Of those parts, as many of them as have answered. Calls `done` exactly once, as
  // EnsembleModel::combine() does; `run`, of an ensemble, then says whose answers are in it.
  using Aggregated = absl::AnyInvocable<void(absl::StatusOr<Outputs>, const PartRun& run)>;
  void aggregate(EnsembleModel& model, plan::Subset of, PartRun run, Aggregated done);

 private:
  std::vector<std::optional<Outputs>> parts_;
  size_t taken_ = 0;
};

}  // namespace fermata::engine
