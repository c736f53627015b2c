#include "policy/stream/frame_rate.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace fermata::policy {
namespace {

constexpr Duration kRemembered = Duration::seconds(3);  // of a silent client, at least
constexpr double kFramesRemembered = 2;                 // of one that sends few
constexpr double kAveragedOver = 1;                     // seconds, at least
constexpr double kMargin = 1.05;                        // on what was measured
constexpr double kProof = 0.5;                          // of its word

}  // namespace

FrameRate::FrameRate(double said_rps, double believed_rps, Time now)
    : said_rps_(said_rps), believed_rps_(believed_rps), owed_rps_(believed_rps), came_(now) {}

Duration FrameRate::longest_silence() const {
  return std::max(kRemembered, Duration::from_seconds(kFramesRemembered / said_rps_));
}

double FrameRate::window() const { return std::max(kAveragedOver, kFramesRemembered / said_rps_); }

// Frames, each worth less the older it is.
double FrameRate::measured(Time now) const {
  if (level_ == 0 || now - last_ > longest_silence()) return 0;
  return level_ * portable_exp(-(now - last_).seconds() / window());
}

void FrameRate::count(double frames, Time now) {
  level_ = measured(now) + frames;
  last_ = now;
}

double FrameRate::per_second(Time now) const {
  const double word = now - came_ <= longest_silence() ? believed_rps_ : 0;
  return std::min(std::max(measured(now) / window() * kMargin, word), said_rps_);
}

double FrameRate::take_proven() {
  return level_ / window() < owed_rps_ * kProof ? 0 : std::exchange(owed_rps_, 0);
}

}  // namespace fermata::policy
