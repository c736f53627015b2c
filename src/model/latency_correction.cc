#include "model/latency_correction.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace fermata {
namespace {

constexpr double kStep = 0.05;  // the most that one measurement moves the logarithm
constexpr double kSoft = 0.1;   // smaller surprises move it in proportion
constexpr double kPublished = 0.05;
constexpr double kDriftWeight = 0.05;

size_t bucket_of(uint32_t items) { return std::bit_width(items) - 1; }

}  // namespace

LatencyCorrection::LatencyCorrection(std::shared_ptr<const LatencyTable> profile, double quantile,
                                     bool guessed)
    : profile_(std::move(profile)),
      quantile_(quantile),
      guessed_(guessed),
      version_(profile_->version()) {}

void LatencyCorrection::measured(uint32_t items, Duration took) {
  const double expected = static_cast<double>((*profile_)(items).nanos());
  if (items == 0 || took <= Duration() || expected <= 0) return;
  const double ratio = static_cast<double>(took.nanos()) / expected;
  drift_ += kDriftWeight * (ratio - drift_);
  Bucket& bucket = buckets_[std::min(bucket_of(items), kBuckets - 1)];
  if (guessed_) {
    for (Bucket& each : buckets_) each.log_ratio = std::log(ratio);
    drift_ = ratio;
    guessed_ = false;
  } else {
    if (!bucket.seen) bucket.log_ratio = log_ratio(items);
    const double surprise = std::clamp((std::log(ratio) - bucket.log_ratio) / kSoft, -1.0, 1.0);
    bucket.log_ratio += kStep * surprise * (surprise > 0 ? quantile_ : 1 - quantile_);
  }
  bucket.seen = true;
}

double LatencyCorrection::log_ratio(uint32_t items) const {
  const size_t own = std::min(bucket_of(items), kBuckets - 1);
  for (size_t distance = 0; distance < kBuckets; ++distance) {
    if (own >= distance && buckets_[own - distance].seen) return buckets_[own - distance].log_ratio;
    if (own + distance < kBuckets && buckets_[own + distance].seen) {
      return buckets_[own + distance].log_ratio;
    }
  }
  return 0;
}

std::shared_ptr<const LatencyTable> LatencyCorrection::publish() {
  const bool moved = std::any_of(buckets_.begin(), buckets_.end(), [](const Bucket& bucket) {
    return bucket.seen && std::abs(bucket.log_ratio - bucket.published) > kPublished;
  });
  if (!moved) return nullptr;
  for (Bucket& bucket : buckets_) bucket.published = bucket.log_ratio;
  TableLatency table;
  for (uint32_t b = 1; b <= profile_->max_batch(); ++b) {
    table.points_ms[b] = (*profile_)(b).millis() * std::exp(log_ratio(b));
  }
  auto corrected = LatencyTable::make(table, profile_->max_batch(), ++version_);
  FERMATA_CHECK(corrected.ok());
  return *std::move(corrected);
}

}  // namespace fermata
