#include "model/latency_correction.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace fermata {
namespace {

constexpr double kPublished = 0.05;  // at once
constexpr double kSettled = 0.005;   // after kSettling measurements: a little, but for good
constexpr uint32_t kSettling = 64;
constexpr double kDriftWeight = 0.05;
constexpr double kDoubt = 0.2;     // the share of the excess that one step gives up
constexpr uint32_t kFewRuns = 16;  // may all be of one bad moment

size_t bucket_of(uint32_t items) { return std::bit_width(items) - 1; }

}  // namespace

LatencyCorrection::LatencyCorrection(std::shared_ptr<const LatencyTable> profile, double quantile,
                                     bool guessed)
    : profile_(std::move(profile)),
      guessed_(guessed),
      version_(profile_->version()),
      buckets_(bucket_of(profile_->max_batch()) + 1, Bucket{QuantileTracker(quantile, 1)}) {}

void LatencyCorrection::measured(uint32_t items, Duration took) {
  FERMATA_CHECK(items >= 1 && items <= profile_->max_batch());
  const double expected = static_cast<double>((*profile_)(items).nanos());
  if (took <= Duration() || expected <= 0) return;
  const double measured = static_cast<double>(took.nanos()) / expected;
  drift_ = guessed_ ? measured : drift_ + kDriftWeight * (measured - drift_);
  if (guessed_) {
    for (Bucket& each : buckets_) each.ratio.reset(measured);
    guessed_ = false;
    buckets_[bucket_of(items)].seen = true;
  }
  ++unpublished_;
  Bucket& bucket = start(items);
  bucket.ratio.observe(measured);
  bucket.fastest = bucket.runs > 0 ? std::min(bucket.fastest, measured) : measured;
  ++bucket.runs;
}

void LatencyCorrection::doubted(uint32_t items) {
  Bucket& bucket = start(items);
  const double least = bucket.runs < kFewRuns ? std::min(bucket.fastest, 1.0) : bucket.fastest;
  const double excess = bucket.ratio.value() - least;
  if (excess > 0) bucket.ratio.reset(least + (1 - kDoubt) * excess);
}

LatencyCorrection::Bucket& LatencyCorrection::start(uint32_t items) {
  Bucket& bucket = buckets_[bucket_of(items)];
  if (!bucket.seen) bucket.ratio.reset(ratio(items));
  bucket.seen = true;
  return bucket;
}

double LatencyCorrection::ratio(uint32_t items) const {
  const size_t own = bucket_of(items);
  for (size_t distance = 0; distance < buckets_.size(); ++distance) {
    if (own >= distance && buckets_[own - distance].seen) {
      return buckets_[own - distance].ratio.value();
    }
    if (own + distance < buckets_.size() && buckets_[own + distance].seen) {
      return buckets_[own + distance].ratio.value();
    }
  }
  return 1;
}

std::shared_ptr<const LatencyTable> LatencyCorrection::publish() {
  const double least = unpublished_ < kSettling ? kPublished : kSettled;
  const bool moved = std::any_of(buckets_.begin(), buckets_.end(), [least](const Bucket& bucket) {
    return bucket.seen && std::abs(bucket.ratio.value() / bucket.published - 1) > least;
  });
  if (unpublished_ >= kSettling) unpublished_ = 0;
  if (!moved) return nullptr;
  unpublished_ = 0;
  for (Bucket& bucket : buckets_) bucket.published = bucket.ratio.value();
  TableLatency table;
  for (uint32_t b = 1; b <= profile_->max_batch(); ++b) {
    table.points_ms[b] = (*profile_)(b).millis() * ratio(b);
  }
  auto corrected = LatencyTable::make(table, profile_->max_batch(), ++version_);
  FERMATA_CHECK(corrected.ok());
  return *std::move(corrected);
}

}  // namespace fermata
