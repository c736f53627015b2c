// What runs again since its worker cannot reach what has its inputs.
#include <algorithm>
#include <utility>

#include "engine/schedule/driver_state.h"

namespace fermata::engine {
namespace {

// Long enough for another worker to take what this one cannot reach.
constexpr Duration kRest = Duration::millis(5);
// A part is put off from its second run on, for twice as long each time; so often is some twenty
// seconds, after which no way is believed to come.
constexpr Duration kFirstPutOff = Duration::millis(5), kLongestPutOff = Duration::millis(500);
constexpr uint32_t kMostCut = 50, kLastLonger = 7;  // doublings of the first
// Several hosts may die at a time, and not of a request that they all had: one that does kill them
// has no more than these.
constexpr uint32_t kMostHosts = 3;

}  // namespace

// On the worker's thread.
Absence Driver::InFlight::Share::again_after(Absence how) const {
  const bool ends = (how == Absence::kLost && lost > 0) ||
                    (how == Absence::kHostLost && lost + 1 >= kMostHosts) ||
                    (how == Absence::kCut && cut >= kMostCut);
  return ends ? Absence::kNone : how;
}

void Driver::rest_where_cut(const InFlight& running, Time now) {
  const bool is_cut =
      std::any_of(running.shares.begin(), running.shares.end(), [](const InFlight::Share& share) {
        return share.absence == Absence::kCut && share.job->request().elsewhere != nullptr;
      });
  Worker& worker = *workers_[running.worker.index()];
  if (!is_cut || worker.away || stopping_) return;
  const Time until = now + kRest;
  if (const Time before = std::exchange(worker.rests, until); !before.is_infinite()) {
    resting_.erase({before, running.worker});
  }
  resting_.emplace(until, running.worker);
  scheduler_->planned(policy::Serving{running.worker, false}, now, decisions_);
}

void Driver::put_off(JobId id, Time now) {
  Part& part = parts_.at(id);
  const Duration pause =
      std::min(kFirstPutOff * (int64_t{1} << std::min(part.cut - 2, kLastLonger)), kLongestPutOff);
  part.put_off = std::min(now + pause, std::max(part.job->deadline(), now));
  put_off_.emplace(part.put_off, id);
}

void Driver::go_on(Time now) {
  while (!resting_.empty() && resting_.begin()->first <= now) {
    const WorkerId id = resting_.begin()->second;
    resting_.erase(resting_.begin());
    Worker& worker = *workers_[id.index()];
    worker.rests = Time::infinite();
    if (worker.away || id.index() >= serving_) continue;
    scheduler_->planned(policy::Serving{id, true}, now, decisions_);
  }
  while (!put_off_.empty() && put_off_.begin()->first <= now) {
    Part& part = parts_.at(put_off_.begin()->second);
    leave_aside(part);
    scheduler_->nominate(policy::Task(part.task), now, decisions_);
  }
  act(now);
}

}  // namespace fermata::engine
