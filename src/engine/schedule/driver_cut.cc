// What runs again since its worker cannot reach what has its inputs.
#include <algorithm>
#include <utility>

#include "engine/schedule/driver_state.h"

namespace fermata::engine {
namespace {

// A way that was cut; then a batch tries it, which its worker refuses at once if it is cut still.
constexpr Duration kBelievedCut = Duration::millis(100);
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

void Driver::look_for_cuts(const InFlight& running, Time now) {
  if (workers_[running.worker.index()]->away || stopping_) return;
  const std::string* last = nullptr;
  for (const InFlight::Share& share : running.shares) {
    const auto& elsewhere = share.job->request().elsewhere;
    if (share.absence != Absence::kCut || elsewhere == nullptr) continue;
    if (share.job->route().composite != nullptr) {
      rest(running.worker, now);
    } else if (std::exchange(last, elsewhere->holder.get()) != elsewhere->holder.get()) {
      cut_off(*elsewhere->holder, running.worker, now);
    }
  }
}

// All workers of a host have the same way.
void Driver::cut_off(const std::string& holder, WorkerId worker, Time now) {
  const std::string host = workers_[worker.index()]->executor->host();
  const bool is_first = !is_cut(holder);
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    if (WorkerId(i) != worker && (host.empty() || workers_[i]->executor->host() != host)) continue;
    const Way way(holder, WorkerId(i));
    const Time until = now + kBelievedCut;
    const auto [it, is_new] = cut_ways_.try_emplace(way, until);
    if (!is_new) mended_at_.erase({std::exchange(it->second, until), way});
    mended_at_.emplace(until, way);
    if (is_new) tell_reaches(way, false, now);
  }
  if (is_first) set_apart(holder, now);
}

bool Driver::is_cut(const std::string& holder) const {
  if (cut_ways_.empty()) return false;
  const auto way = cut_ways_.lower_bound({holder, WorkerId(0)});
  return way != cut_ways_.end() && way->first.first == holder;
}

void Driver::tell_reaches(const Way& way, bool reaches, Time now) {
  for (const KeyId key : keys_.apart(way.first)) {
    scheduler_->planned(policy::Reaches{key, way.second, reaches}, now, decisions_);
  }
}

// Of a key that is new what has been found already.
void Driver::tell_ways(KeyId apart, Time now) {
  BatchKey& key = keys_.at(apart);
  if (std::exchange(key.knows_ways, true)) return;
  for (auto way = cut_ways_.lower_bound({key.holder, WorkerId(0)});
       way != cut_ways_.end() && way->first.first == key.holder; ++way) {
    scheduler_->planned(policy::Reaches{apart, way->first.second, false}, now, decisions_);
  }
}

// What waits of that holder.
void Driver::set_apart(const std::string& holder, Time now) {
  std::vector<JobId> waiting;
  for (const auto& [id, part] : parts_) {
    const auto& elsewhere = part.job->request().elsewhere;
    const bool waits = !part.bound && part.away.is_none() && part.put_off.is_infinite();
    if (waits && elsewhere != nullptr && *elsewhere->holder == holder) waiting.push_back(id);
  }
  std::sort(waiting.begin(), waiting.end());
  for (const JobId id : waiting) {
    Part& part = parts_.at(id);
    if (part.job->route().composite != nullptr) continue;
    if (scheduler_->withdraw(policy::Task(part.task), now, decisions_)) nominate_again(part, now);
  }
}

void Driver::enter_key(Part& part, Time now) {
  const Route& route = part.job->route();
  if (route.composite != nullptr || keys_.served(route.variant->id) == nullptr) return;
  const KeyId key = key_of(*part.job, now);
  if (key.is_none() || key == part.task.key) return;
  task_added(key);
  task_ended(std::exchange(part.task.key, key));
}

void Driver::rest(WorkerId id, Time now) {
  Worker& worker = *workers_[id.index()];
  const Time until = now + kRest;
  if (const Time before = std::exchange(worker.rests, until); !before.is_infinite()) {
    resting_.erase({before, id});
  }
  resting_.emplace(until, id);
  scheduler_->planned(policy::Serving{id, false}, now, decisions_);
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
    nominate_again(part, now);
  }
  while (!mended_at_.empty() && mended_at_.begin()->first <= now) {
    const Way way = mended_at_.extract(mended_at_.begin()).value().second;
    cut_ways_.erase(way);
    tell_reaches(way, true, now);
  }
  act(now);
}

}  // namespace fermata::engine
