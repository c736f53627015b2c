#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "engine/catalog.h"
#include "engine/execute/items.h"
#include "engine/threads/background_thread.h"
#include "estimate/labelled_points.h"
#include "estimate/neighbors.h"
#include "model/confusion.h"
#include "model/profile.h"
#include "model/tensor.h"

namespace fermata::engine {

// Where the features of a request come from, and what they are compared with.
struct EvidenceOptions {
  std::string input;                         // tensor of a request; empty: its first
  std::shared_ptr<const Variant> extractor;  // gets that tensor as its only input and gives
                                             // features; null: the tensor itself, flattened
  std::string output;                        // of the extractor; empty: its first
  estimate::LabelledPoints training;         // features of such data, with their classes
  std::vector<double> prior;                 // by class; empty: 0.5 each
  uint32_t k = 5;                            // neighbours; fermata evidence finds one
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
// front end nor the scheduler ever waits for it. When it goes, whoever still waits is looked at
// first.
class EvidenceModel {
 public:
  using Done = absl::AnyInvocable<void(std::optional<RequestEvidence>)>;

  // Loads the extractor and builds the index: blocks, for large training sets for minutes.
  // INVALID_ARGUMENT where there are fewer than k + 1 training points, the extractor does not
  // give as many features as these have, or scores are not one for each class. `executors` outlives
  // the model.
  static absl::StatusOr<std::unique_ptr<EvidenceModel>> make(EvidenceOptions options,
                                                             ExecutorFactory& executors);
  // Returns at once; any thread. Calls `done` exactly once, from the model's thread, and must
  // not block there; with nothing where the queue is full (then from the calling thread),
  // or where the request does not have such features or has values that are not finite.
  void submit(std::shared_ptr<const std::vector<Tensor>> inputs, Done done);

  uint32_t classes() const { return neighbors_.points().classes; }
  const std::vector<double>& prior() const { return prior_; }  // by class
  // How often those answers are right: on up to 2048 training points, each left out; of scores, on
  // all points. What the short circuit may expect.
  const AnswerProfile& answers() const { return answers_; }
  // Requests that found the queue full.
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  struct Waiting {
    std::shared_ptr<const std::vector<Tensor>> inputs;
    Done done;
  };

  EvidenceModel(EvidenceOptions options, LoadedModel extractor);
  void answer(absl::Span<Waiting> batch);
  uint32_t answer(const std::vector<uint32_t>& counts) const;
  std::vector<uint32_t> count(absl::Span<const float> features) const;
  Confusion test() const;
  void extract(absl::Span<const Waiting> batch, std::vector<std::optional<RequestEvidence>>& found);
  void add(absl::Span<const float> features, RequestEvidence& evidence) const;
  std::optional<RequestEvidence> look_up(const Tensor& tensor) const;

  const std::string input_;
  const LoadedModel extractor_;
  const uint32_t k_;
  const bool scores_;
  const estimate::Neighbors neighbors_;
  const std::vector<double> prior_;
  const AnswerProfile answers_;
  std::atomic<uint64_t> dropped_{0};
  BackgroundThread<Waiting> looking_;  // last: its thread uses the others
};

}  // namespace fermata::engine
