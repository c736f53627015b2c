#include "tune/measured.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace fermata::tune {
namespace {

constexpr Duration kLeastRun = Duration::micros(1);

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

MeasuredRuns measured_runs(const Recording& recording, Duration start) {
  MeasuredRuns runs;
  absl::flat_hash_map<uint32_t, Time> last_end;  // by worker
  for (const RecordedBatch& batch : recording.batches) {
    if (batch.end.is_infinite()) continue;
    Time& last = last_end[batch.worker];
    const Time from = std::max(last, batch.bound + start);
    last = std::max(last, batch.end);
    if (batch.load || batch.failed) continue;
    // No less than it ran: it may have started sooner than others do on average.
    const Duration took = std::max({batch.end - from, batch.end - batch.start, kLeastRun});
    runs[batch.model].push_back({from, batch.worker, batch.items, took});
  }
  return runs;
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
