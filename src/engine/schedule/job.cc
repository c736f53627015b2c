#include "engine/schedule/job.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/clock.h"
#include "base/status.h"
#include "engine/composite/ensemble_service.h"
#include "engine/composite/explain.h"
#include "engine/composite/variants_service.h"
#include "engine/deadline.h"
#include "engine/observer.h"
#include "engine/schedule/entry.h"

namespace fermata::engine {

// A part of a composite's request is one item.
void Route::count_answer(const PartRun& run) const {
  if (answers.empty()) return;
  const auto count = [this](size_t at) {
    if (at < answers.size()) answers[at]->fetch_add(1, std::memory_order_relaxed);
  };
  const auto& members = composite->variants;
  if (!run.ensemble && run.variant == nullptr) return count(members.size());  // its evidence
  for (size_t v = 0; v < members.size(); ++v) {
    const bool took_part =
        run.ensemble ? (run.ensemble->how.ran >> v & 1) != 0 : run.variant->id == members[v]->id;
    if (took_part) count(v);
  }
}

std::shared_ptr<const policy::ServiceInfo> Route::info() const {
  if (variants != nullptr) return std::make_shared<const policy::ServiceInfo>(variants->info);
  if (ensemble != nullptr) return std::make_shared<const policy::ServiceInfo>(ensemble->info);
  return nullptr;
}

Job::Job(JobId id, InferRequest&& request, Reply reply, std::shared_ptr<Route> route,
         Admitted admitted)
    : id_(id),
      connection_(request.connection),
      request_(std::move(request)),
      reply_(std::move(reply)),
      route_(std::move(route)),
      admitted_(std::move(admitted)),
      deadline_(deadline_of(request_, route_->slo)) {}

void Job::split(uint32_t parts) { split_ = std::make_unique<Split>(parts); }

void Job::move_to(absl::FunctionRef<void(InferRequest, Reply, const Route& old, JobId id)> next) {
  if (!ended_.exchange(true)) next(std::move(request_), std::move(reply_), *route_, id_);
}

Explanation Job::explain(const PartRun& run, uint32_t part) const {
  Explanation why;
  if (run.variant == nullptr) {
    why.variant = kEvidence;
  } else {
    why.variant = run.variant->model;
    why.version = run.variant->version;
  }
  why.worker = run.worker;
  why.batch_items = run.batch_items;
  why.budget = deadline_ - request_.arrival;
  why.queueing = run.started - request_.arrival;
  why.run = run.input + run.run + run.output;
  why.remaining = deadline_ - monotonic_now();
  if (deadline_.is_infinite()) why.budget = why.remaining = Duration::infinite();
  if (route_->variants != nullptr) {
    static const policy::Evidence kNothing;
    const bool known = part < estimates.size();
    explain_choice(*route_->variants,
                   known ? std::get<policy::Evidence>(estimates[part]) : kNothing, run, deadline_,
                   why);
  }
  why.stages = run.stages;
  if (run.ensemble) explain_subset(*route_->ensemble, *run.ensemble, why);
  return why;
}

void Job::send(absl::Status status, std::vector<Tensor> outputs, Explanation&& why) {
  held_ = HeldBytes();
  if (const auto& budget = route_->gate->bytes; budget != nullptr)
    count_until_read(outputs, budget);
  reply_({std::move(status), std::move(outputs), route_->service, route_->variant->version,
          request_.id, std::move(why)});
}

void Job::observe_end(const Explanation& why, Time now, const PartRun& run) const {
  const Counters& counters = *route_->counters;
  if (counters.observer() == nullptr) return;
  const bool alone = run.variant != nullptr && !run.ensemble && route_->pipeline == nullptr;
  counters.observer()->ended(
      {.request = id_,
       .service = counters.number(),
       .outcome = why.outcome,
       .at = now,
       .queueing = why.queueing,
       .run = why.run,
       .model = alone ? run.variant->id : VariantId::none(),
       .subset = run.ensemble ? static_cast<uint32_t>(run.ensemble->how.ran) : 0,
       .accuracy = static_cast<float>(why.expected_accuracy)});
}

void Job::observe_coming() const {
  const Counters& counters = *route_->counters;
  if (counters.observer() == nullptr) return;
  counters.observer()->came({.id = id_,
                             .parent = request_.parent,
                             .service = counters.number(),
                             .items = admitted_.items,
                             .arrival = request_.arrival,
                             .submitted = monotonic_now(),
                             .deadline = deadline_,
                             .network = request_.network_time,
                             .client_id = request_.id});
}

bool Job::end(Outcome outcome, absl::Status status, Explanation why) {
  if (ended_.exchange(true)) return false;
  const Time now = monotonic_now();
  why.outcome = outcome;
  why.variant = route_->variant->model;
  why.version = route_->variant->version;
  why.budget = deadline_.is_infinite() ? Duration::infinite() : deadline_ - request_.arrival;
  if (why.remaining == Duration()) {  // else it is what it was when that was decided
    why.remaining = deadline_.is_infinite() ? Duration::infinite() : deadline_ - now;
  }
  route_->counters->count_end(
      outcome, {.arrival = request_.arrival, .deadline = deadline_, .ended = now, .run = why.run});
  observe_end(why, now, {});
  spdlog::debug("request {} ('{}') of '{}' ended as {}: {}", id_.value(), request_.id,
                route_->service, name(outcome), message(status));
  send(std::move(status), {}, std::move(why));
  return true;
}

void Job::finish(absl::StatusOr<std::vector<Tensor>> outputs, const PartRun& run,
                 Explanation&& why) {
  if (ended_.exchange(true)) return;
  if (split_ == nullptr && outputs.ok()) route_->count_answer(run);
  const Time now = monotonic_now();
  const Outcome outcome = !outputs.ok()      ? outcome_of_failure(outputs.status())
                          : now <= deadline_ ? Outcome::kOnTime
                                             : Outcome::kLate;
  route_->counters->count_end(outcome, {.arrival = request_.arrival,
                                        .deadline = deadline_,
                                        .ended = now,
                                        .queueing = run.started - request_.arrival,
                                        .input = run.input,
                                        .run = run.run,
                                        .output = run.output,
                                        .items = admitted_.items});
  why.outcome = outcome;
  observe_end(why, now, run);
  absl::Status status = outputs.status();
  send(std::move(status), outputs.ok() ? *std::move(outputs) : std::vector<Tensor>(),
       std::move(why));
}

// The reply goes out beyond the lock, since it may lead to anything, such as the end of this very
// job.
void Job::answered(uint32_t part, absl::StatusOr<std::vector<Tensor>> outputs, const PartRun& run) {
  if (split_ != nullptr && outputs.ok()) {
    const std::lock_guard lock(split_->mutex);
    if (ended()) return;
    route_->count_answer(run);
    split_->join.take(part, *std::move(outputs));
    if (!split_->join.complete()) return;
    outputs = whole();
  }
  finish(std::move(outputs), run, explain(run, part));
}

absl::StatusOr<std::vector<Tensor>> Job::whole() {
  auto joined = split_->join.concatenate();
  if (joined.ok() || route_->variants == nullptr) return joined;
  // Which rows one variant makes of an item, another need not.
  return error(absl::StatusCode::kFailedPrecondition,
               "its items were answered by several variants, which do not fit together ({}): "
               "send one item a request",
               message(joined.status()));
}

}  // namespace fermata::engine
