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

class IgnoresAll final : public WebSocketHandler {
 public:
  void opened(std::shared_ptr<WebSocket> /*socket*/) override {}
  void message(std::shared_ptr<const WebMessage> /*message*/) override {}
  void closed() override {}
};

class HttpShardTest : public ::testing::Test, public HttpHandler {
 protected:
  struct Ends {
    Tcp::socket client;
    std::shared_ptr<HttpConnection> server;
  };

  HttpShardTest() {
    options_.budget = std::make_shared<ByteBudget>(kBodies * kBodyHolds + 500);
    first_.next = &second_;
    second_.addresses = first_.addresses;
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
    if (exchange.wants_web_socket()) return exchange.upgrade(std::make_shared<IgnoresAll>());
    if (holds_) return held_.push_back(std::move(exchange));
    HttpResponse response;
    response.body.assign(reply_bytes_, 'x');
    exchange.respond(std::move(response));
  }
  void opened(uint64_t) override {}
  void closed(uint64_t) override {}

  // A connection from an address of this machine.
  Ends connect(HttpShard& shard, uint8_t from = 1) {
    Tcp::acceptor acceptor(shard.io, {boost::asio::ip::address_v4::loopback(), 0});
    Tcp::socket client(shard.io, {boost::asio::ip::address_v4({127, 0, 0, from}), 0});
    Tcp::socket server(shard.io);
    client.connect(acceptor.local_endpoint());
    acceptor.accept(server);
    return {std::move(client), std::make_shared<HttpConnection>(std::move(server), shard)};
  }
  // A request of which so much has been sent.
  Ends begin(HttpShard& shard, size_t body, size_t sent, uint8_t from = 1) {
    Ends ends = connect(shard, from);
    ends.server->start();
    send(ends, body, sent);
    return ends;
  }
  static void send(Ends& ends, size_t body, size_t sent) {
    const std::string head =
        "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body) + "\r\n\r\n";
    boost::asio::write(ends.client, boost::asio::buffer(head + std::string(sent, 'x')));
  }
  // One that has been served and is idle.
  Ends serve(HttpShard& shard, uint8_t from = 1) {
    Ends ends = begin(shard, 0, 0, from);
    const auto is_served = [&] {
      const InTheWay how = ends.server->in_the_way(now()).how;
      return how == InTheWay::kIdle || how == InTheWay::kQuiet;
    };
    while (!is_served()) turn(shard);
    return ends;
  }
  static bool is_open(HttpShard& shard, const Ends& ends) {
    return std::find(shard.open.begin(), shard.open.end(), ends.server) != shard.open.end();
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
  bool holds_ = false;  // what is asked, without a reply
  std::vector<HttpExchange> held_;
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
  EXPECT_FALSE(second_.evict(nullptr, now()));
  EXPECT_TRUE(second_.evict(nullptr, now() + std::chrono::minutes(1)));
  EXPECT_TRUE(second_.open.empty());
}

TEST_F(HttpShardTest, WhoHasHadTheLastReplyGivesWayFirst) {
  options_.budget = nullptr;
  Ends over = serve(second_), asks_nothing = connect(second_);
  asks_nothing.server->start();
  boost::asio::write(over.client,
                     boost::asio::buffer(std::string("GET /x HTTP/1.0\r\nHost: x\r\n\r\n")));
  while (over.server->in_the_way(now()).how != InTheWay::kOver) turn(second_);
  EXPECT_TRUE(second_.evict(nullptr, now() + std::chrono::seconds(1)));
  EXPECT_FALSE(is_open(second_, over));
  EXPECT_TRUE(is_open(second_, asks_nothing));
}

// Who has been served comes again, and is closed after those that were not.
TEST_F(HttpShardTest, BodiesThatDoNotEndGiveWayBeforeWhoWasServed) {
  options_.budget = nullptr;
  Ends served = serve(second_), uploads = begin(second_, kBody, kBody / 2);
  Ends asks_nothing = connect(second_), newcomer = connect(second_);
  asks_nothing.server->start();
  while (uploads.server->slowness(now() + std::chrono::hours(1)) == 0) turn(second_);
  EXPECT_TRUE(second_.evict(newcomer.server.get(), now()));
  EXPECT_FALSE(is_open(second_, asks_nothing));
  EXPECT_TRUE(second_.evict(newcomer.server.get(), now() + std::chrono::seconds(5)));
  EXPECT_FALSE(is_open(second_, uploads));
  EXPECT_TRUE(second_.evict(newcomer.server.get(), now()));
  EXPECT_FALSE(is_open(second_, served));
}

TEST_F(HttpShardTest, ANewcomerTakesThePlaceOfNobodyWhoseAddressHasFewer) {
  Ends few = serve(second_, 2);
  std::vector<Ends> many;
  for (int i = 0; i < 2; ++i) many.push_back(serve(second_, 3));
  Ends another = connect(second_, 3), waits = connect(second_, 3), third = connect(second_, 4);
  EXPECT_TRUE(second_.evict(another.server.get(), now()));
  EXPECT_TRUE(is_open(second_, few));
  EXPECT_FALSE(is_open(second_, many[0]));
  EXPECT_TRUE(second_.evict(another.server.get(), now()));
  EXPECT_FALSE(second_.evict(another.server.get(), now()));
  EXPECT_FALSE(second_.evict(third.server.get(), now()));
  EXPECT_TRUE(second_.evict(third.server.get(), now() + std::chrono::seconds(1)));
  EXPECT_FALSE(is_open(second_, few));
}

TEST_F(HttpShardTest, ABusyOneGivesWayOnlyToAnAddressThatHasFewer) {
  holds_ = true;
  std::vector<Ends> busy;
  for (int i = 0; i < 3; ++i) busy.push_back(begin(second_, 0, 0, 2));
  while (held_.size() < 3) turn(second_);
  Ends same = connect(second_, 2);
  EXPECT_FALSE(second_.evict(nullptr, now()));
  EXPECT_FALSE(second_.evict(same.server.get(), now()));
  holds_ = false;
  Ends idle = serve(second_, 3), another = connect(second_, 3);
  EXPECT_TRUE(second_.evict(another.server.get(), now()));
  EXPECT_TRUE(is_open(second_, idle));
  EXPECT_FALSE(is_open(second_, busy[0]));
  EXPECT_TRUE(is_open(second_, busy[1]));
}

TEST_F(HttpShardTest, TheLastPlacesAreLeftToAddressesThatHaveFew) {
  options_.max_connections = 32;  // the first shard has 20 of them, of another address
  std::vector<Ends> busy;
  holds_ = true;
  for (int i = 0; i < 10; ++i) busy.push_back(begin(second_, 0, 0, 2));
  while (held_.size() < 10) turn(second_);
  Ends another = connect(second_, 2), few = connect(second_, 3);
  EXPECT_FALSE(second_.has_room_for(*another.server));
  another.server->turn_away();
  EXPECT_THAT(received(another), StartsWith("HTTP/1.1 503"));
  EXPECT_TRUE(second_.has_room_for(*few.server));
}

// However long its client was silent before, it has as long as others to send the rest.
TEST_F(HttpShardTest, AWebSocketIsInUseFromWhereAMessageBegins) {
  options_.budget = std::make_shared<ByteBudget>(1 << 20);
  Ends ends = connect(second_);
  ends.server->start();
  boost::asio::write(ends.client, boost::asio::buffer(std::string(
                                      "GET /x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                                      "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                      "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")));
  std::string reply;
  while (reply.empty()) {
    turn(second_);
    reply = received(ends);
  }
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 101"));
  EXPECT_EQ(ends.server->in_the_way(now()).how, InTheWay::kIdle);
  const auto before = now();
  // Six bytes of a masked text of 100.
  boost::asio::write(ends.client, boost::asio::buffer(std::string("\x81\xe4\1\2\3\4half a", 12)));
  while (ends.server->in_the_way(now()).how == InTheWay::kIdle) turn(second_);
  EXPECT_EQ(ends.server->in_the_way(now()).how, InTheWay::kBusy);
  const auto used = ends.server->in_the_way(now()).used;
  EXPECT_GE(used, before);
  EXPECT_EQ(ends.server->in_the_way(used + HttpShard::kSlow).how, InTheWay::kBusy);
  EXPECT_EQ(ends.server->in_the_way(used + 2 * HttpShard::kSlow).how, InTheWay::kSlow);
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
