#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "engine/catalog.h"
#include "engine/execute/executor.h"
#include "estimate/labelled_points.h"
#include "model/profile.h"
#include "model/tensor.h"

namespace fermata::engine {

// Where the features of a request come from, and what they are compared with.
struct EvidenceOptions {
  std::string input;                                 // tensor of a request; empty: its first
  std::shared_ptr<const Variant> extractor;          // gets that tensor as its only input and gives
                                                     // features; null: the tensor itself, flattened
  std::string output;                                // of the extractor; empty: its first
  estimate::LabelledPoints training;                 // features of such data, with their classes
  std::optional<estimate::LabelledPoints> held_out;  // to measure the accuracy on
  std::vector<double> prior;                         // by class; empty: 0.5 each
  uint32_t k = 5;                                    // neighbours; fermata evidence finds one
  // Features are scores by class, which the extractor gives as a classifier: they share k votes,
  // and the points only say how often that is right.
  bool scores = false;
  size_t queue_limit = 256;  // requests that wait; what comes beyond gets no evidence
};

// What the data of one request says about the class of each of its items.
struct RequestEvidence {
  std::vector<std::vector<uint32_t>> counts;  // of an item's neighbours or votes, by class
  // What the short circuit would answer for an item: the likeliest class, the prior included.
  std::vector<uint32_t> answers;
};

// SneakPeek's module beside the scheduler (sections 3.2 and 4.2): takes requests on a thread of
// its own, several at once through the extractor, and looks their features up. Neither a
// front end nor the scheduler ever waits for it.
class EvidenceModel {
 public:
  using Done = absl::AnyInvocable<void(std::optional<RequestEvidence>)>;

  // Loads the extractor and builds the index: blocks, for large training sets for minutes.
  // INVALID_ARGUMENT where there are fewer than k + 1 training points, the extractor does not
  // give as many features as these have, or scores are not one for each class. `executors` outlives
  // the model.
  static absl::StatusOr<std::unique_ptr<EvidenceModel>> make(EvidenceOptions options,
                                                             ExecutorFactory& executors);
  // Whoever still waits is looked at first.
  ~EvidenceModel();

  // Returns at once; any thread. Calls `done` exactly once, from the model's thread, and must
  // not block there; with nothing where the queue is full (then from the calling thread),
  // or where the request does not have such features or has values that are not finite.
  void submit(std::shared_ptr<const std::vector<Tensor>> inputs, Done done);

  uint32_t classes() const;
  const std::vector<double>& prior() const;  // by class
  // How often those answers are right: on the held-out points, else on up to 2048 training
  // points, each left out; of scores, on all points. What the short circuit may expect.
  const AnswerProfile& answers() const;
  uint64_t dropped() const;  // requests that found the queue full

 private:
  class Impl;
  explicit EvidenceModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fermata::engine
