#include "tune/measured.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"

namespace fermata::tune {
namespace {

constexpr Duration kLeastRun = Duration::micros(1);
constexpr size_t kAbout = 15;  // runs before and after one that tell how slow the machine was

struct Sum {
  Duration sum;
  int64_t count = 0;
};

// When the first request of each batch came to the scheduler.
absl::flat_hash_map<uint64_t, Time> first_nominated(const Recording& recording) {
  absl::flat_hash_map<uint64_t, Time> first;
  for (const RecordedRequest& request : recording.requests) {
    if (request.batch == 0 || request.nominated.is_infinite()) continue;
    Time& own = first.try_emplace(request.batch, Time::infinite()).first->second;
    own = std::min(own, request.nominated);
  }
  return first;
}

void measure_replies(const Recording& recording, MeasuredDelays& delays) {
  absl::flat_hash_map<uint64_t, Sum> replies;  // by batch
  absl::flat_hash_map<uint64_t, Time> ends;
  for (const RecordedBatch& batch : recording.batches) {
    if (!batch.end.is_infinite()) ends[batch.id] = batch.end;
  }
  for (const RecordedRequest& request : recording.requests) {
    const auto end = ends.find(request.batch);
    const bool alone = request.answered() && request.subset == 0 && !request.has_parts;
    if (!alone || end == ends.end() || end->second > request.end) continue;
    Sum& own = replies[request.batch];
    own.sum += request.end - end->second;
    ++own.count;
  }
  for (const RecordedBatch& batch : recording.batches) {
    const auto own = replies.find(batch.id);
    if (own == replies.end()) continue;
    delays.reply.moments.push_back(
        {batch.end - recording.from, own->second.sum / own->second.count});
  }
}

template <class Value>
void sort(simulate::Measured<Value>& measured) {
  std::stable_sort(measured.moments.begin(), measured.moments.end(),
                   [](const auto& a, const auto& b) { return a.at < b.at; });
}

// Of what stands about it.
double median_about(const std::vector<double>& values, size_t i, std::vector<double>& room) {
  const size_t first = i - std::min(i, kAbout), last = std::min(values.size(), i + kAbout + 1);
  room.assign(values.begin() + static_cast<ptrdiff_t>(first),
              values.begin() + static_cast<ptrdiff_t>(last));
  const auto middle = room.begin() + static_cast<ptrdiff_t>(room.size() / 2);
  std::nth_element(room.begin(), middle, room.end());
  return *middle;
}

}  // namespace

MeasuredRuns measured_runs(const Recording& recording) {
  MeasuredRuns runs;
  for (const RecordedBatch& batch : recording.batches) {
    if (batch.end.is_infinite() || batch.load || batch.failed) continue;
    const Duration took = std::max(batch.end - batch.start, kLeastRun);
    runs[batch.model].push_back({batch.start, batch.worker, batch.items, took});
  }
  return runs;
}

MeasuredDelays measured_delays(const Recording& recording) {
  MeasuredDelays delays;
  const auto nominated = first_nominated(recording);
  absl::flat_hash_map<uint32_t, Time> last_end;  // by worker
  for (const RecordedBatch& batch : recording.batches) {
    if (batch.end.is_infinite()) continue;
    const auto before = last_end.find(batch.worker);
    const bool is_first = before == last_end.end();
    const Time free = is_first ? recording.from : before->second;
    const Time due = std::max(free, batch.bound);
    if (!batch.load) {
      delays.start.moments.push_back(
          {due - recording.from, std::max(batch.start - due, Duration())});
    }
    const auto first = nominated.find(batch.id);
    const bool waited = first != nominated.end() && first->second <= free && batch.wanted <= free;
    if (!is_first && waited && batch.bound >= free) {
      delays.decision.moments.push_back({free - recording.from, batch.bound - free});
    }
    last_end[batch.worker] = std::max(free, batch.end);
  }
  measure_replies(recording, delays);
  sort(delays.start);
  sort(delays.decision);
  sort(delays.reply);
  return delays;
}

simulate::MeasuredDrift measured_drift(const std::vector<MeasuredRun>& runs,
                                       const std::vector<Duration>& believed, Time from) {
  FERMATA_CHECK(runs.size() == believed.size());
  std::vector<double> ratios, room;
  for (size_t i = 0; i < runs.size(); ++i) {
    ratios.push_back(runs[i].took.seconds() / believed[i].seconds());
  }
  simulate::MeasuredDrift drift;
  for (size_t i = 0; i < runs.size(); ++i) {
    const double ratio = std::min(ratios[i], median_about(ratios, i, room));
    const Duration over = runs[i].took - believed[i].scaled(ratio);
    drift.moments.push_back(
        {std::max(runs[i].at - from, Duration()), {ratio, std::max(over, Duration())}});
  }
  sort(drift);
  return drift;
}

}  // namespace fermata::tune
