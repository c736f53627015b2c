// Requests on their way to a scheduler.
#include <utility>

#include "absl/strings/match.h"
#include "base/status.h"
#include "engine/host/real_engine.h"
#include "engine/schedule/entry.h"
#include "engine/schedule/learn.h"

namespace fermata::engine {
void RealEngine::submit_as(JobId id, InferRequest&& request, Reply reply, bool of_stage) {
  if (options_.inputs_elsewhere && request.elsewhere == nullptr) {
    unknown_.fetch_add(1, std::memory_order_relaxed);
    return reject(request, reply,
                  error(absl::StatusCode::kFailedPrecondition,
                        "this process only schedules: ask a frontend (fermata frontend)"),
                  Outcome::kInvalid);
  }
  const auto routes = routes_.read();
  auto route = routes->find(request.service, request.version);
  const bool hidden = !of_stage && absl::StrContains(request.service, '/') &&
                      routes->catalog->find(request.service) == nullptr;  // the stages of pipelines
  if (hidden && request.elsewhere != nullptr) {
    of_stage = true;  // of a service that runs in a frontend, which has let it in
  } else if (hidden) {
    route = routes->catalog->find(request.service, request.version).status();
  }
  const bool is_made_of_services =
      streams_.serves(request.service) || (route.ok() && (*route)->pipeline != nullptr);
  if (request.elsewhere != nullptr && is_made_of_services) {
    unknown_.fetch_add(1, std::memory_order_relaxed);
    return reject(request, reply,
                  error(absl::StatusCode::kFailedPrecondition,
                        "'{}' is made of several services, which a frontend asks for one by one: "
                        "it has another configuration than its scheduler",
                        request.service),
                  Outcome::kInvalid);
  }
  if (route.ok()) {
    return admit_and_queue(id, std::move(request), std::move(reply), *std::move(route),
                           of_stage ? Place::kTaken : Place::kAsked);
  }
  // A stage's was there when its service was made, and goes with what it runs: the whole is
  // counted.
  if (of_stage) {
    return reject(request, reply,
                  error(absl::StatusCode::kUnavailable, "what it runs was unloaded"),
                  Outcome::kUnavailable);
  }
  const auto outcome =
      absl::IsUnavailable(route.status()) ? Outcome::kUnavailable : Outcome::kInvalid;
  const auto counters = hidden ? nullptr : routes->counters(request.service);
  if (counters != nullptr) {
    counters->count_end(outcome, {.arrival = request.arrival, .ended = now()});
  } else {
    unknown_.fetch_add(1, std::memory_order_relaxed);
  }
  reject(request, reply, route.status(), outcome);
}

void RealEngine::admit_and_queue(JobId id, InferRequest&& request, Reply reply,
                                 std::shared_ptr<Route> route, Place place) {
  auto job = let_in(id, std::move(request), std::move(reply), std::move(route), place);
  if (job == nullptr) return;
  auto inputs = worth_a_look(job->route(), job->request(), job->items());  // it may give them away
  queue(job);
  learn(job->route(), std::move(inputs), job->items(), [this, job](auto by_item) {
    if (job->route().pipeline != nullptr) return trees_.learned(job, std::move(by_item));
    pool_->learned(job->route().subcluster, job, std::move(by_item));
  });
}

// A reload or a move took the job's variant away between submit and the scheduler: it goes
// to where requests of its service go now, with its slot in the queue, or is refused.
void RealEngine::adopt(std::shared_ptr<Job> job) {
  Gate& gate = *job->route().gate;
  const uint64_t connection = job->request().connection;
  bool moved = false;
  job->move_to([&](InferRequest request, Reply reply, const Route& old, JobId id) {
    auto route = routes_.read()->find(old.service, request.version);
    const bool elsewhere = route.ok() && ((*route)->variant->id != old.variant->id ||
                                          (*route)->subcluster != old.subcluster);
    if (elsewhere && !stopping_) {
      moved = true;
      admit_and_queue(id, std::move(request), std::move(reply), *std::move(route), Place::kHad);
      return;
    }
    old.counters->count_end(Outcome::kUnavailable, {.arrival = request.arrival, .ended = now()});
    request.version = old.variant->version;
    reject(request, reply,
           error(absl::StatusCode::kUnavailable, "model '{}' was unloaded", old.variant->model),
           Outcome::kUnavailable);
  });
  if (!moved) gate.leave(connection);
}

}  // namespace fermata::engine
