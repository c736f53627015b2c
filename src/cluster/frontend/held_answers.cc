#include "cluster/frontend/held_answers.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/status.h"
#include "engine/execute/gather.h"

namespace fermata::cluster {

HeldAnswers::HeldAnswers(uint32_t items, std::shared_ptr<const engine::EnsembleService> ensemble)
    : items_(items), ensemble_(std::move(ensemble)) {
  if (ensemble_ == nullptr) return;
  for (uint32_t i = 0; i < items; ++i) queries_.emplace_back(ensemble_->variants.size());
}

void HeldAnswers::put(uint32_t first, uint32_t items, std::vector<Tensor> outputs) {
  const uint32_t end = first + items;
  std::erase_if(pieces_, [&](const Piece& other) {
    const bool apart = other.first >= end || other.first + other.items <= first;
    if (!apart) answered_ -= other.items;
    return !apart;
  });
  answered_ += items;
  pieces_.push_back({first, items, std::move(outputs)});
}

absl::Status HeldAnswers::put_answer(uint32_t model, uint32_t item, std::vector<Tensor> outputs) {
  if (outputs.empty()) return internal("it has no outputs");
  RETURN_IF_ERROR(ensemble_->model->check_answer(outputs.front()));
  queries_[item].take(model, std::move(outputs));
  return absl::OkStatus();
}

absl::Status HeldAnswers::check(const Subsets& answered_by) const {
  if (ensemble_ == nullptr) return absl::OkStatus();
  if (answered_by.size() != items_) {
    return internal("base models of {} items, expected {}", answered_by.size(), items_);
  }
  const auto models = static_cast<uint32_t>(ensemble_->variants.size());
  const auto odd = absl::c_find_if(answered_by, [models](const plan::Subset subset) {
    return subset == 0 || subset >> models != 0;
  });
  if (odd == answered_by.end()) return absl::OkStatus();
  return internal("base models {:#x} of item {}, expected some of {}", *odd,
                  odd - answered_by.begin(), models);
}

bool HeldAnswers::whole(const Subsets& answered_by) const {
  if (ensemble_ == nullptr) return answered_ == items_;
  return absl::c_equal(queries_, answered_by, [](const engine::Join& query, plan::Subset of) {
    return (query.taken() & of) == of;
  });
}

absl::StatusOr<std::vector<Tensor>> HeldAnswers::join(const Subsets& answered_by) {
  FERMATA_CHECK(whole(answered_by));
  std::vector<std::vector<Tensor>> all;
  if (ensemble_ == nullptr) {
    absl::c_sort(pieces_, [](const Piece& a, const Piece& b) { return a.first < b.first; });
    for (Piece& piece : pieces_) all.push_back(std::move(piece.outputs));
  }
  for (size_t item = 0; item < queries_.size(); ++item) {
    absl::Status failed = internal("its answers were not put together");
    engine::PartRun run{.ensemble = engine::EnsembleRun()};
    // No model has to run for it here, so that it is called at once.
    queries_[item].aggregate(*ensemble_->model, answered_by[item], std::move(run),
                             [&](absl::StatusOr<engine::Outputs> outputs, const engine::PartRun&) {
                               failed = outputs.status();
                               if (outputs.ok()) all.push_back(*std::move(outputs));
                             });
    RETURN_IF_ERROR(failed);
  }
  if (all.size() == 1) return std::move(all.front());
  return engine::join(all);
}

}  // namespace fermata::cluster
