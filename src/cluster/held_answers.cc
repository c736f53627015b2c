#include "cluster/held_answers.h"

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

bool HeldAnswers::whole() const {
  if (ensemble_ == nullptr) return answered_ == items_;
  return absl::c_all_of(queries_, [](const engine::Join& query) { return query.taken() != 0; });
}

absl::StatusOr<std::vector<Tensor>> HeldAnswers::join(plan::Subset& used) {
  FERMATA_CHECK(whole());
  std::vector<std::vector<Tensor>> all;
  if (ensemble_ == nullptr) {
    absl::c_sort(pieces_, [](const Piece& a, const Piece& b) { return a.first < b.first; });
    for (Piece& piece : pieces_) all.push_back(std::move(piece.outputs));
  }
  for (engine::Join& query : queries_) {
    absl::Status failed = internal("its answers were not put together");
    engine::PartRun run{.ensemble = engine::EnsembleRun()};
    // No model has to run for it here, so that it is called at once.
    query.aggregate(*ensemble_->model, query.taken(), std::move(run),
                    [&](absl::StatusOr<engine::Outputs> outputs, const engine::PartRun& by) {
                      failed = outputs.status();
                      if (outputs.ok()) all.push_back(*std::move(outputs));
                      used |= by.ensemble->how.ran;
                    });
    RETURN_IF_ERROR(failed);
  }
  if (all.size() == 1) return std::move(all.front());
  return engine::join(all);
}

}  // namespace fermata::cluster
