#include "tune/measured.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace fermata::tune {
namespace {

constexpr uint64_t kFewRuns = 3;
constexpr double kLeastMs = 1e-3;

class Mean {
 public:
  void add(Duration d) {
    sum_ += d;
    ++count_;
  }
  Duration value() const { return count_ == 0 ? Duration() : sum_ / count_; }

 private:
  Duration sum_;
  int64_t count_ = 0;
};

}  // namespace

void MeasuredLatency::add(uint32_t items, Duration run) {
  Size& size = sizes_[items];
  ++size.runs;
  size.total += run;
}

TableLatency MeasuredLatency::table(const LatencyTable& profile) const {
  Duration measured, profiled;
  for (const auto& [items, size] : sizes_) {
    measured += size.total;
    profiled += profile(items) * static_cast<int64_t>(size.runs);
  }
  const double scale = profiled > Duration() ? measured.seconds() / profiled.seconds() : 1;
  TableLatency table;
  const auto set = [&](uint32_t items) {
    const auto own = sizes_.find(items);
    const bool known = own != sizes_.end() && own->second.runs >= kFewRuns;
    const Duration run = known ? own->second.total / static_cast<int64_t>(own->second.runs)
                               : profile(items).scaled(scale);
    table.points_ms[items] = std::max(run.millis(), kLeastMs);
  };
  for (uint32_t items = 1; items < profile.max_batch(); items *= 2) set(items);
  set(profile.max_batch());
  for (const auto& [items, size] : sizes_) {
    if (items <= profile.max_batch()) set(items);
  }
  double longest = 0;
  for (auto& [items, ms] : table.points_ms) ms = longest = std::max(longest, ms);
  return table;
}

MeasuredModels measured_models(const Recording& recording, std::span<const uint32_t> types) {
  MeasuredModels models;
  for (const RecordedBatch& batch : recording.batches) {
    if (batch.end.is_infinite() || batch.load || batch.failed || batch.worker >= types.size()) {
      continue;
    }
    std::vector<MeasuredLatency>& by_type = models[batch.model];
    const uint32_t type = types[batch.worker];
    by_type.resize(std::max<size_t>(by_type.size(), type + 1));
    by_type[type].add(batch.items, batch.end - batch.start);
  }
  return models;
}

MeasuredDelays measured_delays(const Recording& recording) {
  Mean start, reply;
  absl::flat_hash_map<uint32_t, Time> last_end;  // by worker
  absl::flat_hash_map<uint64_t, Time> ends;      // by batch
  for (const RecordedBatch& batch : recording.batches) {
    if (batch.end.is_infinite()) continue;
    Time& last = last_end[batch.worker];
    if (last <= batch.bound && !batch.load) start.add(batch.start - batch.bound);
    last = std::max(last, batch.end);
    ends[batch.id] = batch.end;
  }
  for (const RecordedRequest& request : recording.requests) {
    const auto end = ends.find(request.batch);
    const bool alone = request.answered() && request.subset == 0 && !request.has_parts;
    if (alone && end != ends.end() && end->second <= request.end) {
      reply.add(request.end - end->second);
    }
  }
  return {std::max(start.value(), Duration()), reply.value()};
}

}  // namespace fermata::tune
