#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tune/recording.h"

namespace fermata::tune {

// A part of a request's time.
struct Span {
  enum class Kind : uint8_t {
    kNetwork,
    kFrontEnd,
    kQueue,
    kHeld,
    kWorker,
    kRun,
    kOperator,
    kReply
  };
  Kind kind = Kind::kQueue;
  std::string label;  // "ran: detect x 6 on worker 2"
  std::string service;
  std::optional<uint32_t> worker;
  std::optional<uint64_t> batch;
  Time start, end;
};
std::string_view name(Span::Kind kind);  // "front_end"

// How long each kind of span was what the request waited for: the chain of spans that ended last,
// from its end back. Of members that ran at the same time the one that ended last counts.
std::map<Span::Kind, Duration> critical_path(const std::vector<Span>& spans);

// Answers questions about single requests of a recording, which outlives it. Making one is
// O(recording), a question O(what it is about).
class Explainer {
 public:
  explicit Explainer(const Recording& recording);

  const RecordedRequest* find(JobId id) const;
  // In the order of their starts, the parts of a pipeline's request included.
  std::vector<Span> spans(const RecordedRequest& request) const;
  // What became of it, why, and what to do where it was not answered in time.
  std::string sentence(const RecordedRequest& request) const;

 private:
  void add_spans(const RecordedRequest& request, std::vector<Span>& spans) const;
  std::string rejection(const RecordedRequest& request) const;
  std::string around(const RecordedRequest& request) const;  // who was before it
  std::string parts(const RecordedRequest& request) const;   // of its time

  const Recording& recording_;
  absl::flat_hash_map<JobId, const RecordedRequest*> requests_;
  absl::flat_hash_map<JobId, std::vector<const RecordedBatch*>> batches_;     // by request
  absl::flat_hash_map<JobId, std::vector<const RecordedRequest*>> children_;  // by client's request
  absl::flat_hash_map<JobId, std::vector<const RecordedOperator*>> operators_;
};

}  // namespace fermata::tune
