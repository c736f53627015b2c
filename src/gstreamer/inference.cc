#include "gstreamer/inference.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace fermata::gstreamer {
namespace {

constexpr Duration kStale = Duration::seconds(1);
constexpr Duration kFirstWord = Duration::seconds(10);

void sleep(Duration d) { std::this_thread::sleep_for(std::chrono::nanoseconds(d.nanos())); }

}  // namespace

absl::StatusOr<std::unique_ptr<Inference>> Inference::open(Options options) {
  std::unique_ptr<Inference> inference(new Inference(std::move(options)));
  Inference* self = inference.get();
  ASSIGN_OR_RETURN(inference->stream_,
                   client::Stream::open(self->options_.stream, [self](client::Answer answer) {
                     self->take(std::move(answer));
                   }));
  RETURN_IF_ERROR(inference->stream_->wait_until_told(kFirstWord));
  return inference;
}

void Inference::take(client::Answer answer) {
  std::vector<Region> regions;
  if (answer.status.ok()) {
    auto found = regions_in(answer.outputs, options_.outputs, options_.threshold);
    answer.status = found.status();
    if (found.ok()) regions = *std::move(found);
  }
  {
    const std::scoped_lock lock(mutex_);
    ended_ = std::max(ended_, answer.tag);
    trouble_ = answer.status;
    if (trouble_.ok()) {
      seen_ = {std::move(regions), answer.tag, answer.latency, answer.input_size};
      seen_at_ = monotonic_now();
    }
  }
  changed_.notify_all();
}

std::optional<Inference::Seen> Inference::look(const cv::Mat& picture) {
  const uint64_t frame = ++frames_;
  const Duration early = stream_->due() - monotonic_now();
  if (options_.wait && early > Duration()) sleep(early);
  // More frames than the rate that we are registered with would be rejected.
  const bool too_many = !options_.wait && early.seconds() * options_.stream.rate_rps > 0.5;
  absl::StatusOr<client::Sent> sent = client::Sent::kDropped;
  if (!too_many) sent = stream_->send(picture, frame);
  std::unique_lock lock(mutex_);
  if (!sent.ok()) trouble_ = sent.status();
  if (options_.wait && sent.ok() && *sent == client::Sent::kSent) {
    changed_.wait_for(lock, std::chrono::nanoseconds(options_.stream.slo.nanos()),
                      [&] { return ended_ >= frame; });
  }
  if (!seen_ || seen_at_ + kStale < monotonic_now()) return std::nullopt;
  return seen_;
}

absl::Status Inference::trouble() {
  const std::scoped_lock lock(mutex_);
  return trouble_;
}

}  // namespace fermata::gstreamer
