#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "cluster.pb.h"
#include "cluster/wire/frame.h"

namespace fermata::cluster {

// A message and the bytes of its tensors.
struct Frame {
  Message message;
  std::shared_ptr<const std::byte[]> payload;
  uint64_t bytes = 0;
};

// A connection to another part: frames in both directions, in order. What transports have in
// common; TcpChannel is one.
class Channel {
 public:
  using Bytes = absl::Span<const std::byte>;
  virtual ~Channel() = default;
  // Both block. Not beside each other, and each on one thread at a time. Once one has failed, the
  // channel is at its end. UNAVAILABLE: the other side closed it, or it was cut.
  virtual absl::Status send(const Message& message, absl::Span<const Bytes> payload = {}) = 0;
  virtual absl::StatusOr<Frame> receive(const FrameLimits& limits = kFrameLimits) = 0;
  virtual std::string peer() const = 0;
  virtual std::string machine() const { return peer(); }  // that the other side is on
  // A small message can be sent without waiting for the other side. Of the thread that sends.
  virtual bool has_room() const = 0;

  // What blocks fails, and all that follows. Any thread.
  void cut() {
    if (!is_cut_.exchange(true)) shut();
  }
  // Cut at that moment, by a Lookout, unless it is told otherwise. Any thread.
  void expect_by(Time time) { by_ = time.nanos(); }
  void cut_if_late(Time now) {
    if (now.nanos() < by_.load()) return;
    late_ = true;
    cut();
  }
  // By then, and each piece of it `each` after the one before at the latest; each 0: as
  // expect_by(). Of the thread that receives.
  void expect_pieces(Duration each, Time by) {
    each_ = each;
    last_ = by;
    by_ = each > Duration() ? std::min(monotonic_now() + each, by).nanos() : by.nanos();
  }
  bool late() const { return late_; }
  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }
  uint64_t tensors() const { return tensors_; }

 protected:
  virtual void shut() = 0;
  void came() {
    if (each_ > Duration()) expect_pieces(each_, last_);
  }
  std::atomic<uint64_t> sent_{0}, received_{0};  // bytes
  std::atomic<uint64_t> tensors_{0};             // of these, of tensors

 private:
  std::atomic<int64_t> by_{std::numeric_limits<int64_t>::max()};
  std::atomic<bool> is_cut_{false}, late_{false};
  Duration each_;
  Time last_;
};

// Where connections come in.
class Acceptor {
 public:
  virtual ~Acceptor() = default;
  virtual uint16_t port() const = 0;
  // The next one; blocks. UNAVAILABLE: none for the moment, or none any more.
  virtual absl::StatusOr<std::shared_ptr<Channel>> accept() = 0;
  virtual void close() = 0;  // accept() fails, and all that follow; any thread
};

}  // namespace fermata::cluster
