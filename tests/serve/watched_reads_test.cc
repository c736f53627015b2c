// Reads of sockets whose connections take turns, by a reader that does as gRPC does.
#include "serve/grpc/watched_reads.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/grpc/frame_reader.h"
#include "serve/grpc/read_turn.h"

namespace fermata::serve {
namespace {

using std::chrono::steady_clock;

std::string frame_of(FrameKind kind, uint8_t flags, const std::string& body) {
  return std::string{0, 0, char(body.size()), char(kind), char(flags), 0, 0, 0, 1} + body;
}

// A call, and so many messages of it.
std::string frames(size_t count) {
  const std::string message = {0, 0, 0, 0, 4, 't', 'e', 'x', 't'};
  std::string all =
      std::string(24, 'P') + frame_of(FrameKind::kHeaders, FrameHead::kEndHeaders, "head");
  for (size_t i = 0; i < count; ++i) all += frame_of(FrameKind::kData, 0, message);
  return all;
}

// A TCP connection, whose server end is watched, and edges of it are told.
class Connected {
 public:
  explicit Connected(std::shared_ptr<AddressAccount> account = nullptr, SocketEvents events = {}) {
    const int listening = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    socklen_t size = sizeof(at);
    client_ = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(bind(listening, address, size) | listen(listening, 1) |
                  getsockname(listening, address, &size) | connect(client_, address, size),
              0);
    server_ = accept4(listening, nullptr, nullptr, SOCK_NONBLOCK);
    close(listening);
    const int yes = 1;
    EXPECT_EQ(setsockopt(server_, SOL_TCP, TCP_INQ, &yes, sizeof(yes)), 0);
    waits_ = epoll_create1(0);
    epoll_event wanted{.events = EPOLLIN | EPOLLET, .data = {}};
    EXPECT_EQ(epoll_ctl(waits_, EPOLL_CTL_ADD, server_, &wanted), 0);
    EXPECT_TRUE(watch_reads(server_, std::move(account), std::move(events)).ok());
  }
  ~Connected() {
    close(server_);
    close(waits_);
    if (client_ >= 0) close(client_);
  }

  void write(const std::string& bytes) const {
    EXPECT_EQ(send(client_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  // What the server sends, in messages of so many bytes at most, all of which its client reads. In
  // how many pieces the system took it.
  size_t send_all(const std::string& bytes, size_t at_most) const {
    const int few = 1 << 16;
    EXPECT_EQ(setsockopt(server_, SOL_SOCKET, SO_SNDBUF, &few, sizeof(few)), 0);
    std::string taken(few, 0);
    size_t pieces = 0, sent = 0, read = 0;
    for (size_t end = 0; read < bytes.size();) {
      if (sent == end) end = std::min(sent + at_most, bytes.size());
      iovec left{const_cast<char*>(bytes.data()) + sent, end - sent};
      msghdr message{};
      message.msg_iov = &left;
      message.msg_iovlen = 1;
      const ssize_t more = sent < end ? sendmsg(server_, &message, MSG_DONTWAIT) : 0;
      if (more > 0) {
        sent += static_cast<size_t>(more);
        ++pieces;
        continue;
      }
      const ssize_t got = recv(client_, taken.data(), taken.size(), 0);
      EXPECT_GT(got, 0);
      if (got <= 0) break;
      read += static_cast<size_t>(got);
    }
    return pieces;
  }
  void close_client() { close(std::exchange(client_, -1)); }
  void reset_client() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    EXPECT_EQ(setsockopt(client_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    close_client();
  }
  // There is something: what was written, an end. Each edge once.
  bool is_told() const {
    constexpr int kLongMs = 10'000;
    epoll_event event{};
    return epoll_wait(waits_, &event, 1, kLongMs) == 1;
  }

  struct Read {
    size_t bytes = 0;
    bool at_end = false;
  };
  // As gRPC: until a read finds nothing, or the system says that there is nothing.
  Read read_on() const {
    Read all;
    for (bool is_left = true; is_left;) {
      std::string buffer(1 << 16, 0);
      std::array<char, CMSG_SPACE(sizeof(int))> said{};
      iovec piece{buffer.data(), buffer.size()};
      msghdr message{};
      message.msg_iov = &piece;
      message.msg_iovlen = 1;
      message.msg_control = said.data();
      message.msg_controllen = said.size();
      const ssize_t got = recvmsg(server_, &message, 0);
      if (got < 0 && errno == EAGAIN) {
        if (!std::exchange(again_, false)) break;
        continue;
      }
      if (got <= 0) {
        all.at_end = true;
        break;
      }
      again_ = true;
      all.bytes += static_cast<size_t>(got);
      const cmsghdr* const left = CMSG_FIRSTHDR(&message);
      int bytes = 1;
      if (left != nullptr) std::memcpy(&bytes, CMSG_DATA(left), sizeof(bytes));
      is_left = bytes > 0;
    }
    return all;
  }

 private:
  int client_ = -1, server_ = -1, waits_ = -1;
  mutable bool again_ = false;  // it delivers what it has, and then reads once more
};

constexpr size_t kMany = 10 * ReadTurn::kWork;

TEST(WatchedReads, GiveWayToOthersAndAreToldOfWhatIsLeft) {
  const Connected connected;
  const uint64_t floods = floods_ended();
  const std::string sent = frames(kMany);
  connected.write(sent);
  size_t most = 0, turns = 0;
  for (size_t bytes = 0; bytes < sent.size(); ++turns) {
    ASSERT_TRUE(connected.is_told()) << bytes;
    const size_t at_once = connected.read_on().bytes;
    most = std::max(most, at_once);
    bytes += at_once;
  }
  EXPECT_GE(turns, 5u);
  EXPECT_LT(most, sent.size() / 2);
  EXPECT_EQ(floods_ended(), floods);
}

// The edge of the end may be the one on which an earlier turn was read.
void reads_to_the_end(const Connected& connected, size_t sent) {
  size_t bytes = 0;
  for (bool at_end = false; !at_end;) {
    ASSERT_TRUE(connected.is_told()) << bytes << " of " << sent;
    const Connected::Read read = connected.read_on();
    bytes += read.bytes;
    at_end = read.at_end;
  }
  EXPECT_EQ(bytes, sent);
}

TEST(WatchedReads, SeeTheEndOfAConnectionThatWasReset) {
  Connected connected;
  const std::string sent = frames(kMany);
  connected.write(sent);
  connected.reset_client();
  reads_to_the_end(connected, sent.size());
}

TEST(WatchedReads, SeeTheEndOfAConnectionThatWasClosed) {
  Connected connected;
  const std::string sent = frames(kMany);
  connected.write(sent);
  connected.close_client();
  reads_to_the_end(connected, sent.size());
}

// A flood is its client's doing, though it is the server that ends the connection.
TEST(WatchedReads, CallsOfAFloodCostItsAddress) {
  const auto account = std::make_shared<AddressAccount>(100'000);
  const Connected connected(account);
  std::string heads(24, 'P');
  for (uint32_t call = 0; call <= FrameWatch::kSilentCalls; ++call) {
    const uint32_t stream = 2 * call + 1;
    std::string head = frame_of(FrameKind::kHeaders, FrameHead::kEndHeaders, "head");
    head[7] = static_cast<char>(stream >> 8);
    head[8] = static_cast<char>(stream);
    heads += head;
  }
  connected.write(heads);
  const uint64_t floods = floods_ended();
  while (floods_ended() == floods) {
    ASSERT_TRUE(connected.is_told());
    connected.read_on();
  }
  EXPECT_TRUE(account->is_crowded([] { return steady_clock::now(); }));
}

// A call with a message, as the first of a connection or after others.
std::string call_of(uint32_t number) {
  const auto on_its_stream = [number](std::string frame) {
    const uint32_t stream = 2 * number + 1;
    frame[7] = static_cast<char>(stream >> 8);
    frame[8] = static_cast<char>(stream);
    return frame;
  };
  const std::string message = {0, 0, 0, 0, 1, 'x'};
  return on_its_stream(frame_of(FrameKind::kHeaders, FrameHead::kEndHeaders, "head")) +
         on_its_stream(frame_of(FrameKind::kData, FrameHead::kEndStream, message));
}

// The system takes what the server sends a piece at a time, and is told the rest of it again.
TEST(WatchedReads, SeeWhatIsSentInPiecesOnce) {
  const auto account = std::make_shared<AddressAccount>(100'000);
  constexpr uint32_t kCalls = 1000;
  {
    Connected connected(account);
    std::string calls(24, 'P'), answers;
    for (uint32_t call = 0; call < kCalls; ++call) calls += call_of(call);
    connected.write(calls);
    for (size_t bytes = 0; bytes < calls.size();) {
      ASSERT_TRUE(connected.is_told());
      bytes += connected.read_on().bytes;
    }
    for (uint32_t call = 0; call < kCalls; ++call) {
      answers += std::string("\0\x40\0\0\0\0\0\0\0", 9) + std::string(0x4000, 'x');  // data
      std::string end = frame_of(FrameKind::kHeaders, FrameHead::kEndStream, "head");
      std::copy_n(call_of(call).begin() + 7, 2, end.begin() + 7);
      answers += end;
    }
    constexpr size_t kMessage = 1 << 20;
    EXPECT_GT(connected.send_all(answers, kMessage), answers.size() / kMessage + 1);
  }
  EXPECT_FALSE(account->is_crowded([] { return steady_clock::now(); }));
}

// Calls whose answers a client does not take are told of when the system takes no more, and when it
// does again.
TEST(WatchedReads, TellWhatIsHeldForAClientThatTakesNothing) {
  constexpr uint32_t kCalls = 2;
  uint64_t held = 0;
  bool has_held = false;
  SocketEvents events;
  events.unread = [&](uint64_t now) {
    held = now;
    has_held = has_held || now == kCalls * FrameWatch::kCallHolds;
  };
  const Connected connected(nullptr, std::move(events));
  std::string calls(24, 'P');
  for (uint32_t call = 0; call < kCalls; ++call) calls += call_of(call);
  connected.write(calls);
  ASSERT_TRUE(connected.is_told());
  connected.read_on();
  EXPECT_EQ(held, 0u);
  std::string answer;
  for (int i = 0; i < 64; ++i) {
    answer += std::string("\0\x40\0\0\0\0\0\0\1", 9) + std::string(0x4000, 'x');
  }
  connected.send_all(answer, answer.size());
  EXPECT_TRUE(has_held);
  EXPECT_EQ(held, 0u);
}

// A connection whose address has as many calls as it may, and one more that is still to be read.
class FullAddress : public ::testing::Test {
 protected:
  static constexpr uint32_t kCalls = FrameWatch::kFewAsked + 20;

  FullAddress() {
    std::string calls(24, 'P');
    for (uint32_t call = 0; call < kCalls; ++call) calls += call_of(call);
    connected_->write(calls);
    EXPECT_TRUE(connected_->is_told());
    EXPECT_EQ(connected_->read_on().bytes, calls.size());
    connected_->write(one_more_);
    EXPECT_TRUE(connected_->is_told());
    EXPECT_EQ(connected_->read_on().bytes, 0u);
  }
  const std::string one_more_ = call_of(kCalls);
  const std::shared_ptr<Unanswered> unanswered_{new Unanswered{kCalls}};
  std::unique_ptr<Connected> connected_ =
      std::make_unique<Connected>(std::make_shared<AddressAccount>(100'000, unanswered_));
};

TEST_F(FullAddress, IsReadOnOnceEnoughCallsAreAnswered) {
  std::string answers;
  for (uint32_t call = 0; call < kCalls; ++call) {
    std::string end = frame_of(FrameKind::kHeaders, FrameHead::kEndStream, "head");
    std::copy_n(call_of(call).begin() + 7, 2, end.begin() + 7);
    answers += end;
  }
  connected_->send_all(answers, answers.size());
  ASSERT_TRUE(connected_->is_told());
  EXPECT_EQ(connected_->read_on().bytes, one_more_.size());
}

TEST_F(FullAddress, SeesTheEndOfAConnectionThatIsReset) {
  connected_->reset_client();
  ASSERT_TRUE(connected_->is_told());
  connected_->read_on();
  EXPECT_TRUE(connected_->read_on().at_end);
}

TEST_F(FullAddress, IsEmptyOnceItsConnectionsAreClosed) {
  EXPECT_EQ(unanswered_->calls, kCalls);
  EXPECT_EQ(unanswered_->addresses, 1);
  connected_.reset();
  EXPECT_EQ(unanswered_->calls, 0);
  EXPECT_EQ(unanswered_->addresses, 0);
}

TEST_F(FullAddress, IsOnlyOneThatHasMoreThanAnEqualShare) {
  AddressAccount few(100'000, unanswered_);
  few.add_asked(2);
  EXPECT_FALSE(few.is_full());
  few.add_asked(kCalls / 2);
  EXPECT_TRUE(few.is_full());
}

TEST(ReadTurn, GivesWayOnlyWhereMoreIsThere) {
  ReadTurn turn;
  EXPECT_EQ(turn.next(), ReadTurn::kFirstRead);
  turn.brought(1000, ReadTurn::kWork, 0);  // the reader waits by itself
  EXPECT_FALSE(turn.is_unsure());
  turn.brought(8192, ReadTurn::kWork - 1, 5000);
  EXPECT_GT(turn.next(), 0u);
  turn.brought(8192, 1, 5000);
  EXPECT_TRUE(turn.is_unsure());
  EXPECT_EQ(turn.next(), 0u);
  EXPECT_EQ(turn.next(), 0u);
  EXPECT_GT(turn.next(), 0u);
  turn.brought(5000, 1, 0);
  EXPECT_TRUE(turn.is_unsure());
  turn.found_nothing();
  EXPECT_FALSE(turn.is_unsure());
}

TEST(ReadTurn, IsShorterWhereManyWait) {
  std::vector<ReadTurn> others(4 * ReadTurn::kFew);
  ReadTurn turn;
  const auto ends = [&turn](uint64_t work) {
    turn.found_nothing();
    turn.brought(1000, work, 5000);
    return turn.next() == 0;
  };
  EXPECT_FALSE(ends(ReadTurn::kWork - 1));
  for (ReadTurn& other : others) other.brought(1000, ReadTurn::kWork, 5000);
  EXPECT_FALSE(ends(ReadTurn::kLeastWork - 1));
  EXPECT_TRUE(ends(ReadTurn::kLeastWork));
  for (ReadTurn& other : others) other.end();
  turn.end();
  EXPECT_FALSE(ends(ReadTurn::kWork - 1));
}

TEST(ReadTurn, BringsAsManyBytesAsATurnTakes) {
  ReadTurn turn;
  turn.brought(8 * 100, 32, 5000);
  EXPECT_EQ(turn.next(), ReadTurn::kFirstRead * 25 / 16);  // 256 frames of 25
  turn.brought(10, 10, 5000);
  EXPECT_EQ(turn.next(), ReadTurn::kLeastRead);
}

// What comes next may be frames of another kind.
TEST(ReadTurn, BringsLittleAtFirstAndEverMoreOfLargeFrames) {
  ReadTurn turn;
  const auto brings = [&turn] {
    size_t bytes = turn.next();
    while (bytes == 0) bytes = turn.next();
    turn.brought(bytes, bytes / 16'384, 5000);
    return bytes;
  };
  size_t first = ReadTurn::kFirstRead;
  for (; first < ReadTurn::kMostRead; first *= ReadTurn::kGrowth) EXPECT_EQ(brings(), first);
  EXPECT_EQ(brings(), ReadTurn::kMostRead);
  turn.found_nothing();
  EXPECT_EQ(brings(), ReadTurn::kFirstRead);
  turn.brought(1000, 1, 0);
  EXPECT_EQ(brings(), ReadTurn::kFirstRead);
}

}  // namespace
}  // namespace fermata::serve
