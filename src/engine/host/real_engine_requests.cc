// Requests on their way to a scheduler.
#include <utility>

#include "absl/strings/match.h"
#include "base/status.h"
#include "engine/host/real_engine.h"
#include "engine/schedule/entry.h"

namespace fermata::engine {
namespace {

// Items of one request that are looked at for evidence: a larger one would keep others waiting.
constexpr uint32_t kMostLookedAt = 256;

}  // namespace

void RealEngine::submit_as(JobId id, InferRequest request, Reply reply, bool of_stage) {
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
  if (route.ok() && request.elsewhere != nullptr && (*route)->pipeline != nullptr) {
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

void RealEngine::admit_and_queue(JobId id, InferRequest request, Reply reply,
                                 std::shared_ptr<Route> route, Place place) {
  auto job = let_in(id, std::move(request), std::move(reply), std::move(route), place);
  if (job == nullptr) return;
  std::shared_ptr<const std::vector<Tensor>> inputs;  // the job may give its own away
  const Route& to = job->route();
  const bool looked_at = to.variants != nullptr && job->items() <= kMostLookedAt;
  if ((looked_at || to.ensemble != nullptr) && job->request().elsewhere == nullptr) {
    inputs = std::make_shared<const std::vector<Tensor>>(job->request().inputs);
  }
  queue(job);
  look_at(std::move(job), std::move(inputs));
}

// Finds out what the data of a job for several variants says; what comes too late for its
// batch changes nothing.
void RealEngine::look_at(std::shared_ptr<Job> job,
                         std::shared_ptr<const std::vector<Tensor>> inputs) {
  const Route& route = job->route();
  if (inputs == nullptr) return;
  const auto tell = [this](const std::shared_ptr<Job>& of, std::vector<policy::Estimate> by_item) {
    if (of->route().pipeline != nullptr) return trees_.learned(of, std::move(by_item));
    pool_->learned(of->route().subcluster, of, std::move(by_item));
  };
  if (route.ensemble != nullptr) {
    EnsembleModel& model = *route.ensemble->model;
    if (!model.predicts()) return;
    const uint32_t items = job->items();
    return model.score(std::move(inputs), items, [tell, job = std::move(job)](const auto& by_item) {
      tell(job, {by_item.begin(), by_item.end()});
    });
  }
  if (route.variants->evidence == nullptr) return;
  EvidenceModel& evidence = *route.variants->evidence;
  evidence.submit(std::move(inputs), [tell, job = std::move(job)](const auto& found) {
    if (found) tell(job, {found->counts.begin(), found->counts.end()});
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
