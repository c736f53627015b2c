#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "client/stream.h"
#include "gstreamer/regions.h"

namespace fermata::gstreamer {

// What the element does with its frames: sends them to a stream service, and knows what the newest
// answer says. Safe across threads but for look(), which one thread calls.
class Inference {
 public:
  struct Options {
    client::StreamOptions stream;
    RegionOutputs outputs;
    double threshold = 0.3;
    // Whether look() waits until a frame is due by the rate, and then for its own answer, at most
    // for the objective.
    bool wait = false;
  };
  struct Seen {
    std::vector<Region> regions;
    uint64_t frame = 0;  // that they were found in
    Duration latency;
    uint32_t input_size = 0;
  };
  // As client::Stream::open.
  static absl::StatusOr<std::unique_ptr<Inference>> open(Options options);

  // Sends a frame, or drops it where it would wait or comes sooner than the rate says. What was
  // seen last, in this frame or an earlier one; none before the first answer, and where the last
  // one is older than a second.
  std::optional<Seen> look(const cv::Mat& picture);
  client::Stream::Statistics statistics() { return stream_->statistics(); }
  // Why the last frame has no answer; OK where it has.
  absl::Status trouble();

 private:
  explicit Inference(Options options) : options_(std::move(options)) {}
  void take(client::Answer answer);

  const Options options_;
  std::mutex mutex_;  // of the following
  std::condition_variable changed_;
  std::optional<Seen> seen_;
  Time seen_at_;
  uint64_t ended_ = 0;  // frames up to this one have ended
  absl::Status trouble_;
  uint64_t frames_ = 0;                     // of the calling thread
  std::unique_ptr<client::Stream> stream_;  // last: its thread uses the others
};

}  // namespace fermata::gstreamer
