#include "cluster/frontend/stage_reruns.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"

namespace fermata::cluster {
namespace {

std::shared_ptr<const HeldRequests::Source> source_of(const Tensor& input) {
  if (input.data.elsewhere == nullptr) return nullptr;
  return std::static_pointer_cast<const HeldRequests::Source>(input.data.elsewhere->source);
}

// The inputs that this source gave, from what it gave again: how many bytes these have.
absl::StatusOr<uint64_t> replace(std::vector<Tensor>& inputs, const HeldRequests::Source* source,
                                 const std::vector<Tensor>& outputs) {
  uint64_t came = 0;
  for (Tensor& input : inputs) {
    if (source_of(input).get() != source) continue;
    const auto again = absl::c_find_if(outputs, [&input](const Tensor& output) {
      return output.name == input.data.elsewhere->name;
    });
    if (again == outputs.end() || again->data.bytes.size() != input.data.size()) {
      return internal("a stage that ran again gave something else");
    }
    input.data = again->data;
    came += input.data.bytes.size();
  }
  return came;
}

}  // namespace

bool StageReruns::begin(JobId id) {
  std::map<const Source*, JobId> runs;
  std::vector<std::shared_ptr<const Source>> sources;
  Time deadline;
  {
    const std::lock_guard lock(mutex_);
    std::optional<HeldRequests::Request> request = requests_.lose_inputs(id.value());
    if (!request) return false;
    for (const Tensor& input : request->request.inputs) {
      std::shared_ptr<const Source> source = source_of(input);
      if (source == nullptr || runs.contains(source.get())) continue;
      runs.emplace(source.get(), JobId(requests_.next_key()));
      sources.push_back(std::move(source));
    }
    FERMATA_CHECK(!sources.empty());
    deadline = request->deadline;
    waiting_.emplace(id, Waiting{*std::move(request), runs});
  }
  run(id, runs, std::move(sources), deadline);
  return true;
}

// Their sources, which have the inputs, stay until they end.
void StageReruns::run(JobId id, const std::map<const Source*, JobId>& runs,
                      std::vector<std::shared_ptr<const Source>> sources, Time deadline) {
  const Time now = monotonic_now();
  for (std::shared_ptr<const Source>& source : sources) {
    engine::InferRequest whole = source->request;
    whole.arrival = now;
    whole.begun = true;
    whole.timeout.reset();
    if (!deadline.is_infinite()) whole.timeout = std::max(deadline - now, Duration());
    const JobId run = runs.at(source.get());
    host_.submit(run, std::move(whole),
                 [this, id, from = std::move(source)](engine::ReplyPart part) {
                   ended(id, from.get(), std::move(part));
                 });
  }
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.contains(id)) return;
  }
  // Who ended it meanwhile may have found nothing to cancel.
  for (const auto& [source, run] : runs) host_.cancel(run);
}

void StageReruns::ended(JobId id, const Source* source, engine::ReplyPart part) {
  std::map<JobId, Waiting>::node_type whole;
  {
    const std::lock_guard lock(mutex_);
    const auto it = waiting_.find(id);
    if (it == waiting_.end() || it->second.runs.erase(source) == 0) return;
    Waiting& waiting = it->second;
    HeldRequests::Request& request = waiting.request;
    if (part.status.ok()) {
      const auto came = replace(request.request.inputs, source, part.outputs);
      if (came.ok()) waiting.came += *came;
      part.status = came.status();
      if (!part.status.ok()) part.why.outcome = engine::Outcome::kFailed;
    }
    if (part.status.ok() && !waiting.runs.empty()) return;
    if (part.status.ok() && !request.bytes.grow_by(waiting.came)) {
      part.status = error(absl::StatusCode::kResourceExhausted,
                          "memory limit reached (limits.held_mb): no room for {} bytes that a "
                          "stage of '{}' gave again; retry later",
                          waiting.came, request.request.service);
      part.why.outcome = engine::Outcome::kRejectedQueue;
    }
    whole = waiting_.extract(it);
  }
  if (part.status.ok()) return host_.go_on(id, std::move(whole.mapped().request));
  refuse(id, std::move(whole.mapped()), std::move(part));
}

void StageReruns::cancel(JobId id) {
  std::map<JobId, Waiting>::node_type whole;
  {
    const std::lock_guard lock(mutex_);
    whole = waiting_.extract(id);
  }
  if (whole.empty()) return;
  for (const auto& [source, run] : whole.mapped().runs) host_.cancel(run);
  host_.go_on(id, std::move(whole.mapped().request));  // which ends it there
}

void StageReruns::refuse(JobId id, Waiting waiting, engine::ReplyPart part) {
  for (const auto& [source, run] : waiting.runs) host_.cancel(run);
  requests_.let_go(id.value());
  HeldRequests::Request& request = waiting.request;
  request.bytes = HeldBytes();
  request.reply({.status = std::move(part.status),
                 .model = request.request.service,
                 .version = request.variant->version,
                 .id = request.request.id,
                 .why = {.outcome = part.why.outcome}});
}

}  // namespace fermata::cluster
