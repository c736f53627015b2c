#include "load/account.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "load/report.h"

namespace fermata::load {
namespace {

Answer explained(uint32_t batch_items) {
  return {.why = Why{batch_items, Duration::millis(1), Duration::millis(2)}};
}

TEST(OutcomeOf, StatusesAndTimesDecide) {
  const auto ms = [](int64_t n) { return Duration::millis(n); };
  EXPECT_EQ(outcome_of(absl::OkStatus(), ms(10), ms(10)), Outcome::kOnTime);
  EXPECT_EQ(outcome_of(absl::OkStatus(), ms(11), ms(10)), Outcome::kLate);
  EXPECT_EQ(outcome_of(absl::OkStatus(), ms(11), std::nullopt), Outcome::kOnTime);
  EXPECT_EQ(outcome_of(absl::DeadlineExceededError(""), ms(1), ms(10)), Outcome::kRejectedDeadline);
  EXPECT_EQ(outcome_of(absl::ResourceExhaustedError(""), ms(1), ms(10)), Outcome::kRejectedQueue);
  EXPECT_EQ(outcome_of(absl::UnavailableError(""), ms(1), ms(10)), Outcome::kFailed);
}

TEST(Account, BatchesAreAveragedOverBatchesNotRequests) {
  Account account;
  for (int i = 0; i < 3; ++i) account.add(Outcome::kOnTime, Duration::millis(5), explained(3), {});
  account.add(Outcome::kLate, Duration::millis(9), explained(1), {});
  EXPECT_DOUBLE_EQ(account.mean_batch(), 2);  // one batch of three, one of one
  EXPECT_EQ(account.answered(), 4);
}

TEST(Account, OnlyAnswersHaveLatencies) {
  Account account;
  const Answer rejection{.status = absl::DeadlineExceededError("no")};
  account.add(Outcome::kRejectedDeadline, Duration::millis(3), rejection, {});
  account.add(Outcome::kLost, Duration::seconds(10), {}, {});
  EXPECT_EQ(account.latency.count(), 0);
  EXPECT_EQ(account.rejection.count(), 1);
  EXPECT_EQ(account.offered(), 2);
}

TEST(Account, KeepsAFewKindsOfFailures) {
  Account account;
  for (int i = 0; i < 20; ++i) {
    const Answer failure{.status = absl::InternalError(std::to_string(i))};
    account.add(Outcome::kFailed, Duration(), failure, {});
  }
  EXPECT_EQ(account.failures.size(), Account::kMostFailures + 1);
  EXPECT_EQ(account.failures.at("other"), 20 - Account::kMostFailures);
}

TEST(Account, MergingAddsEverything) {
  Account a, b;
  a.add(Outcome::kOnTime, Duration::millis(1), explained(2), true);
  b.add(Outcome::kOnTime, Duration::millis(3), explained(2), false);
  b.add(Outcome::kFailed, Duration(), {.status = absl::InternalError("x")}, {});
  a.merge(b);
  EXPECT_EQ(a.offered(), 3);
  EXPECT_EQ(a.latency.max(), Duration::millis(3));
  EXPECT_DOUBLE_EQ(a.mean_batch(), 2);
  EXPECT_EQ(a.accuracy(), 0.5);
  EXPECT_EQ(a.failures.at("INTERNAL: x"), 1);
}

LoadSpec spec_of(std::vector<std::string> names) {
  LoadSpec spec;
  spec.address = "localhost:8001";
  spec.duration = Duration::seconds(2);
  for (std::string& name : names) spec.services.push_back({.name = name, .rate_rps = 1});
  return spec;
}

TEST(Report, TotalsAddUpAndUnknownsAreNull) {
  LoadResult result{.services = {Account(), Account()}};
  result.services[0].add(Outcome::kOnTime, Duration::millis(4), {}, {});
  result.services[1].add(Outcome::kRejectedQueue, Duration::millis(1), {}, {});
  const auto json = nlohmann::json::parse(report_json(spec_of({"a", "b"}), result));
  EXPECT_EQ(json["offered"], 2);
  EXPECT_EQ(json["on_time"], 1);
  EXPECT_EQ(json["rejected_queue"], 1);
  EXPECT_EQ(json["offered_rps"], 1.0);
  EXPECT_EQ(json["bad_rate"], 0.5);
  EXPECT_TRUE(json["mean_batch"].is_null());
  EXPECT_TRUE(json["accuracy"].is_null());
  EXPECT_EQ(json["services"][0]["name"], "a");
  EXPECT_TRUE(json["services"][1]["p99_ms"].is_null());
}

TEST(Report, TableHasARowForEachServiceAndOneForAll) {
  const LoadResult result{.services = {Account(), Account()}};
  const std::string table = report_table(spec_of({"digits", "voice"}), result);
  EXPECT_NE(table.find("digits"), std::string::npos);
  EXPECT_NE(table.find("voice"), std::string::npos);
  EXPECT_NE(table.find("\nall"), std::string::npos);
}

}  // namespace
}  // namespace fermata::load
