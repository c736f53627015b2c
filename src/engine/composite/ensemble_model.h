#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/catalog.h"
#include "engine/execute/items.h"
#include "engine/options.h"
#include "engine/threads/background_thread.h"
#include "estimate/competence.h"
#include "estimate/difficulty.h"
#include "estimate/filling.h"
#include "model/tensor.h"
#include "policy/ensemble/ensemble.h"

namespace fermata::engine {

// What an ensemble needs besides its base models (Schemble, figure 3): the prediction of how
// difficult a query is, and the aggregation of what base models have answered, missing answers
// filled. On a thread of its own, beside the scheduler, with several queries at once through the
// predictor.
class EnsembleModel {
 public:
  // By item of the request.
  using Scored = absl::AnyInvocable<void(std::vector<policy::Difficulty>)>;
  // The ensemble's one output, for one item, and the base models whose answers are in it.
  using Combined = absl::AnyInvocable<void(absl::StatusOr<Tensor>, plan::Subset used)>;
  // Models that it runs itself; null: none.
  struct Helpers {
    std::shared_ptr<const Variant> predictor, gating, meta;
  };

  // Reads what `fermata difficulty fit` wrote: blocks. INVALID_ARGUMENT where that is not of
  // these models and this aggregation, or a helper does not suit. `base`: any of the base models,
  // for what its output looks like. `executors` outlives the model.
  static absl::StatusOr<std::unique_ptr<EnsembleModel>> make(const std::string& service,
                                                             const EnsembleOptions& options,
                                                             Helpers helpers, const Variant& base,
                                                             ExecutorFactory& executors);
  // Whoever still waits is answered.
  ~EnsembleModel() = default;

  // Whether there is anything to say of a query before it is answered.
  bool predicts() const { return predictor_ || gating_ || competence_ != nullptr; }
  // Returns at once; any thread. Calls `done` exactly once, with one difficulty an item; unknown
  // ones where the queue is full (then from the calling thread), or the data is unfit. It must not
  // block.
  void score(std::shared_ptr<const std::vector<Tensor>> inputs, uint32_t items, Scored done);
  // Calls `done` of whoever waits for a score, then returns; no score() from then on.
  void stop_scoring() { predicting_.reset(); }
  // What a base model gave for one item: INTERNAL where that is not the numbers of an answer (NaN,
  // infinity, too few of them). Any thread.
  absl::Status check_answer(const Tensor& answer) const;
  // Puts together what the base models have answered for one item, at least one of them; all pass
  // check_answer(), the others are empty. Calls `done` exactly once: from the calling thread, or
  // from its own where a model has to run.
  void combine(std::vector<std::optional<Tensor>> answers, Combined done);

  const estimate::SubsetProfile& profile() const;
  // How many numbers a base model has to give, as in the history.
  uint32_t width() const { return profile_.width; }
  // What the ensemble gives, as clients see it.
  const TensorSpec& output() const { return output_; }

 private:
  struct Query {
    std::shared_ptr<const std::vector<Tensor>> inputs;
    uint32_t items = 1;
    Scored done;
  };
  struct Stack {
    std::vector<std::vector<float>> outputs;
    plan::Subset used = 0;
    Combined done;
  };
  EnsembleModel() = default;
  absl::StatusOr<Tensor> finished(absl::StatusOr<std::vector<float>> values) const;
  void predict(absl::Span<Query> queries);
  void run(const LoadedModel& helper, absl::Span<Query> queries,
           absl::FunctionRef<void(size_t, uint32_t, const std::vector<float>&)> each);
  plan::Subset by_weight(const std::vector<float>& weights) const;
  void select(const Query& query, std::vector<policy::Difficulty>& found) const;
  void run_meta(absl::Span<Stack> stacks);

  EnsembleOptions options_;
  estimate::DifficultyProfile profile_;
  LoadedModel predictor_, gating_, meta_;
  std::unique_ptr<estimate::Competence> competence_;
  std::unique_ptr<estimate::Filling> filling_;
  TensorSpec output_;
  bool batches_ = false;
  std::unique_ptr<BackgroundThread<Query>> predicting_;  // both last: they use the above
  std::unique_ptr<BackgroundThread<Stack>> stacking_;
};

}  // namespace fermata::engine
