#include "tune/recording.h"

#include <algorithm>

namespace fermata::tune {
namespace {

constexpr Duration kNegligible = Duration::micros(500);

}  // namespace

std::string_view name(WaitedFor what) {
  switch (what) {
    case WaitedFor::kMates:
      return "mates";
    case WaitedFor::kWorker:
      return "worker";
    case WaitedFor::kStartTime:
      return "start_time";
    case WaitedFor::kNothing:
      break;
  }
  return "nothing";
}

BatchWait wait_of(const RecordedBatch& batch, Time first_nominated) {
  const Time start = batch.start.is_infinite() ? batch.expected_start : batch.start;
  BatchWait wait{.since = std::min(first_nominated, start)};
  const Time wanted = std::clamp(batch.wanted, wait.since, start);
  wait.held = wanted - wait.since;
  wait.worker = start - wanted;
  if (std::max(wait.held, wait.worker) < kNegligible) return wait;
  if (wait.worker >= wait.held) {
    wait.what = WaitedFor::kWorker;
  } else {
    wait.what =
        batch.rule == policy::StartRule::kPlanned ? WaitedFor::kStartTime : WaitedFor::kMates;
  }
  return wait;
}

}  // namespace fermata::tune
