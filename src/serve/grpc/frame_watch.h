#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "serve/grpc/address_account.h"
#include "serve/grpc/frame_reader.h"

namespace fermata::serve {

// Looks at what goes over one HTTP/2 connection, in pieces of any size, and says when its client
// floods the server with frames that are no calls, none of which gRPC 1.51 bounds: a head that goes
// on for ever in CONTINUATION frames (RFC 9113, section 10.5.1), streams that are reset as fast as
// they are opened, settings and pings that ask for answers, windows that open without a reply,
// calls of which nothing comes but the head, calls that come to nothing before a message of theirs
// is whole, messages in crumbs, and calls of a client that never says that it has seen how many it
// may have at a time, which gRPC then does not hold it to. A ping for each piece of a reply is
// none: clients in Go measure their link so. What is no HTTP/2 is gRPC's to reject. Knows how much
// gRPC holds of messages that are not whole, which it hands to nobody, and of calls whose client
// takes no answers.
class FrameWatch {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  using Clock = Moment (*)();
  // Of one head and its frames; those above 16 KiB gRPC answers itself.
  static constexpr size_t kHeadBytes = 256 * 1024;
  static constexpr uint32_t kFramesASecond = 2048;   // resets, settings, pings and the like
  static constexpr uint32_t kCallsUnsettled = 1024;  // before settings are acknowledged
  static constexpr uint32_t kSilentCalls = 1024;     // at a time, where nothing else is said
  // Where the address exhausts what it has: of such frames, of calls whose client may still send,
  // and of those before a message has come whole.
  static constexpr uint32_t kFewFrames = 32, kFewCalls = 64, kFewFirstCalls = 2;
  // Who gives up a call sooner than this had no deadline for it, or a server that is late.
  static constexpr std::chrono::milliseconds kSoon{1};
  // Of calls that were answered, for as many that are given up: all that many clients behind one
  // connection may have at a time.
  static constexpr uint32_t kMostCredit = 4096;
  // And of calls that came whole and are not answered, before any was; so many are read on anyhow.
  static constexpr uint32_t kFewAsked = 16;
  // Of windows, for a call, a piece of a reply and its bytes, which are no flood.
  static constexpr uint32_t kUpdates = 4, kBytesOfUpdate = 1024, kMostUpdates = 1 << 20;
  // Of a call that ends before a message of it was whole, whoever ends it, in frames: it has cost
  // more. So has one whose connection its client ends before it is answered, beyond as many as
  // were.
  static constexpr uint32_t kWastedCall = 8;
  // Such calls of a connection that ends only since its address is crowded: as many honest clients
  // as come again each second may not keep it so.
  static constexpr uint64_t kMostCrowdedOut = 4;
  // Of a stream, until the server says otherwise (RFC 9113, section 6.9.2).
  static constexpr uint64_t kFirstWindow = 65'535;
  // A piece of a message that is shorter and not its last; as many of each are no flood.
  static constexpr uint32_t kCrumb = 256, kFewCrumbs = 8;
  // Such pieces that may still come of a call that the server has ended, whose client may not know.
  static constexpr uint32_t kLateCrumbs = kFirstWindow / kCrumb, kMostLateCrumbs = 1 << 16;
  // What gRPC and we do for a call, or for another message of it, in frames.
  static constexpr uint64_t kCallWork = 16;
  // What gRPC takes beside a message's bytes: for a call, and for a piece of it.
  static constexpr uint64_t kCallHolds = 20 * 1024, kPieceHolds = 64;

  // `address`: what it shares with others; none: nothing. `most_calls`: that a connection may have
  // at a time; also of those of which nothing but the head has come, since a client whose window is
  // full sends the heads of all. gRPC rejects more too, but does not end a connection whose client
  // takes none of its answers.
  explicit FrameWatch(Clock now, std::shared_ptr<AddressAccount> address = nullptr,
                      uint32_t most_calls = kSilentCalls);
  ~FrameWatch() { forget_calls(); }
  FrameWatch(const FrameWatch&) = delete;
  FrameWatch& operator=(const FrameWatch&) = delete;

  // False: it is a flood, and nothing that comes is looked at any more. O(frames).
  bool see(std::string_view bytes);
  // The server has sent its settings: only what comes from now on can acknowledge them. gRPC takes
  // an earlier acknowledgement, of a client that cannot have read them, for one of no limits.
  void answered() { has_told_ = true; }
  // What the server sends, but for the first `known` bytes: it may end calls whose client goes on.
  void sent(std::span<const iovec> pieces, size_t known);
  void sent(std::string_view bytes) { sent(std::array{piece_of(bytes)}, 0); }
  // The system has not taken all that the server sends, since the client does not; or it has again.
  void stuck(bool is_stuck) { is_stuck_ = is_stuck; }
  // How many calls have begun.
  uint64_t calls() const { return begun_; }
  // When something of a call last came or was sent; a ping is none.
  Moment active() const { return active_; }
  // A call of it has begun and is not answered.
  bool waits() const { return sending_ > 0 || asked_ > 0; }
  // What gRPC holds of messages that are not whole, and of calls of which none has come.
  uint64_t unfinished() const { return unfinished_; }
  // And of calls that came whole, while their client is stuck and takes no answers.
  uint64_t unread() const { return is_stuck_ ? asked_ * kCallHolds : 0; }
  // Whether what it asks further need not be held yet: it has more than a few calls that are not
  // answered, and its client is stuck or its address full.
  bool has_enough() const {
    return is_stuck_with_many() ||
           (asked_ > kFewAsked && address_ != nullptr && address_->is_full());
  }
  bool is_stuck_with_many() const { return is_stuck_ && asked_ > kFewAsked; }
  // Frames that have come, with kCallWork more for each call and each message but its first.
  uint64_t work() const { return work_; }
  // The connection is at its end, or `by_us`: then its calls cost the address nothing.
  void forget_calls(bool by_us = false);

 private:
  struct Call {
    bool sends = false;  // its client may still send
    bool asked = false;  // it came whole at `since` and is not answered yet
    Moment since;
    std::array<char, 5> prefix{};  // of a message: whether it is packed, and how long it is
    uint8_t have = 0;              // of that
    bool silent = true;            // nothing but the head has come
    bool whole = false;            // a message has
    uint8_t crumbs = 0;            // of this message
    uint32_t left = 0;             // of a message
    uint64_t holds = kCallHolds;
    uint64_t received = 0, opened = 0;  // bytes of data, and of its window by the server
  };
  // What of a frame of the server's has to be read.
  struct Said {
    std::array<char, 6> bytes{};  // one setting, or how far a window opens
    size_t have = 0;
  };
  static iovec piece_of(std::string_view bytes) {
    return {const_cast<char*>(bytes.data()), bytes.size()};
  }
  bool begin_frame(FrameHead frame);
  bool add_to_head(FrameHead frame);
  void settle();
  bool reset(uint32_t stream);
  bool is_within_window(FrameHead frame);
  void hear(FrameHead frame, std::string_view piece);
  void hear_one(FrameHead frame, const char* said);
  void add_data(FrameHead frame, std::string_view piece);
  void end_piece(FrameHead frame);
  void take_message(Call& call);
  bool begin_call(uint32_t stream);
  void end_frame(FrameHead frame);
  void end_sent(FrameHead frame);
  // Null: there is none, or `sending()`, none whose client may still send. Until the next call
  // begins or one ends.
  Call* find(uint32_t stream) {
    if (stream == newest_stream_) return stream == 0 ? nullptr : &newest_;
    return calls_.empty() ? nullptr : find_older(stream);
  }
  Call* sending(uint32_t stream) {
    Call* const call = find(stream);
    return call != nullptr && call->sends ? call : nullptr;
  }
  // The rest is rare, and is not to be in the way of what is not.
  Call* find_older(uint32_t stream);
  void erase_older(uint32_t stream);
  void make_older();  // of the newest
  void begin_asked(Call& call);
  void end_asked(Call& call);
  void end_sending(Call& call);
  void erase_if_over(uint32_t stream, Call& call);
  void speaks(Call& call);
  void wasted(uint64_t calls);
  size_t open() const { return calls_.size() + (newest_stream_ != 0 ? 1 : 0); }
  // More calls than may be where the address has too many.
  bool is_beyond_few() const {
    return sending_ > (proven_ ? kFewCalls : kFewFirstCalls) ||
           asked_ > (served_ ? kFewCalls : kFewAsked);
  }
  // False: too many.
  bool count(uint32_t weight);
  bool count_given_up();
  void give_up_answered();
  // `is_crowded`: its address has too many.
  bool count(uint32_t weight, bool is_crowded);

  Clock now_;
  std::shared_ptr<AddressAccount> address_;
  Moment since_;
  Moment last_;  // something came
  Moment active_;
  uint32_t counted_ = 0;  // since then
  uint32_t unsettled_ = 0;
  uint64_t begun_ = 0, unfinished_ = 0, work_ = 0;
  int64_t silent_ = 0;
  bool has_told_ = false, settled_ = false;  // settings, and which were acknowledged
  bool proven_ = false;                      // a message has come whole
  bool crowded_ = false;   // it ends since its address has too many, and is else no flood
  bool served_ = false;    // a call was answered
  uint32_t credit_ = 0;    // calls that were answered, less those given up since
  bool is_flood_ = false;  // as was seen while others were looked at
  bool is_stuck_ = false;
  // The call whose end the server has sent last, which a reset may follow; and whether it was the
  // first.
  uint32_t last_answered_ = 0;
  bool is_first_answer_ = false;
  size_t head_ = 0;       // bytes of the head that has not ended yet
  uint32_t replies_ = 0;  // pieces of replies that no ping has come for
  uint32_t updates_ = 0;  // of windows that replies may still have
  uint32_t late_ = 0;     // pieces that may still come of calls that the server has ended
  const uint32_t most_calls_;
  FrameReader from_client_, to_client_;
  Said said_;
  uint64_t window_ = kFirstWindow;  // of a new call: the widest that the server has said
  std::deque<uint64_t> told_;       // the same with each of the settings that are not acknowledged
  uint32_t beyond_ = 0;             // frames beyond the next, ever
  uint64_t acknowledged_ = kFirstWindow;           // the window that the client knows of
  uint64_t received_ = 0, opened_ = kFirstWindow;  // bytes of data of all calls, and their window
  // The call that began last; 0: it is over. Who makes one after the other needs no other place.
  uint32_t newest_stream_ = 0;
  Call newest_;
  absl::flat_hash_map<uint32_t, Call> calls_;  // the others, by stream
  size_t sending_ = 0, asked_ = 0;             // of all
};

}  // namespace fermata::serve
