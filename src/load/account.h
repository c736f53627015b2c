#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/histogram.h"
#include "base/time.h"
#include "load/transport.h"

namespace fermata::load {

// Every request ends in exactly one of these.
enum class Outcome : uint8_t {
  kOnTime,            // answered within the SLO, or without one
  kLate,              // answered after it
  kRejectedDeadline,  // DEADLINE_EXCEEDED, HTTP 504
  kRejectedQueue,     // RESOURCE_EXHAUSTED, HTTP 429
  kFailed,            // any other status, or a broken connection
  kLost,              // no answer when the drain time was over
};
inline constexpr size_t kOutcomes = 6;
std::string_view name(Outcome outcome);  // "on_time", "rejected_deadline", ...

Outcome outcome_of(const absl::Status& status, Duration latency, std::optional<Duration> slo);

// How the requests of one service, or of all of them, ended.
struct Account {
  std::array<uint64_t, kOutcomes> outcomes{};
  Histogram latency;                     // of answers, from the scheduled arrival
  Histogram rejection;                   // of deadline rejections, from when they were sent
  Histogram queueing, run;               // of explained answers
  std::optional<Duration> least_margin;  // of deadline rejections: rejection_margin()
  uint64_t explained = 0;
  double batches = 0;  // explained answers, each as its share of its batch
  uint64_t labelled = 0, correct = 0;
  // What failed and how often; kMostFailures kinds, the rest together as "other".
  std::map<std::string, uint64_t> failures;

  static constexpr size_t kMostFailures = 8;

  // took: of a deadline rejection since it was sent, else since it was to be sent.
  // correct: none where there is no label, or nothing to compare it with.
  void add(Outcome outcome, Duration took, const Answer& answer, std::optional<bool> correct);
  void merge(const Account& other);

  uint64_t operator[](Outcome outcome) const { return outcomes[static_cast<size_t>(outcome)]; }
  uint64_t offered() const;
  uint64_t answered() const { return (*this)[Outcome::kOnTime] + (*this)[Outcome::kLate]; }
  // Items in a batch, averaged over batches; 0 without explanations.
  double mean_batch() const;
  std::optional<double> accuracy() const;
};

}  // namespace fermata::load
