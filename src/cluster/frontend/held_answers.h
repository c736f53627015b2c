#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/composite/ensemble_service.h"
#include "engine/composite/join.h"
#include "model/tensor.h"

namespace fermata::cluster {

// What workers have answered of a request, by its items; of an ensemble's, by base model too. Not
// thread-safe.
class HeldAnswers {
 public:
  using Subsets = std::vector<plan::Subset>;
  // `ensemble` null: one model answers each item.
  HeldAnswers(uint32_t items, std::shared_ptr<const engine::EnsembleService> ensemble);

  // What it overlaps was of another division of the request, by an earlier scheduler.
  void put(uint32_t first, uint32_t items, std::vector<Tensor> outputs);
  // Of one item, by a base model. INTERNAL where that is no answer of the ensemble.
  absl::Status put_answer(uint32_t model, uint32_t item, std::vector<Tensor> outputs);
  // INTERNAL where that cannot be whose answers count, by item.
  absl::Status check(const Subsets& answered_by) const;
  // Every item has been answered; of an ensemble by all of those of its base models.
  bool whole(const Subsets& answered_by) const;
  // Of all items, one after the other, when they are whole; of an ensemble aggregated from those
  // answers. Once.
  absl::StatusOr<std::vector<Tensor>> join(const Subsets& answered_by);

 private:
  struct Piece {
    uint32_t first = 0, items = 0;
    std::vector<Tensor> outputs;
  };
  const uint32_t items_;
  const std::shared_ptr<const engine::EnsembleService> ensemble_;
  std::vector<Piece> pieces_;
  uint32_t answered_ = 0;              // items, in pieces
  std::vector<engine::Join> queries_;  // of an ensemble, by item
};

}  // namespace fermata::cluster
