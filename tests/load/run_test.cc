#include "load/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/status.h"
#include "load/scripted_server.h"

namespace fermata::load {
namespace {

using Reply = ScriptedServer::Reply;
using testing::HasSubstr;

// Every behaviour over both protocols.
class Run : public testing::TestWithParam<Protocol> {
 protected:
  std::unique_ptr<ScriptedServer> serve(ScriptedServer::Script script) {
    return GetParam() == Protocol::kHttp ? scripted_http(std::move(script))
                                         : scripted_grpc(std::move(script));
  }
  // 20 requests to warm up with, then 100 that count.
  LoadSpec spec_for(const std::string& address) {
    LoadSpec spec;
    spec.protocol = GetParam();
    spec.address = address;
    spec.services.push_back({.name = "m", .rate_rps = 2000});
    spec.arrivals = simulate::UniformArrivals{};
    spec.warmup = Duration::millis(10);
    spec.duration = Duration::millis(50);
    return spec;
  }
  LoadResult run(LoadSpec spec) {
    EXPECT_TRUE(complete(spec).ok());
    auto result = run_load(spec, [](double, std::string_view) {});
    EXPECT_TRUE(result.ok()) << message(result.status());
    return result.ok() ? *std::move(result) : LoadResult{.services = {Account()}};
  }
};

TEST_P(Run, EveryRequestEndsOnceAndWarmUpDoesNotCount) {
  const auto server = serve([](uint64_t) { return Reply(); });
  const LoadResult result = run(spec_for(server->address()));
  EXPECT_EQ(result.sent, 120);
  EXPECT_EQ(server->received(), 120);
  const Account& account = result.services[0];
  EXPECT_EQ(account.offered(), 100);
  EXPECT_EQ(account[Outcome::kOnTime], 100);
  EXPECT_EQ(account.latency.count(), 100);
  EXPECT_EQ(result.lag.count(), 100);
}

TEST_P(Run, RefusalsAndFailuresAreToldApart) {
  const auto server = serve([](uint64_t before) -> std::optional<Reply> {
    switch (before % 4) {
      case 0:
        return Reply();
      case 1:
        return Reply{absl::DeadlineExceededError("budget 5 ms")};
      case 2:
        return Reply{absl::ResourceExhaustedError("queue is full")};
      default:
        return Reply{absl::InternalError("the model broke")};
    }
  });
  LoadSpec spec = spec_for(server->address());
  spec.warmup = Duration();
  const LoadResult result = run(spec);
  const Account& account = result.services[0];
  EXPECT_EQ(account[Outcome::kOnTime], 25);
  EXPECT_EQ(account[Outcome::kRejectedDeadline], 25);
  EXPECT_EQ(account.rejection.count(), 25);
  EXPECT_EQ(account[Outcome::kRejectedQueue], 25);
  EXPECT_EQ(account[Outcome::kFailed], 25);
  EXPECT_EQ(account.failures.at("INTERNAL: the model broke"), 25);
}

TEST_P(Run, SilentServersDoNotHoldTheLoadBack) {
  const auto server = serve(
      [](uint64_t before) { return before % 2 == 0 ? std::optional(Reply()) : std::nullopt; });
  LoadSpec spec = spec_for(server->address());
  spec.drain = Duration::millis(500);
  const LoadResult result = run(spec);
  EXPECT_EQ(server->received(), 120);
  EXPECT_EQ(result.services[0][Outcome::kLost], 50);
  EXPECT_EQ(result.services[0][Outcome::kOnTime], 50);
}

TEST_P(Run, LateAnswersAreLate) {
  const auto server = serve([](uint64_t) { return Reply(); });
  LoadSpec spec = spec_for(server->address());
  spec.services[0].slo = Duration::nanos(1);
  EXPECT_EQ(run(spec).services[0][Outcome::kLate], 100);
}

TEST_P(Run, LabelsAndExplanationsAreRead) {
  const std::string file = testing::TempDir() + "/labelled.jsonl";
  std::ofstream(file)
      << R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}],"label":3})"
      << "\n"
      << R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[[4,3,2,1]]}],"label":1})"
      << "\n";
  const auto server = serve([](uint64_t) { return Reply{.output = 3, .batch_items = 4}; });
  LoadSpec spec = spec_for(server->address());
  spec.services[0].inputs = file;
  spec.explain = true;
  const LoadResult result = run(spec);
  const Account& account = result.services[0];
  EXPECT_EQ(account.labelled, 100);
  EXPECT_EQ(account.correct, 50);
  EXPECT_EQ(account.explained, 100);
  EXPECT_DOUBLE_EQ(account.mean_batch(), 4);
  EXPECT_EQ(account.queueing.max(), Duration::micros(1500));
  EXPECT_EQ(account.run.max(), Duration::micros(2500));
}

TEST_P(Run, UnknownServicesAreNamed) {
  const auto server = serve([](uint64_t) { return Reply(); });
  LoadSpec spec = spec_for(server->address());
  spec.services[0].name = "nobody";
  ASSERT_TRUE(complete(spec).ok());
  const auto result = run_load(spec, [](double, std::string_view) {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message(result.status()), HasSubstr("nobody at 127.0.0.1"));
}

TEST_P(Run, NoServerIsUnavailable) {
  const std::string address = serve([](uint64_t) { return Reply(); })->address();
  LoadSpec spec = spec_for(address);
  ASSERT_TRUE(complete(spec).ok());
  const auto result = run_load(spec, [](double, std::string_view) {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
}

INSTANTIATE_TEST_SUITE_P(Protocols, Run, testing::Values(Protocol::kGrpc, Protocol::kHttp),
                         [](const auto& info) {
                           return info.param == Protocol::kHttp ? "Http" : "Grpc";
                         });

}  // namespace
}  // namespace fermata::load
