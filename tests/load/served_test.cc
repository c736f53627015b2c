#include <gtest/gtest.h>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/fixture.h"
#include "load/run.h"
#include "serve/server.h"

namespace fermata::load {
namespace {

// The generator and the server have to count the same.
class Served : public testing::TestWithParam<Protocol> {};

TEST_P(Served, BothSidesCountTheSameRequests) {
  const engine::TemporaryFolder folder;
  engine::write_emulated(folder, "quick", 16, 0.01, 0.1);
  engine::write_emulated(folder, "slow", 16, 0.1, 1);
  engine::EngineOptions options = engine::options_for(folder.path());
  options.workers.executor = engine::ExecutorKind::kEmulated;
  auto engine = engine::make_engine(options);
  ASSERT_TRUE(engine.ok()) << message(engine.status());
  auto server = serve::Server::start({.http = 0, .grpc = 0, .metrics = 0}, *std::move(engine));
  ASSERT_TRUE(server.ok()) << message(server.status());
  const serve::Ports ports = (*server)->ports();

  LoadSpec spec;
  spec.protocol = GetParam();
  spec.address =
      fmt::format("127.0.0.1:{}", GetParam() == Protocol::kHttp ? ports.http : ports.grpc);
  spec.services = {{.name = "quick", .rate_rps = 1000}, {.name = "slow", .rate_rps = 500}};
  spec.warmup = Duration();
  spec.duration = Duration::millis(200);
  spec.explain = true;
  ASSERT_TRUE(complete(spec).ok());
  const auto result = run_load(spec, [](double, std::string_view) {});
  ASSERT_TRUE(result.ok()) << message(result.status());

  uint64_t on_time = 0, explained = 0;
  for (const Account& account : result->services) {
    on_time += account[Outcome::kOnTime];
    explained += account.explained;
  }
  EXPECT_EQ(on_time, result->sent);
  EXPECT_EQ(explained, result->sent);
  uint64_t served = 0;
  for (const auto& service : (*server)->engine().snapshot().services) {
    served += service.outcomes[static_cast<size_t>(engine::Outcome::kOnTime)];
  }
  EXPECT_EQ(served, result->sent);
  (*server)->stop(Duration::seconds(5));
}

INSTANTIATE_TEST_SUITE_P(Protocols, Served, testing::Values(Protocol::kGrpc, Protocol::kHttp),
                         [](const auto& info) {
                           return info.param == Protocol::kHttp ? "Http" : "Grpc";
                         });

}  // namespace
}  // namespace fermata::load
