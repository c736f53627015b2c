#include "serve/config/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "serve/config/reach.h"

namespace fermata::serve {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(std::string_view text) {
  const absl::StatusOr<Config> config = parse_config(text, "/srv");
  EXPECT_FALSE(config.ok()) << text;
  return config.ok() ? "" : std::string(message(config.status()));
}

TEST(Config, OnlyTheModelsAreRequired) {
  const absl::StatusOr<Config> config = parse_config("models: repository", "/srv");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->engine.repository, "/srv/repository");
  EXPECT_EQ(config->engine.policy, "fermata");
  EXPECT_EQ(config->listen.http, 8000);
  EXPECT_EQ(config->listen.grpc, 8001);
  EXPECT_EQ(config->listen.metrics, 8002);
  EXPECT_TRUE(config->engine.services.empty());
}

TEST(Config, TheRecorderIsBoundedOrOff) {
  const auto usual = parse_config("models: m", "/srv");
  EXPECT_TRUE(usual->recorder.on);
  EXPECT_EQ(usual->recorder.memory_mb, 64);
  const auto own = parse_config("models: m\nrecorder: {seconds: 20, memory_mb: 9}", "/srv");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->recorder.keep, Duration::seconds(20));
  EXPECT_EQ(own->recorder.memory_mb, 9);
  EXPECT_EQ(usual->engine.workers.batch_bytes, uint64_t{64} << 20);
  EXPECT_EQ(
      parse_config("models: m\nlisten: {memory_mb: 1600}", "/srv")->engine.workers.batch_bytes,
      uint64_t{100} << 20);
  EXPECT_FALSE(parse_config("models: m\nrecorder: off", "/srv")->recorder.on);
  EXPECT_THAT(error_of("models: m\nrecorder: on"), HasSubstr("$.recorder"));
  EXPECT_THAT(error_of("models: m\nrecorder: {memory_mb: 1}"), HasSubstr("$.recorder.memory_mb"));
}

TEST(Config, ReadsEveryField) {
  const absl::StatusOr<Config> config = parse_config(R"(
models: /models
listen: {host: 0.0.0.0, public: true, http: 0, grpc: 1, metrics: 2, threads: 3, max_request_mb: 4}
scheduler: deferred
scheduler_window_ms: 20
scheduler_data_aware: false
scheduler_tau: 3
scheduler_max_group: 20
scheduler_delta: 0.02
workers: {count: 5, executor: emulated, provider: cuda, threads: 6, memory_mb: 11000, run_limit_s: 1.5}
placement: {subclusters: 2, epoch_s: 1.5, max_change_cost: 6, max_rate_rps: 7e4, weight: 0.5, min_gain: 0}
latency_quantile: 0.75
limits: {request_parts: 77, held_mb: 5}
shared_memory: {prefix: /mine-, regions: 3, mb: 2}
default_max_batch: 7
log_level: debug
services:
  digits: {model: digits-cnn, slo_ms: 2.5, queue_limit: 8, max_batch: 9, held_mb: 7}
  plain: {}
)",
                                                     "/srv");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->engine.repository, "/models");
  EXPECT_EQ(config->listen.host, "0.0.0.0");
  EXPECT_FALSE(serves_admin(config->listen));
  EXPECT_EQ(config->listen.http, 0);
  EXPECT_EQ(config->listen.grpc, 1);
  EXPECT_EQ(config->listen.metrics, 2);
  EXPECT_EQ(config->listen.threads, 3u);
  EXPECT_EQ(config->listen.max_request_mb, 4u);
  EXPECT_EQ(config->log_level, "debug");
  const engine::EngineOptions& engine = config->engine;
  EXPECT_EQ(engine.policy, "deferred");
  EXPECT_EQ(engine.groups.window, Duration::millis(20));
  EXPECT_EQ(engine.groups.data_aware, false);
  EXPECT_EQ(engine.groups.short_circuit, std::nullopt);
  EXPECT_EQ(engine.groups.tau, 3u);
  EXPECT_EQ(engine.groups.max_group, 20u);
  EXPECT_EQ(engine.groups.delta, 0.02);
  EXPECT_EQ(engine.workers.types[0].count, 5u);
  EXPECT_EQ(engine.workers.executor, engine::ExecutorKind::kEmulated);
  EXPECT_EQ(engine.workers.types[0].provider, "cuda");
  EXPECT_EQ(engine.workers.types[0].threads, 6u);
  EXPECT_EQ(engine.workers.types[0].memory_mb, 11000);
  EXPECT_EQ(engine.placement.subclusters, 2u);
  EXPECT_EQ(engine.placement.epoch, Duration::millis(1500));
  EXPECT_EQ(engine.placement.max_change_cost, 6);
  EXPECT_EQ(engine.placement.max_rate_rps, 7e4);
  EXPECT_EQ(engine.placement.weight, 0.5);
  EXPECT_EQ(engine.placement.min_gain, 0);
  EXPECT_EQ(engine.latency_quantile, 0.75);
  EXPECT_EQ(engine.default_max_batch, 7u);
  EXPECT_EQ(engine.limits.request_parts, 77u);
  EXPECT_EQ(engine.limits.held_bytes, 5u << 20);
  EXPECT_EQ(config->listen.shared_memory.prefix, "/mine-");
  EXPECT_EQ(config->listen.shared_memory.regions, 3u);
  EXPECT_EQ(config->listen.shared_memory.bytes, 2u << 20);
  EXPECT_EQ(engine.workers.run_limit, Duration::millis(1500));
  ASSERT_EQ(engine.services.size(), 2u);
  EXPECT_EQ(engine.services[0].model, "digits-cnn");
  EXPECT_EQ(engine.services[0].slo, Duration::micros(2500));
  EXPECT_EQ(engine.services[0].queue_limit, 8u);
  EXPECT_EQ(engine.services[0].max_batch, 9u);
  EXPECT_EQ(engine.services[0].held_bytes, 7u << 20);
  EXPECT_EQ(engine.services[1].model, "plain");
  EXPECT_FALSE(engine.services[1].slo.has_value());
}

TEST(Config, PriorsAreWordsOrWeights) {
  const auto variants = [](std::string_view prior) {
    const auto config = parse_config(
        fmt::format("models: m\nservices: {{s: {{kind: variants, variants: [a], prior: {}}}}}",
                    prior),
        "");
    EXPECT_TRUE(config.ok()) << config.status();
    return *config->engine.services[0].variants;
  };
  EXPECT_EQ(variants("uninformative").prior_requests, 0);
  EXPECT_EQ(variants("weak").prior_requests, 1);
  EXPECT_EQ(variants("{strong: 40}").prior_requests, 40);
  EXPECT_EQ(variants("[2, 1]").prior, std::vector<double>({2, 1}));
}

TEST(Config, ModelsRunInProcessesUnlessTheyUseDevices) {
  const auto isolation = [](const std::string& workers) {
    const auto config = parse_config("models: m\n" + workers, "");
    EXPECT_TRUE(config.ok()) << config.status();
    return config->engine.workers.isolation;
  };
  EXPECT_EQ(isolation(""), engine::Isolation::kProcess);
  EXPECT_EQ(isolation("workers: {count: 2}"), engine::Isolation::kProcess);
  EXPECT_EQ(isolation("workers: {isolation: thread}"), engine::Isolation::kThread);
  EXPECT_EQ(isolation("workers: {provider: cuda}"), engine::Isolation::kThread);
  EXPECT_EQ(isolation("workers: {provider: cuda, isolation: process}"),
            engine::Isolation::kProcess);
}

TEST(Config, WorkersMayBeUnlike) {
  const auto config = parse_config(
      "models: m\nworkers: {executor: emulated, types: [{name: gpu, provider: cuda, memory_mb: 9}, "
      "{name: cpu, count: 3, threads: 2}]}",
      "");
  ASSERT_TRUE(config.ok()) << config.status();
  const engine::WorkerOptions& workers = config->engine.workers;
  EXPECT_EQ(workers.executor, engine::ExecutorKind::kEmulated);
  ASSERT_EQ(workers.types.size(), 2u);
  EXPECT_EQ(workers.types[0].name, "gpu");
  EXPECT_EQ(workers.types[0].provider, "cuda");
  EXPECT_EQ(workers.types[1].threads, 2u);
  EXPECT_EQ(workers.count(), 4u);
  EXPECT_EQ(workers.least_memory_mb(), 9);
  const auto error = [](const std::string& types) {
    return error_of("models: m\nworkers: {types: " + types + "}");
  };
  EXPECT_THAT(error("[]"), HasSubstr("$.workers.types: "));
  EXPECT_THAT(error("[{count: 2}]"), HasSubstr("$.workers.types[0].name: missing"));
  EXPECT_THAT(error("[{name: a}, {name: a}]"), HasSubstr("$.workers.types[1].name: \"a\""));
  EXPECT_THAT(error("[{name: ../a}]"), HasSubstr("$.workers.types[0].name: \"../a\""));
  EXPECT_THAT(error("[{name: a}], count: 2"), HasSubstr("$.workers.count"));
}

TEST(Config, NoServiceHasTheNameOfAnotherOnesStage) {
  const std::string a =
      "models: m\nservices:\n  a: {kind: pipeline, stages: [{name: s, variants: [x, y]}]}\n";
  EXPECT_THAT(error_of(a + "  a/s: {model: z}"),
              AllOf(HasSubstr("a/s"), HasSubstr("'a/s' counts the requests of 'a' to its 's'")));
  EXPECT_THAT(error_of(a + "  a/s/x: {model: z}"), HasSubstr("expected another name"));
  EXPECT_THAT(error_of("models: m\nservices:\n  b/c: {}\n  b: {kind: variants, variants: [x, "
                       "{service: c, accuracy: 0.9}]}"),
              HasSubstr("requests of 'b' to its 'c'"));
  EXPECT_TRUE(parse_config(a + "  a/t: {model: z}", "").ok());
}

// What loses least in bursts of the published loads, where no other's time is left to fall back on.
TEST(Config, DedicatedReplicasAreForecastByTheMovingMaximum) {
  const auto forecast = [](std::string_view adapter) {
    const auto config = parse_config(
        fmt::format("models: m\nservices:\n  p: {{kind: pipeline, stages: [{{name: s, model: x}}], "
                    "adapter: {{{}}}}}",
                    adapter),
        "");
    EXPECT_TRUE(config.ok()) << config.status();
    for (const engine::ServiceOptions& service : config->engine.services) {
      if (service.name == "p") return service.pipeline->adapter->forecast;
    }
    ADD_FAILURE() << "no service p";
    return engine::Forecast::kModel;
  };
  EXPECT_EQ(forecast("alpha: 1"), engine::Forecast::kSquareRoot);
  EXPECT_EQ(forecast("replicas: dedicated"), engine::Forecast::kMovingMaximum);
  EXPECT_EQ(forecast("replicas: dedicated, forecast: square-root"), engine::Forecast::kSquareRoot);
}

TEST(Config, NamesAreNotBlankAndHaveNoControlCharacters) {
  for (const char* name : {"' '", "\"x\\n\"", "\"nul\\0l\"", "\"\\x7f\""}) {
    EXPECT_THAT(error_of(fmt::format("models: m\nservices: {{{}: {{model: z}}}}", name)),
                HasSubstr("no control characters before it"));
    EXPECT_THAT(error_of(fmt::format("models: m\nservices: {{p: {{kind: pipeline, stages: "
                                     "[{{name: {}, model: z}}]}}}}",
                                     name)),
                AllOf(HasSubstr("stages[0].name"), HasSubstr("no control characters")));
  }
  EXPECT_TRUE(parse_config("models: m\nservices: {grün und blau: {model: z}}", "").ok());
}

TEST(Config, NoTwoFrontEndsHaveOnePort) {
  EXPECT_THAT(error_of("models: m\nlisten: {http: 9, grpc: 9}"),
              HasSubstr("$.listen.grpc: 9, expected ports of which no two are the same (http and "
                        "grpc are both 9)"));
  EXPECT_THAT(error_of("models: m\nlisten: {http: 8001}"),
              HasSubstr("$.listen.http: 8001, expected ports"));
  EXPECT_THAT(error_of("models: m\nlisten: {admin_port: 8000}"), HasSubstr("http and admin_port"));
  EXPECT_TRUE(parse_config("models: m\nlisten: {http: 0, grpc: 0, metrics: 0}", "").ok());
}

TEST(Config, ErrorsSayWhereWhatAndWhatWasExpected) {
  EXPECT_THAT(error_of("listen: {}"), HasSubstr("$.models"));
  EXPECT_THAT(error_of("models: m\nlisten: {http: 70000}"), HasSubstr("$.listen.http: 70000"));
  EXPECT_THAT(error_of("models: m\nworkers: {count: 0}"), HasSubstr("$.workers.count: 0"));
  const auto listen = parse_config(
      "models: m\nlisten: {max_request_mb: 8, memory_mb: 1024, arriving_mb: 9, streams_mb: 8, "
      "max_calls: 7}",
      "/srv");
  ASSERT_TRUE(listen.ok()) << listen.status();
  EXPECT_EQ(listen->listen.arriving_mb, 9);
  EXPECT_EQ(listen->listen.streams_mb, 8);
  EXPECT_EQ(listen->listen.max_calls, 7);
  EXPECT_THAT(error_of("models: m\nlisten: {streams_mb: 1025}"), HasSubstr("$.listen.streams_mb"));
  EXPECT_THAT(error_of("models: m\nlisten: {arriving_mb: 64}"),
              HasSubstr("$.listen.arriving_mb: 64, expected more than max_request_mb"));
  EXPECT_THAT(error_of("models: m\nworkers: {memory_mb: 0}"), HasSubstr("$.workers.memory_mb: 0"));
  EXPECT_THAT(error_of("models: m\nplacement: {weight: 1}"), HasSubstr("$.placement: "));
  const std::string short_memory = "models: m\nworkers: {count: 2, memory_mb: 10}\nplacement: ";
  EXPECT_THAT(error_of(short_memory + "{subclusters: 3}"),
              HasSubstr("$.placement.subclusters: 3, expected a whole number from 1 to 2"));
  EXPECT_THAT(error_of(short_memory + "{epoch_s: 0}"), HasSubstr("$.placement.epoch_s: 0"));
  EXPECT_THAT(error_of(short_memory + "{max_change_cost: -1}"),
              HasSubstr("$.placement.max_change_cost: -1"));
  EXPECT_THAT(error_of(short_memory + "{max_change: 1}"), HasSubstr("$.placement.max_change"));
  EXPECT_THAT(error_of("models: m\nscheduler: fifo"), HasSubstr("fermata"));
  EXPECT_THAT(error_of("models: m\nservices: {a: {slo_ms: -1}}"),
              HasSubstr("$.services.a.slo_ms: -1"));
  EXPECT_THAT(error_of("models: m\nservices: {a: {slo_ms: 1e300}}"),
              HasSubstr("$.services.a.slo_ms: 1e+300"));
  EXPECT_THAT(error_of("models: m\nservice: {}"), HasSubstr("$.service"));
  EXPECT_THAT(error_of("models: m\nmodels: n"), HasSubstr("models"));
  EXPECT_THAT(error_of("models: [unclosed"), HasSubstr("line"));
  EXPECT_THAT(error_of(""), HasSubstr("$"));
}

TEST(Config, LimitsOfStreamServices) {
  const std::string service =
      "models: m\nservices: {a: {kind: stream, variants: [{service: s, input_size: 1, accuracy: "
      "1}]";
  const auto usual = parse_config(service + "}}", "/srv");
  ASSERT_TRUE(usual.ok()) << usual.status();
  EXPECT_EQ(usual->engine.services[0].stream->settings.new_clients_rps, 30);
  EXPECT_EQ(usual->engine.services[0].stream->settings.most_of_address, 128u);
  const auto own =
      parse_config(service + ", new_clients_rps: 5.5, max_clients: 8, max_rate_rps: 60}}", "/srv");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->engine.services[0].stream->settings.new_clients_rps, 5.5);
  EXPECT_EQ(own->engine.services[0].stream->settings.most_clients, 8u);
  EXPECT_EQ(own->engine.services[0].stream->settings.most_of_connection, 2u);
  EXPECT_EQ(own->engine.services[0].stream->settings.most_rate_rps, 60);
  EXPECT_THAT(error_of(service + ", new_clients_rps: -1}}"),
              HasSubstr("$.services.a.new_clients_rps: -1"));
}

TEST(Config, WorkersListenForOthersWhereTheyAreTold) {
  const std::string cluster =
      "models: m\nworkers: {types: [{name: far, count: 1, remote: true}]}\n"
      "cluster: {listen: 'localhost:0'";
  const auto none = parse_config(cluster + "}", "/srv");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->cluster.workers_host.empty());
  const auto some = parse_config(cluster + ", workers: '127.0.0.1:7420'}", "/srv");
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_EQ(some->cluster.workers_host, "127.0.0.1");
  EXPECT_EQ(some->cluster.workers_port, 7420);
  EXPECT_THAT(error_of(cluster + ", workers: far}"), HasSubstr("$.cluster.workers: \"far\""));
  EXPECT_THAT(error_of(cluster + ", workers: '10.0.0.1:7420'}"),
              HasSubstr("expected a loopback address, or cluster.tls too"));
}

TEST(Reach, OnlyAddressesOfThisMachineAreLoopback) {
  for (const char* host : {"localhost", "127.0.0.1", "127.255.3.4", "::1", "[::1]"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  for (const char* host : {"127.example.org", "127.0.0.1.example.org", "127.", "127.1", "128.0.0.1",
                           "0.0.0.0", "::", "::2", "localhost.example.org", ""}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

}  // namespace
}  // namespace fermata::serve
