#include "engine/composite/join.h"

#include "absl/algorithm/container.h"
#include "engine/composite/ensemble_model.h"
#include "engine/execute/gather.h"

namespace fermata::engine {

void Join::take(size_t part, Outputs outputs) {
  taken_ += parts_[part].has_value() ? 0 : 1;
  parts_[part] = std::move(outputs);
}

plan::Subset Join::taken() const {
  plan::Subset taken = 0;
  for (size_t p = 0; p < parts_.size(); ++p) taken |= plan::Subset{has(p) ? 1u : 0u} << p;
  return taken;
}

Outputs Join::pass_on_first() {
  return *std::move(*absl::c_find_if(parts_, [](const auto& part) { return part.has_value(); }));
}

absl::StatusOr<Outputs> Join::concatenate() {
  std::vector<Outputs> all;
  for (auto& part : parts_) all.push_back(*std::move(part));
  return join(all);
}

void Join::aggregate(EnsembleModel& model, plan::Subset of, PartRun run, Aggregated done) {
  std::vector<std::optional<Tensor>> answers(parts_.size());
  for (size_t p = 0; p < parts_.size(); ++p) {
    if ((of >> p & 1) != 0 && has(p)) answers[p] = std::move(parts_[p]->front());
  }
  model.combine(std::move(answers), [run = std::move(run), done = std::move(done)](
                                        absl::StatusOr<Tensor> output, plan::Subset used) mutable {
    run.ensemble->how.ran = used;
    if (!output.ok()) return done(output.status(), run);
    Outputs outputs;
    outputs.push_back(*std::move(output));
    done(std::move(outputs), run);
  });
}

}  // namespace fermata::engine
