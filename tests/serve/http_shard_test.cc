// Shards whose threads are the test itself: what comes between two of their turns is its choice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/write.hpp>
#include <memory>
#include <string>
#include <vector>

#include "serve/http/http_connection.h"

namespace fermata::serve {
namespace {

using ::testing::IsEmpty;
using ::testing::StartsWith;
using Tcp = boost::asio::ip::tcp;

constexpr size_t kBodies = 20, kBody = 200, kBodyHolds = 1024 + kBody;

class HttpShardTest : public ::testing::Test, public HttpHandler {
 protected:
  struct Ends {
    Tcp::socket client;
    std::shared_ptr<HttpConnection> server;
  };

  HttpShardTest() {
    options_.budget = std::make_shared<ByteBudget>(kBodies * kBodyHolds + 500);
    first_.next = &second_;
    second_.next = &first_;
    while (stalled_.size() < kBodies) stalled_.push_back(begin(first_, kBody, kBody / 2));
    while (options_.budget->used() < kBodies * kBodyHolds) turn(first_);
  }
  ~HttpShardTest() override {
    for (HttpShard* shard : {&first_, &second_}) {
      shard->end();
      turn(*shard);
    }
  }
  void request(HttpExchange exchange) override {
    ++requests_;
    HttpResponse response;
    response.body.assign(reply_bytes_, 'x');
    exchange.respond(std::move(response));
  }
  void opened(uint64_t) override {}
  void closed(uint64_t) override {}

  // A request of which half has been sent.
  Ends begin(HttpShard& shard, size_t body, size_t sent) {
    Tcp::acceptor acceptor(shard.io, {boost::asio::ip::address_v4::loopback(), 0});
    Tcp::socket client(shard.io), server(shard.io);
    client.connect(acceptor.local_endpoint());
    acceptor.accept(server);
    auto connection = std::make_shared<HttpConnection>(std::move(server), shard);
    connection->start();
    const std::string head =
        "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body) + "\r\n\r\n";
    boost::asio::write(client, boost::asio::buffer(head + std::string(sent, 'x')));
    return {std::move(client), std::move(connection)};
  }
  // One for which there is no memory: it is asked for in the other shard.
  Ends begin_waiting(size_t body, size_t sent) {
    Ends ends = begin(second_, body, sent);
    while (turn(second_) == 0) {
    }
    return ends;
  }
  static size_t turn(HttpShard& shard) {
    shard.io.restart();
    return shard.io.poll();
  }
  void turn_both() {
    turn(first_);
    turn(second_);
  }
  static std::string received(Ends& ends) {
    boost::system::error_code failed;
    std::string text(4096, '\0');
    ends.client.non_blocking(true);
    text.resize(ends.client.read_some(boost::asio::buffer(text), failed));
    return text;
  }
  static HttpConnection::Moment now() { return std::chrono::steady_clock::now(); }

  HttpOptions options_;
  std::atomic<bool> draining_ = false;
  HttpShard first_{options_, *this, draining_}, second_{options_, *this, draining_};
  std::vector<Ends> stalled_;
  int requests_ = 0;
  size_t reply_bytes_ = 0;
};

TEST_F(HttpShardTest, ABodyThatWaitsForMemoryIsNoSlowOne) {
  Ends ends = begin_waiting(kBody, kBody);
  const auto much_later = now() + std::chrono::hours(1);
  EXPECT_FALSE(ends.server->overdue(much_later));
  EXPECT_EQ(ends.server->slowness(much_later), 0);
  stalled_.back().server->close();
  const auto before = now();
  while (requests_ == 0) turn_both();
  EXPECT_GE(ends.server->heard(), before);
  EXPECT_THAT(received(ends), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpShardTest, OneThatWasGivenUpWhileItWaitedDoesNotGoOn) {
  Ends ends = begin_waiting(kBody, kBody / 2);
  ends.server->give_up();
  for (int i = 0; i < 5; ++i) turn_both();
  EXPECT_THAT(received(ends), StartsWith("HTTP/1.1 408"));
  EXPECT_EQ(options_.budget->used(), kBodies * kBodyHolds);
  EXPECT_EQ(ends.server->slowness(now() + std::chrono::hours(1)), 0);
  EXPECT_THAT(received(ends), IsEmpty());
}

TEST_F(HttpShardTest, OneThatSendsOnAndOnIsGivenUpWhileTheServerStops) {
  options_.arrival_grace = Duration::seconds(60);
  Ends& ends = stalled_.front();
  draining_ = true;
  first_.drain();
  const auto stopped = now();
  EXPECT_FALSE(ends.server->overdue(stopped));
  boost::asio::write(ends.client, boost::asio::buffer("x", 1));
  while (ends.server->heard() < stopped) turn(first_);
  EXPECT_TRUE(ends.server->overdue(now() + std::chrono::seconds(60)));
  ends.server->give_up();
  while (turn(first_) > 0) {
  }
  EXPECT_THAT(received(ends), StartsWith("HTTP/1.1 503"));
}

TEST_F(HttpShardTest, OneThatDoesNotReadItsReplyGivesWayToANewOne) {
  options_.budget = nullptr;
  reply_bytes_ = size_t{64} << 20;  // more than lies between two sockets
  Ends ends = begin(second_, 0, 0);
  while (requests_ == 0) turn(second_);
  EXPECT_FALSE(second_.evict(now()));
  EXPECT_TRUE(second_.evict(now() + std::chrono::minutes(1)));
  EXPECT_TRUE(second_.open.empty());
}

TEST_F(HttpShardTest, AsManyStalledBodiesOfAnotherShardEndAsOneNeeds) {
  const auto all_stall = [&] {
    return std::all_of(stalled_.begin(), stalled_.end(),
                       [](const Ends& each) { return each.server->slowness(now()) > 0; });
  };
  while (!all_stall()) {
  }
  Ends ends = begin_waiting(5 * kBodyHolds, 5 * kBodyHolds);
  std::string reply;
  while (reply.empty()) {
    turn_both();
    reply = received(ends);
  }
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200"));
  const auto ended = [](Ends& each) { return !received(each).empty(); };
  EXPECT_EQ(std::count_if(stalled_.begin(), stalled_.end(), ended), 6);
}

}  // namespace
}  // namespace fermata::serve
