#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/frame_encoder.h"
#include "client/stream_message.h"
#include "client/stream_session.h"

namespace fermata::client {

// What became of one frame that was sent.
struct Answer {
  uint64_t tag = 0;  // the caller's
  absl::Status status;
  std::vector<Tensor> outputs;
  Duration latency;            // from send() on, encoding included
  uint32_t input_size = 0;     // that it was sent at
  std::optional<double> mbps;  // what is believed of the link by now
};

struct StreamOptions {
  std::string address = "localhost:8001";
  std::string service;
  Duration slo = Duration::millis(100);
  double rate_rps = 15;
  std::string client;  // empty: made up
  std::optional<double> min_accuracy;
  std::vector<std::string> outputs;  // empty: all
  FrameEncoder::Options encoder;
};

// What send() did with a frame.
enum class Sent {
  kSent,
  kDropped,   // it would only have waited
  kUnmapped,  // no DNN can serve us in time: run a model of your own
};

// A client of a stream service: encodes and sends frames over one ModelStreamInfer, or drops them
// at once where they would wait, and connects again whenever the connection is lost or dead.
// Thread-safe but for send(), which one thread calls.
class Stream {
 public:
  using Listener = std::function<void(Answer)>;
  struct Statistics {
    uint64_t sent = 0, dropped = 0, unmapped = 0, answered = 0, failed = 0, connections = 0;
    uint32_t input_size = 0;  // that the service asks for; 0: none, or unmapped
    std::optional<double> mbps;
    Duration round_trip;
    Duration encoding, other;  // processor's and waiting time in send(), all frames
  };

  // Asks the server what the service takes; blocks for at most five seconds. UNAVAILABLE where no
  // server answers, NOT_FOUND, INVALID_ARGUMENT where a picture cannot be its input.
  // `listener` hears of every sent frame exactly once, from one thread, until the destructor
  // returns.
  static absl::StatusOr<std::unique_ptr<Stream>> open(StreamOptions options, Listener listener);
  ~Stream();  // frames under way end as CANCELLED

  // When the next frame should be sent.
  Time due();
  // `picture`: CV_8UC3, red first. A frame that cannot be encoded is INVALID_ARGUMENT. Blocks only
  // for the encoding.
  absl::StatusOr<Sent> send(const cv::Mat& picture, uint64_t tag);
  // Waits until the service has told what to send. INVALID_ARGUMENT: it does not take us, and why;
  // UNAVAILABLE after `limit`.
  absl::Status wait_until_told(Duration limit);
  // Waits until no frame is under way; false after `limit`.
  bool wait_for_answers(Duration limit);
  Statistics statistics();

 private:
  struct Connection;  // gRPC's objects of one connection

  Stream(StreamOptions options, FrameEncoder encoder, Listener listener);
  void run();
  void serve(Connection& connection);  // until it is lost or we close
  bool write(Connection& connection);  // the next message; false: lost
  void read(Connection& connection);   // until it is lost
  void take(inference::ModelStreamInferResponse message);
  void end_lost();
  std::optional<inference::ModelInferRequest> next(Connection& connection);
  LinkReport link(Time now);

  const StreamOptions options_;
  const StreamIdentity identity_;
  const Listener listener_;
  FrameEncoder encoder_;  // of the sending thread

  std::mutex mutex_;  // of the following
  std::condition_variable changed_;
  StreamSession session_;
  // Encoded and registered with the session, but not yet handed to gRPC.
  std::deque<inference::ModelInferRequest> waiting_;
  std::map<uint64_t, Time> started_;  // by id: when send() was called
  Statistics statistics_;
  std::string rejection_;             // of our last hello
  Connection* connection_ = nullptr;  // the present one
  bool closing_ = false, connected_ = false;
  std::thread thread_;
};

}  // namespace fermata::client
