// What leaves the queue unanswered, and what comes again, since the process that should have run it
// ended or was not there.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/schedule/driver_state.h"

namespace fermata::engine {
namespace {

constexpr Duration kHeardWithin = Duration::millis(20);  // of a host that is asked

}  // namespace

// Once: what is not waiting then is bound, or on its way out, and will not wait again.
void Driver::withdraw_parts(Job& job, Time now) {
  if (std::exchange(job.withdrawn, true)) return;
  for (const JobId id : job.parts()) {
    const auto it = parts_.find(id);
    if (it == parts_.end()) continue;
    if (!it->second.away.is_none() || !it->second.put_off.is_infinite()) {
      forget(id);
      continue;
    }
    if (it->second.bound && job.route().ensemble == nullptr) continue;
    if (scheduler_->withdraw(policy::Task(it->second.task), now, decisions_)) forget(id);
  }
}

void Driver::withdraw_waiting(absl::FunctionRef<bool(const Route&)> of, const absl::Status& why,
                              Time now) {
  std::vector<std::shared_ptr<Job>> jobs;
  for (const auto& [id, part] : parts_) {
    if (!part.bound && of(part.job->route())) jobs.push_back(part.job);
  }
  for (const std::shared_ptr<Job>& job : jobs) {
    job->end(Outcome::kUnavailable, why, {});
    withdraw_parts(*job, now);
  }
}

void Driver::left_queue(Job& job) {
  if (--job.waiting_parts == 0) job.leave_queue();
}

void Driver::forget(JobId part) {
  const auto it = parts_.find(part);
  FERMATA_CHECK(it != parts_.end());
  leave_aside(it->second);
  unwatch(it->second);
  const std::shared_ptr<Job> job = std::move(it->second.job);
  const KeyId key = it->second.task.key;
  if (!it->second.left) left_queue(*job);
  parts_.erase(it);
  queries_.erase(part);
  if (--job->open_parts == 0 && !job->part_ids.empty()) split_jobs_.erase(job->id());
  task_ended(key);
}

void Driver::again(InFlight& running, size_t at, Time now) {
  const InFlight::Share& share = running.shares[at];
  Part& part = parts_.at(share.part);
  part.bound = false;
  unwatch(part);
  if (is_loss(share.absence)) ++part.lost;
  if (share.absence == Absence::kCut) ++part.cut;
  part.late = part.late || share.absence == Absence::kLate;
  if (stopping_) {
    share.job->end(Outcome::kUnavailable,
                   error(absl::StatusCode::kUnavailable, "the server is shutting down"), {});
  }
  if (share.job->ended()) {
    forget(share.part);
    if (share.job->open_parts > 0) withdraw_parts(*share.job, now);
  } else if (share.absence == Absence::kAway) {
    set_aside(share.part, running);
  } else if (share.absence == Absence::kCut && part.cut > 1) {
    put_off(share.part, now);
  } else {
    nominate_again(part, now);
  }
}

void Driver::nominate_again(Part& part, Time now) {
  if (remote_) enter_key(part, now);
  scheduler_->nominate(policy::Task(part.task), now, decisions_);
}

// The scheduler does not see it, so that its worker runs what can run, until the process is there.
void Driver::set_aside(JobId id, InFlight& running) {
  Part& part = parts_.at(id);
  const VariantId variant = running.variant->id;
  part.away = variant;
  aside_.emplace(part.job->deadline(), id);
  const WorkerId worker = running.worker;
  if (!awaited_.emplace(variant, worker).second) return;  // one call takes all back
  workers_[worker.index()]->executor->when_back(variant, [this, variant, worker] {
    leave([this, variant, worker] {
      awaited_.erase({variant, worker});
      take_back(variant);
    });
  });
}

void Driver::take_back(VariantId variant) {
  const Time now = monotonic_now();
  std::vector<JobId> back;
  for (const auto& [deadline, id] : aside_) {
    if (parts_.at(id).away == variant) back.push_back(id);
  }
  for (const JobId id : back) {
    Part& part = parts_.at(id);
    leave_aside(part);
    nominate_again(part, now);
  }
  act(now);
}

void Driver::leave_aside(Part& part) {
  if (!part.put_off.is_infinite()) {
    put_off_.erase({std::exchange(part.put_off, Time::infinite()), part.task.job});
  }
  if (std::exchange(part.away, VariantId::none()).is_none()) return;
  aside_.erase({part.job->deadline(), part.task.job});
}

void Driver::refuse_aside(Time now) {
  while (!aside_.empty() && aside_.begin()->first <= now) {
    const JobId id = aside_.begin()->second;
    const std::shared_ptr<Job> job = parts_.at(id).job;
    job->end(Outcome::kRejectedDeadline,
             error(absl::StatusCode::kDeadlineExceeded,
                   "the model's process died and was not started again in time"),
             {});
    forget(id);
    if (job->open_parts > 0) withdraw_parts(*job, now);
  }
  act(now);
}

void Driver::look_aside(Time now) {
  if (!aside_.empty()) refuse_aside(now);
  if (!put_off_.empty() || !resting_.empty() || !mended_at_.empty()) go_on(now);
  if (!watched_.empty()) ask_hosts(now);
}

Time Driver::next_aside() const {
  const auto first = [](const auto& of) {
    return of.empty() ? Time::infinite() : of.begin()->first;
  };
  return std::min(
      {first(aside_), first(watched_), first(put_off_), first(resting_), first(mended_at_)});
}

void Driver::watch(JobId id, WorkerId worker) {
  Part& part = parts_.at(id);
  const Time deadline = part.job->deadline();
  if (deadline.is_infinite() || part.job->route().ensemble != nullptr) return;
  if (!workers_[worker.index()]->executor->comes_and_goes()) return;
  part.watched = worker;
  part.ask = deadline;
  part.asked = Time::infinite();
  watched_.emplace(deadline, id);
}

void Driver::unwatch(Part& part) {
  if (std::exchange(part.watched, WorkerId::none()).is_none()) return;
  watched_.erase({part.ask, part.task.job});
}

void Driver::ask_hosts(Time now) {
  while (!watched_.empty() && watched_.begin()->first <= now) {
    const JobId id = watched_.begin()->second;
    Part& part = parts_.at(id);
    Executor& executor = *workers_[part.watched.index()]->executor;
    const Time heard = executor.ask();
    const bool silent = !part.asked.is_infinite() && heard < part.asked;
    if (silent || part.job->ended()) {
      const std::shared_ptr<Job> job = part.job;
      unwatch(part);
      job->end(
          Outcome::kRejectedDeadline,
          error(absl::StatusCode::kDeadlineExceeded,
                "host '{}', which ran it, has not answered, and is not heard of", executor.host()),
          {});
      if (job->open_parts > 1) withdraw_parts(*job, now);
      continue;
    }
    watched_.erase(watched_.begin());
    part.asked = now;
    part.ask = now + kHeardWithin;
    watched_.emplace(part.ask, id);
  }
  act(now);
}

}  // namespace fermata::engine
