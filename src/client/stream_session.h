#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/time.h"
#include "estimate/uplink.h"

namespace fermata::client {

// What every reply to a stream's client tells it (docs/streams.md).
struct Told {
  uint32_t input_size = 0;  // to send next
  bool unmapped = false;    // no DNN can serve us in time
  Duration shift;           // by how much later frames should come; negative: sooner
  Duration in_server;       // how long the server had the message
};

// One client of a stream service: when its frames leave, how large, and which are dropped instead
// because they would only wait; so the delay of a stream never grows. Pure: `now` never goes back.
// At most as many frames are under way as the rate makes within the objective, so every call is
// O(log) of that.
class StreamSession {
 public:
  StreamSession(Duration slo, double rate_rps);  // both positive

  // -- when
  // When the next frame should leave: every 1/rate, shifted so that frames of many clients reach
  // the server as batches. Never in the past by more than one interval.
  Time due(Time now);
  void taken();  // the frame that was due is sent or dropped

  // -- what
  // Once a second, and at once on a new connection: registers, measures the round trip and, where
  // no frame does, the bandwidth. The first one of a connection waits until that is made, and
  // measures nothing; so another follows where nothing is known of the way. One that is to measure
  // it waits, for a second at most, until nothing else is on the link.
  bool wants_hello(Time now) const;
  // How many bytes a hello should be filled up with: zero, but for an unmapped client, which has
  // no frames to measure its bandwidth with and else would believe in a bad second for ever, and
  // now and then where frames are too small to tell.
  uint64_t padding(Time now) const {
    return echoed_ && (unmapped_ || has_to_probe(now)) ? kPadding : 0;
  }
  // The side at which a frame that leaves now should be sent: what the service asks for, less
  // where the link does not bear the rate. None: it would wait, so it is dropped.
  std::optional<uint32_t> side(Time now);

  // A message leaves; `bytes` of it are what the link has to carry. Gives its id.
  uint64_t sent_hello(uint64_t bytes, Time now);
  uint64_t sent_frame(uint64_t tag, uint32_t side, uint64_t bytes, Time now);

  // -- answers
  // The server has had a message for so long by now: its acknowledgement, ahead of its reply.
  void acknowledged(uint64_t id, Duration in_server, Time now);
  struct Ended {
    uint64_t tag = 0;
    uint32_t side = 0;
    Time sent;
  };
  // The reply to a message, which acknowledges it where nothing has; without `told` nothing is
  // learned of the service. The frame that has ended; none where it was a hello, or is not under
  // way.
  std::optional<Ended> answered(uint64_t id, const std::optional<Told>& told, Time now);
  // The connection is gone: the frames that were under way on it.
  std::vector<Ended> lost();

  bool told() const { return asked_ > 0 || unmapped_; }
  bool unmapped() const { return unmapped_; }
  uint32_t asked() const { return asked_; }
  size_t frames_under_way() const { return frames_; }
  std::optional<double> mbps(Time now) { return link_.mbps(now); }
  std::optional<double> sure_mbps(Time now) { return link_.sure_mbps(now); }
  Duration round_trip() const { return link_.round_trip(); }

 private:
  static constexpr Duration kHello = Duration::seconds(1);
  static constexpr Duration kLeastShift = Duration::millis(2);  // less is noise
  static constexpr uint64_t kPadding = 8000;
  static constexpr Duration kProbe = Duration::seconds(3);
  static constexpr size_t kMostSides = 64;  // of which the bytes of a frame are remembered
  struct Sent {
    uint64_t tag = 0, bytes = 0;
    uint32_t side = 0;
    Time at;
    bool hello = false;
    bool alone = false;    // on the link, when it left
    bool arrived = false;  // as far as we know
  };
  bool has_to_probe(Time now) const;
  void arrive(Sent& sent, Duration in_server, Time now);
  void learn(const Sent& sent, const Told& told);

  const Duration slo_, interval_;
  const double rate_rps_;
  const size_t most_under_way_;
  estimate::Uplink link_;
  uint32_t asked_ = 0;
  bool unmapped_ = false;
  std::map<uint32_t, uint64_t> bytes_;  // of the last frame of a side
  std::map<uint64_t, Sent> under_way_;  // by id
  size_t frames_ = 0;                   // of them
  uint64_t last_id_ = 0;
  std::optional<Time> hello_at_, due_;
  bool sends_ = false;      // frames, on this connection
  bool connected_ = false;  // something came back
  bool greets_ = false;     // a hello is under way
  bool echoed_ = false;     // one has measured the way
  Time moved_at_;           // when our frames were last moved
  Duration shift_;
};

}  // namespace fermata::client
