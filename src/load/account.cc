#include "load/account.h"

#include <numeric>

#include "base/status.h"
#include "load/rejection.h"

namespace fermata::load {
namespace {

constexpr std::array<std::string_view, kOutcomes> kNames = {
    "on_time", "late", "rejected_deadline", "rejected_queue", "failed", "lost"};

void count_failure(std::map<std::string, uint64_t>& failures, std::string what, uint64_t times) {
  if (!failures.contains(what) && failures.size() >= Account::kMostFailures) what = "other";
  failures[what] += times;
}

void keep_least(std::optional<Duration> value, std::optional<Duration>& least) {
  if (value && (!least || *value < *least)) least = value;
}

}  // namespace

std::string_view name(Outcome outcome) { return kNames[static_cast<size_t>(outcome)]; }

Outcome outcome_of(const absl::Status& status, Duration latency, std::optional<Duration> slo) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return !slo || latency <= *slo ? Outcome::kOnTime : Outcome::kLate;
    case absl::StatusCode::kDeadlineExceeded:
      return Outcome::kRejectedDeadline;
    case absl::StatusCode::kResourceExhausted:
      return Outcome::kRejectedQueue;
    default:
      return Outcome::kFailed;
  }
}

void Account::add(Outcome outcome, Duration took, const Answer& answer,
                  std::optional<bool> was_correct) {
  ++outcomes[static_cast<size_t>(outcome)];
  if (outcome == Outcome::kRejectedDeadline) {
    rejection.record(took);
    keep_least(rejection_margin(message(answer.status)), least_margin);
  }
  if (outcome == Outcome::kFailed) {
    count_failure(failures,
                  fmt::format("{}: {}", absl::StatusCodeToString(answer.status.code()),
                              message(answer.status)),
                  1);
  }
  if (outcome != Outcome::kOnTime && outcome != Outcome::kLate) return;
  latency.record(took);
  if (answer.why && answer.why->batch_items > 0) {
    ++explained;
    batches += 1.0 / answer.why->batch_items;
    queueing.record(answer.why->queueing);
    run.record(answer.why->run);
  }
  if (was_correct) {
    ++labelled;
    correct += *was_correct ? 1 : 0;
  }
}

void Account::merge(const Account& other) {
  for (size_t i = 0; i < kOutcomes; ++i) outcomes[i] += other.outcomes[i];
  latency.merge(other.latency);
  rejection.merge(other.rejection);
  keep_least(other.least_margin, least_margin);
  queueing.merge(other.queueing);
  run.merge(other.run);
  explained += other.explained;
  batches += other.batches;
  labelled += other.labelled;
  correct += other.correct;
  for (const auto& [what, times] : other.failures) count_failure(failures, what, times);
}

uint64_t Account::offered() const {
  return std::accumulate(outcomes.begin(), outcomes.end(), uint64_t{0});
}

double Account::mean_batch() const {
  return batches > 0 ? static_cast<double>(explained) / batches : 0;
}

std::optional<double> Account::accuracy() const {
  if (labelled == 0) return std::nullopt;
  return static_cast<double>(correct) / static_cast<double>(labelled);
}

}  // namespace fermata::load
