// What clients share: memory and background threads.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/byte_budget.h"
#include "cluster/wire/machine.h"
#include "grpc_service.grpc.pb.h"
#include "health.grpc.pb.h"
#include "reflection.grpc.pb.h"
#include "serve/net/background.h"
#include "serve/net/fair_turns.h"
#include "serve/net/pace.h"
#include "serve/scripted_engine.h"
#include "serve/server.h"

namespace fermata::serve {
namespace {

using ::testing::ElementsAre;

// Large messages that hold all that there is leave room for small ones.
TEST(ByteBudget, SmallHoldersHaveMoreThanLargeOnes) {
  constexpr uint64_t kAll = 16 * ByteBudget::kSmall;
  const auto budget = std::make_shared<ByteBudget>(kAll, nullptr, 2 * ByteBudget::kSmall);
  const auto connection = std::make_shared<ByteBudget>(kAll, budget);
  HeldBytes large(connection), small(connection);
  ASSERT_TRUE(large.grow_to(kAll));
  EXPECT_TRUE(budget->is_short());
  const auto other = std::make_shared<ByteBudget>(kAll, budget);
  HeldBytes first(other), second(other), third(other);
  EXPECT_TRUE(first.grow_to(ByteBudget::kSmall));
  EXPECT_FALSE(first.grow_to(ByteBudget::kSmall + 1));
  EXPECT_TRUE(second.grow_by(ByteBudget::kSmall));
  EXPECT_FALSE(third.grow_by(1));
  EXPECT_FALSE(small.grow_by(1));  // its connection's own share is used up
}

// The first connection's work does not stand before that of others that came later.
TEST(Background, ConnectionsTakeTurns) {
  Background background(1);
  std::promise<void> begun, go;
  std::vector<int> order;
  background.post([&] {
    begun.set_value();
    go.get_future().wait();
  });
  begun.get_future().wait();
  for (int i = 0; i < 3; ++i) background.post([&order] { order.push_back(1); }, {1, "", 1000});
  background.post([&order] { order.push_back(2); }, {2, "", 1000});
  background.post([&order] { order.push_back(3); }, {3, "", 10});
  go.set_value();
  background.finish();
  EXPECT_THAT(order, ElementsAre(3, 1, 2, 1, 1));
}

// However many connections of one have work.
TEST(Background, AddressesTakeTurns) {
  Background background(1);
  std::promise<void> begun, go;
  std::string order;
  background.post([&] {
    begun.set_value();
    go.get_future().wait();
  });
  begun.get_future().wait();
  const auto post = [&](char name, uint64_t connection, std::string address) {
    background.post([&order, name] { order.push_back(name); },
                    {connection, std::move(address), 1000});
  };
  for (uint64_t i = 1; i < 5; ++i) post(static_cast<char>('0' + i), i, "many");
  for (int i = 0; i < 2; ++i) post('1', 1, "many");
  for (int i = 0; i < 2; ++i) post('a', 9, "few");
  go.set_value();
  background.finish();
  EXPECT_EQ(order, "1a2a3411");
}

// It does not matter that the first of an address was small, nor that it has none for a while.
TEST(FairTurns, AnAddressPaysForWhatItHasHad) {
  struct Sizes {  // of one connection's works, and the next is another's
    std::vector<std::pair<uint64_t, uint64_t>> waiting;
    bool empty() const { return waiting.empty(); }
    uint64_t bytes() const { return waiting.front().first; }
    uint64_t posted() const { return waiting.front().second; }
    void push(uint64_t bytes, uint64_t posted) { waiting.emplace_back(bytes, posted); }
    uint64_t pop() {
      const uint64_t bytes = this->bytes();
      waiting.erase(waiting.begin());
      return bytes;
    }
  };
  struct OfAddress : FairTurns<uint64_t, Sizes> {};
  FairTurns<char, OfAddress> turns;
  uint64_t posted = 0;
  for (uint64_t i = 0; i < 4; ++i) turns.push('a', uint64_t{1}, uint64_t{1}, posted++);
  for (uint64_t i = 2; i < 6; ++i) turns.push('a', i, uint64_t{64}, posted++);
  uint64_t before = 0;  // that the others have had when one has its second
  turns.push('b', uint64_t{9}, uint64_t{10}, posted++);
  for (int served = 0; served < 2;) {
    const uint64_t bytes = turns.pop();
    if (bytes != 10) {
      before += bytes;
    } else if (++served == 1) {
      turns.push('b', uint64_t{9}, uint64_t{10}, posted++);
    }
  }
  EXPECT_LE(before, 20);
  while (!turns.empty()) turns.pop();
}

// However many have come before it, each with more.
TEST(Background, AConnectionWithLittleIsNext) {
  Background background(1);
  std::promise<void> begun, go, first_begun, go_on;
  std::vector<int> order;
  background.post([&] {
    begun.set_value();
    go.get_future().wait();
  });
  begun.get_future().wait();
  background.post(
      [&] {
        order.push_back(1);
        first_begun.set_value();
        go_on.get_future().wait();
      },
      {1, "", 1000});
  for (int i = 2; i < 5; ++i)
    background.post([&order, i] { order.push_back(i); }, {uint64_t(i), "", 1000});
  go.set_value();
  first_begun.get_future().wait();
  background.post([&order] { order.push_back(9); }, {9, "", 100});
  go_on.set_value();
  background.finish();
  EXPECT_THAT(order, ElementsAre(1, 9, 2, 3, 4));
}

// And so does what is not short leave one to what is.
TEST(Background, WhatIsNotShortLeavesAThreadToWhatIs) {
  Background background(3);
  std::promise<void> go, done;
  const std::shared_future<void> gone = go.get_future().share();
  for (uint64_t i = 1; i < 4; ++i) {
    background.post([gone] { gone.wait(); }, {i, "", Background::kLong - i % 2});
  }
  background.post([&done] { done.set_value(); }, {9, "", Background::kShort});
  done.get_future().wait();
  go.set_value();
}

TEST(Background, WhatIsLongLeavesAThreadToTheRest) {
  Background background(2);
  std::promise<void> begun, go, done;
  const std::shared_future<void> gone = go.get_future().share();
  background.post(
      [&] {
        begun.set_value();
        gone.wait();
      },
      {1, "", Background::kLong});
  background.post([gone] { gone.wait(); }, {2, "", Background::kLong});
  begun.get_future().wait();
  background.post([&done] { done.set_value(); }, {3, "", Background::kLong - 1});
  done.get_future().wait();
  go.set_value();
}

TEST(Background, WorkThatGoesOnStepByStepDoesNotNestWhereTheThreadsHaveEnded) {
  Background background(1);
  background.finish();
  int steps = 0, depth = 0, deepest = 0;
  std::function<void()> step = [&] {
    deepest = std::max(deepest, ++depth);
    if (++steps < 100) background.post(step);
    --depth;
  };
  background.post(step);
  EXPECT_EQ(steps, 100);
  EXPECT_EQ(deepest, 1);
}

TEST(Background, IsNotGoneBeforeWorkThatAnotherThreadRunsThereHasEnded) {
  std::promise<void> begun, go;
  std::atomic<bool> has_ended = false;
  std::optional<Background> background(std::in_place, 1);
  background->finish();
  std::thread another([&] {
    background->post([&] {
      begun.set_value();
      go.get_future().wait();
      has_ended = true;
    });
  });
  begun.get_future().wait();
  std::thread frees([&] { go.set_value(); });
  background.reset();
  EXPECT_TRUE(has_ended);
  frees.join();
  another.join();
}

TEST(Pace, CountsTheLastSecondOrTwo) {
  const Pace::Moment start{};
  const auto at = [start](double s) {
    return start +
           std::chrono::duration_cast<Pace::Moment::duration>(std::chrono::duration<double>(s));
  };
  Pace pace;
  pace.start(at(0));
  pace.add(999'999, at(0.5));
  EXPECT_EQ(pace.time_for(1'000'000, at(0.9)).count(), 0);  // too early to say
  EXPECT_NEAR(pace.time_for(1'000'000, at(1)).count(), 1, 1e-3);
  for (int i = 0; i < 30; ++i) pace.add(8, at(1 + i * 0.3));
  EXPECT_GT(pace.time_for(1'000'000, at(10)).count(), 10'000);
}

TEST(Client, AnIpv6AddressIsItsNetwork) {
  const auto of = [](const char* text) {
    return cluster::machine_of({boost::asio::ip::make_address(text), 1});
  };
  EXPECT_EQ(of("10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(of("::ffff:10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(of("::1"), "::1");
}

// A server with memory for six streams and one that watches its health.
class StreamsTest : public ::testing::Test {
 protected:
  StreamsTest() {
    ListenOptions options;
    options.http = options.grpc = options.metrics = 0;
    options.memory_mb = 1;
    server_ = *Server::start(options, std::make_unique<ScriptedEngine>());
    channel_ = grpc::CreateChannel(fmt::format("127.0.0.1:{}", server_->ports().grpc),
                                   grpc::InsecureChannelCredentials());
  }
  template <class Request, class Response>
  static bool answers(grpc::ClientReaderWriter<Request, Response>& stream, const Request& request) {
    Response response;
    return stream.Write(request) && stream.Read(&response);
  }

  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Of streams that have only been opened one ends for each that finds no room, whatever they are: an
// address has room for three.
TEST_F(StreamsTest, OneOfWhichNothingHasComeGivesWayToTheNext) {
  using Protocol = inference::GRPCInferenceService;
  using Reflection = grpc::reflection::v1alpha::ServerReflection;
  const auto protocol = Protocol::NewStub(channel_);
  const auto reflection = Reflection::NewStub(channel_);
  inference::ModelInferRequest unreadable;
  grpc::reflection::v1alpha::ServerReflectionRequest list;
  list.set_list_services("");
  constexpr int kOfEach = 3;
  grpc::ClientContext used, contexts[2 * kOfEach];
  const auto first = protocol->ModelStreamInfer(&used);
  ASSERT_TRUE(answers(*first, unreadable));
  std::vector<decltype(protocol->ModelStreamInfer(&used))> streams;
  std::vector<decltype(reflection->ServerReflectionInfo(&used))> others;
  for (int i = 0; i < kOfEach; ++i) {
    others.push_back(reflection->ServerReflectionInfo(&contexts[2 * i]));
    streams.push_back(protocol->ModelStreamInfer(&contexts[2 * i + 1]));
  }
  std::vector<grpc::StatusCode> ended;
  for (int i = 0; i < kOfEach; ++i) {
    if (!answers(*streams[i], unreadable)) ended.push_back(streams[i]->Finish().error_code());
    if (!answers(*others[i], list)) ended.push_back(others[i]->Finish().error_code());
  }
  constexpr auto kNoRoom = grpc::StatusCode::RESOURCE_EXHAUSTED;
  EXPECT_THAT(ended, ElementsAre(kNoRoom, kNoRoom, kNoRoom, kNoRoom));
  EXPECT_TRUE(answers(*first, unreadable));
  used.TryCancel();
  for (grpc::ClientContext& context : contexts) context.TryCancel();
}

TEST_F(StreamsTest, WhoWatchTheServersHealthHoldAPartOfTheMemory) {
  const auto health = grpc::health::v1::Health::NewStub(channel_);
  const grpc::health::v1::HealthCheckRequest all;
  grpc::health::v1::HealthCheckResponse response;
  grpc::ClientContext first_context, second_context;
  const auto first = health->Watch(&first_context, all);
  ASSERT_TRUE(first->Read(&response));
  const auto second = health->Watch(&second_context, all);
  EXPECT_FALSE(second->Read(&response));
  EXPECT_EQ(second->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  first_context.TryCancel();
  for (bool told = false; !told;) {
    grpc::ClientContext context;
    const auto next = health->Watch(&context, all);
    told = next->Read(&response);
    context.TryCancel();
  }
}

}  // namespace
}  // namespace fermata::serve
