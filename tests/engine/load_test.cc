// The engine under concurrent load on emulated workers: every request ends exactly once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/engine.h"
#include "engine/fixture.h"
#include "policy/rules.h"

namespace fermata::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

InferRequest emulated(const std::string& model, int64_t items = 1) {
  return {.service = model,
          .inputs = {floats("x", {items, 2}, std::vector<float>(static_cast<size_t>(items) * 2))}};
}

// With the scheduler on one thread, and on model threads besides a rank thread.
class Load : public ::testing::TestWithParam<uint32_t> {
 protected:
  static EngineOptions emulated_options(const TemporaryFolder& folder, uint32_t workers) {
    EngineOptions options = options_for(folder.path());
    options.policy = "eager";
    options.scheduler_threads = GetParam();
    options.workers.types[0].count = workers;
    options.workers.executor = ExecutorKind::kEmulated;
    return options;
  }
  static std::unique_ptr<Engine> emulated_engine(const TemporaryFolder& folder, uint32_t workers,
                                                 std::vector<ServiceOptions> services = {}) {
    EngineOptions options = emulated_options(folder, workers);
    options.services = std::move(services);
    auto engine = make_engine(std::move(options));
    FERMATA_CHECK(engine.ok());
    return *std::move(engine);
  }
};
INSTANTIATE_TEST_SUITE_P(SchedulerThreads, Load, ::testing::Values(0, 2));

uint64_t total(const ServiceStatistics& statistics) {
  uint64_t sum = 0;
  for (uint64_t count : statistics.outcomes) sum += count;
  return sum;
}

uint64_t count(const ServiceStatistics& statistics, Outcome outcome) {
  return statistics.outcomes[static_cast<size_t>(outcome)];
}

// Whatever rules the scheduler is told to follow meanwhile.
TEST_P(Load, EveryRequestEndsOnceAndIsCounted) {
  TemporaryFolder folder;
  write_emulated(folder, "quick", 8, 0.05, 0.1);
  write_emulated(folder, "slow", 4, 0.2, 1.0);
  const auto engine = emulated_engine(
      folder, 3,
      {{.name = "quick", .slo = Duration::millis(5), .queue_limit = 200}, {.name = "slow"}});
  constexpr int kThreads = 4, kEach = 1500;
  std::array<std::array<std::atomic<int>, kOutcomes>, 2> seen{};
  std::latch ended(kThreads * kEach);
  std::vector<std::thread> clients;
  for (int t = 0; t < kThreads; ++t) {
    clients.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const size_t model = i % 3 == 0 ? 1 : 0;
        InferRequest request = emulated(model == 0 ? "quick" : "slow", 1 + i % 11);
        request.arrival = engine->now();
        if (i % 5 == 0) request.timeout = Duration::micros(100 * (i % 50));
        const JobId job = engine->submit(std::move(request), [&, model](ReplyPart part) {
          ++seen[model][static_cast<size_t>(part.why.outcome)];
          ended.count_down();
        });
        if (i % 7 == t) engine->cancel(job);
        const auto rows = policy::policy_rows();
        if (i % 40 == 0) engine->set_rules(rows[static_cast<size_t>(i / 40) % rows.size()].rules);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  ended.wait();
  const EngineSnapshot snapshot = engine->snapshot();
  ASSERT_EQ(snapshot.services.size(), 2u);
  for (size_t model : {0, 1}) {
    const ServiceStatistics& statistics = snapshot.services[model];
    for (size_t i = 0; i < kOutcomes; ++i) {
      EXPECT_EQ(statistics.outcomes[i], static_cast<uint64_t>(seen[model][i].load()))
          << statistics.service << " " << name(static_cast<Outcome>(i));
    }
    EXPECT_EQ(total(statistics), kThreads * kEach * (model == 0 ? 2 : 1) / 3);
    EXPECT_EQ(statistics.success.count,
              count(statistics, Outcome::kOnTime) + count(statistics, Outcome::kLate));
    EXPECT_EQ(statistics.success.count + statistics.fail.count, total(statistics));
  }
}

// Dropping a part once looked at all others of its request, which took minutes.
TEST_P(Load, ARequestOfManyPartsIsDroppedAtOnce) {
  TemporaryFolder folder;
  write_emulated(folder, "m", 1, 1, 1);
  EngineOptions options = emulated_options(folder, 1);
  options.limits.request_parts = 60'000;
  const auto engine = *make_engine(std::move(options));
  InferRequest request = emulated("m", 60'000);
  request.timeout = Duration::millis(1);
  EXPECT_EQ(call(*engine, std::move(request)).status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(call(*engine, emulated("m")).status.ok());
  const ReplyPart more = call(*engine, emulated("m", 60'001));
  EXPECT_EQ(more.status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(more.why.outcome, Outcome::kInvalid);
}

TEST_P(Load, AFullQueueRefuses) {
  TemporaryFolder folder;
  write_emulated(folder, "m", 1, 1, 20);
  const auto engine = emulated_engine(folder, 1, {{.name = "m", .queue_limit = 2}});
  constexpr int kRequests = 10;
  std::latch ended(kRequests);
  std::atomic<int> refused{0};
  for (int i = 0; i < kRequests; ++i) {
    InferRequest request = emulated("m");
    request.arrival = engine->now();
    engine->submit(std::move(request), [&](ReplyPart part) {
      if (part.status.code() == absl::StatusCode::kResourceExhausted) {
        ++refused;
        EXPECT_THAT(std::string(part.status.message()), HasSubstr("queue of 'm' is full"));
      }
      ended.count_down();
    });
  }
  ended.wait();
  EXPECT_GE(refused, kRequests - 2 - kRequests / 2);
  EXPECT_EQ(engine->snapshot().services[0].pending, 0u);
}

TEST_P(Load, AModelsOwnQueueSizeRefuses) {
  TemporaryFolder folder;
  write_emulated(folder, "m", 1, 1, 20);
  std::ofstream(folder.path() / "m/config.pbtxt", std::ios::app)
      << "dynamic_batching { default_queue_policy { max_queue_size: 2 } }";
  const auto engine = emulated_engine(folder, 1);
  constexpr int kRequests = 10;
  std::latch ended(kRequests);
  std::atomic<int> refused{0};
  for (int i = 0; i < kRequests; ++i) {
    InferRequest request = emulated("m");
    request.arrival = engine->now();
    engine->submit(std::move(request), [&](ReplyPart part) {
      if (part.status.code() == absl::StatusCode::kResourceExhausted) {
        ++refused;
        EXPECT_THAT(std::string(part.status.message()), HasSubstr("2 requests wait"));
      }
      ended.count_down();
    });
  }
  ended.wait();
  EXPECT_GE(refused, 1);
}

TEST_P(Load, RequestsAndRepliesThatNobodyReadsAreBoundedByBytes) {
  TemporaryFolder folder;
  write_emulated(folder, "m", 1024, 0.001, 0.1);
  write_emulated(folder, "other", 1024, 0.001, 0.1);
  EngineOptions options = emulated_options(folder, 1);
  options.limits.held_bytes = 40'000;
  options.services = {{.name = "m", .held_bytes = 20'000}};
  const auto engine = *make_engine(std::move(options));
  const auto code = [&engine](const std::string& model, int64_t items) {
    return call(*engine, emulated(model, items)).status.code();
  };
  EXPECT_EQ(code("m", 2'501), absl::StatusCode::kOutOfRange);  // of 8 bytes each: it never fits
  EXPECT_EQ(code("other", 2'501), absl::StatusCode::kOk);
  {
    const ReplyPart unread = call(*engine, emulated("m", 1'500));  // 18,000 bytes of outputs
    ASSERT_TRUE(unread.status.ok());
    EXPECT_EQ(code("m", 500), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(code("other", 2'000), absl::StatusCode::kOk);
    EXPECT_EQ(code("other", 3'000), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(code("m", 500), absl::StatusCode::kOk);
}

TEST(HeldBytes, StringsCountWithWhatTheyTakeWhileTheyRun) {
  TemporaryFolder folder;
  folder.copy_model("identity-bytes", "m");
  EngineOptions options = options_for(folder.path());
  options.limits.held_bytes = 20'000;
  const auto engine = *make_engine(std::move(options));
  const auto ask = [&engine](size_t strings) {
    const std::vector<std::string> empty(strings);
    return call(*engine,
                {.service = "m", .inputs = {text("x", {1, static_cast<int64_t>(strings)}, empty)}})
        .status;
  };
  EXPECT_TRUE(ask(400).ok()) << ask(400);
  const absl::Status never = ask(600);  // 2,400 bytes on the wire
  EXPECT_EQ(never.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(never.message()),
              AllOf(HasSubstr("the inputs take 24000 bytes"), HasSubstr("may hold 20000")));
}

TEST_P(Load, ACancelledRequestIsWithdrawnAndAnsweredOnce) {
  TemporaryFolder folder;
  write_emulated(folder, "m", 1, 1, 400);
  const auto engine = emulated_engine(folder, 1);
  std::promise<ReplyPart> running, waiting;
  const auto submit = [&](std::promise<ReplyPart>& promise) {
    InferRequest request = emulated("m");
    request.arrival = engine->now();
    return engine->submit(std::move(request),
                          [&promise](ReplyPart part) { promise.set_value(std::move(part)); });
  };
  submit(running);
  const JobId second = submit(waiting);
  engine->cancel(second);
  EXPECT_EQ(waiting.get_future().get().status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(running.get_future().get().status.ok());
  engine->cancel(second);
  EXPECT_TRUE(call(*engine, emulated("m")).status.ok());
  EXPECT_EQ(engine->snapshot().services[0].execution_count, 2u);
}

TEST_P(Load, WhatWaitsIsRefusedAtTheEnd) {
  TemporaryFolder folder;
  write_emulated(folder, "m", 1, 1, 400);
  auto engine = emulated_engine(folder, 1);
  constexpr int kRequests = 5;
  std::array<absl::StatusCode, kRequests> codes{};
  std::latch ended(kRequests);
  for (int i = 0; i < kRequests; ++i) {
    InferRequest request = emulated("m");
    request.arrival = engine->now();
    engine->submit(std::move(request), [&, i](ReplyPart part) {
      codes[static_cast<size_t>(i)] = part.status.code();
      ended.count_down();
    });
  }
  engine.reset();
  EXPECT_TRUE(ended.try_wait());
  EXPECT_EQ(codes[kRequests - 1], absl::StatusCode::kUnavailable);
}

TEST_P(Load, ModelsComeAndGoWhileRequestsRun) {
  TemporaryFolder folder;
  write_emulated(folder, "m", 4, 0.1, 0.2);
  const auto engine = emulated_engine(folder, 2);
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0}, unavailable{0}, other{0};
  std::thread client([&] {
    while (!stop) {
      const absl::Status status = call(*engine, emulated("m")).status;
      ++(status.ok()                                       ? answered
         : status.code() == absl::StatusCode::kUnavailable ? unavailable
                                                           : other);
    }
  });
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(engine->load("m").ok());
  EXPECT_EQ(unavailable, 0) << "a reload loses nothing";
  ASSERT_TRUE(engine->unload("m").ok());
  EXPECT_EQ(call(*engine, emulated("m")).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine->unload("m").code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(engine->load("m").ok());
  EXPECT_TRUE(call(*engine, emulated("m")).status.ok());
  while (answered == 0) std::this_thread::yield();  // the client may not have run yet
  stop = true;
  client.join();
  EXPECT_EQ(other, 0);
}

TEST_P(Load, SeveralServicesShareAModel) {
  TemporaryFolder folder;
  write_emulated(folder, "m", 4, 0.1, 0.2);
  const auto engine =
      emulated_engine(folder, 1,
                      {{.name = "urgent", .model = "m", .slo = Duration::seconds(100)},
                       {.name = "relaxed", .model = "m"}});
  EXPECT_TRUE(call(*engine, emulated("urgent")).status.ok());
  const ReplyPart reply = call(*engine, emulated("relaxed"));
  EXPECT_TRUE(reply.status.ok());
  EXPECT_EQ(reply.model, "relaxed");
  EXPECT_EQ(reply.why.variant, "m");
  EXPECT_TRUE(reply.why.remaining.is_infinite());
  EXPECT_TRUE(call(*engine, emulated("m")).status.ok());
}

TEST_P(Load, AnEmulatedModelNeedsAProfile) {
  TemporaryFolder folder;
  write_emulated(folder, "m", 4, 0.1, 0.2);
  std::filesystem::remove(folder.path() / "m" / "profile.json");
  const auto engine = emulated_engine(folder, 1);
  EXPECT_THAT(engine->index().at(0).reason, HasSubstr("profile.json"));
  EXPECT_EQ(call(*engine, emulated("m")).status.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace fermata::engine
