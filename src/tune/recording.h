#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/time.h"
#include "engine/observer.h"
#include "policy/types.h"

namespace fermata::tune {

// The first letters of a text, which take no memory of their own.
class ShortText {
 public:
  static constexpr size_t kMost = 15;

  ShortText() = default;
  explicit ShortText(std::string_view text) { text.copy(letters_.data(), kMost); }
  std::string_view view() const { return {letters_.data(), strnlen(letters_.data(), kMost)}; }
  bool empty() const { return letters_[0] == 0; }

 private:
  std::array<char, kMost + 1> letters_{};
};

// What became of one request. Times are the server's monotonic clock; `end` infinite: not yet.
struct RecordedRequest {
  JobId id, parent;  // the latter none: a client's own; else of which it is a part
  uint32_t service = 0, items = 0;
  Time arrival, submitted, nominated = Time::infinite(), deadline, end = Time::infinite();
  uint64_t batch = 0;      // the first that it was in; 0: none
  Duration queueing, run;  // of one that is rejected for its deadline: what it would have met
  VariantId model;         // that answered alone; else none
  uint32_t subset = 0;     // of an ensemble's models that answered together
  float accuracy = 0, network_ms = 0;  // the former that is expected of the answer; 0: unknown
  engine::Outcome outcome = engine::Outcome::kOnTime;
  bool has_parts = false;  // that are requests of their own
  ShortText client_id;

  bool ended() const { return !end.is_infinite(); }
  bool answered() const {
    return ended() && (outcome == engine::Outcome::kOnTime || outcome == engine::Outcome::kLate);
  }
};

// A batch that was bound; `end` infinite: it runs still.
struct RecordedBatch {
  uint64_t id = 0;
  uint32_t worker = 0, service = 0, items = 0;
  VariantId model;
  Time bound, wanted, expected_start, expected_end;
  Time start = Time::infinite(), end = Time::infinite();
  policy::StartRule rule = policy::StartRule::kAtOnce;
  bool load = false, failed = false;
  std::vector<JobId> requests;  // each once
};

using RecordedOperator = engine::Observer::OperatorRan;
using RecordedLoad = engine::Observer::Loaded;

// The process that ran a model for a worker ended unasked.
struct RecordedDeath {
  uint32_t worker = 0;
  VariantId model;
  Time at;
  ShortText cause;  // "SIGSEGV", "exit"
};

// What happened on a server from some moment to another, as far as it was recorded: requests in the
// order in which they came, the rest in the order in which it began.
struct Recording {
  Time from, to;
  std::vector<std::string> services;  // by number
  absl::flat_hash_map<VariantId, std::string> models;
  std::vector<RecordedRequest> requests;
  std::vector<RecordedBatch> batches;
  std::vector<RecordedOperator> operators;
  std::vector<RecordedLoad> loads;
  std::vector<RecordedDeath> deaths;
  uint64_t lost = 0;  // events since the server started for which there was no room

  const std::string& service(uint32_t number) const { return services.at(number); }
  std::string model(VariantId id) const {
    const auto found = models.find(id);
    return found == models.end() ? std::string() : found->second;
  }
};

// What a batch had waited for.
enum class WaitedFor : uint8_t { kNothing, kMates, kWorker, kStartTime };
std::string_view name(WaitedFor what);  // "mates"

// When its first request came to the scheduler, or now at the latest where none is known.
struct BatchWait {
  Time since;             // its first request came to the scheduler
  Duration held, worker;  // until it wanted to start, and from then until it did
  WaitedFor what = WaitedFor::kNothing;
};
BatchWait wait_of(const RecordedBatch& batch, Time first_nominated);

}  // namespace fermata::tune
