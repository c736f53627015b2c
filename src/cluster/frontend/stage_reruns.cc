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

engine::ReplyPart gone() {
  return {.status = error(absl::StatusCode::kCancelled, "the client has gone"),
          .why = {.outcome = engine::Outcome::kCancelled}};
}

}  // namespace

bool StageReruns::begin(JobId id, Lose lose) {
  {
    const std::lock_guard lock(mutex_);
    if (!waiting_.try_emplace(id).second) return false;
  }
  std::optional<HeldRequests::Request> request = lose();
  if (!request) {
    handed_over(id);
    return false;
  }
  Waiting taken;
  std::vector<std::shared_ptr<const Source>> sources;
  for (const Tensor& input : request->request.inputs) {
    std::shared_ptr<const Source> source = source_of(input);
    if (source == nullptr || taken.runs.contains(source.get())) continue;
    taken.runs.emplace(source.get(), host_.next_id());
    sources.push_back(std::move(source));
  }
  FERMATA_CHECK(!sources.empty());
  const auto runs = taken.runs;
  const Time deadline = request->deadline;
  taken.request = std::move(request);
  engine::ReplyPart ends;
  {
    const std::lock_guard lock(mutex_);
    Waiting& place = waiting_.at(id);
    if (place.cancelled) ends = gone();
    if (over_) ends = {.status = *over_, .why = {.outcome = engine::Outcome::kUnavailable}};
    if (ends.status.ok()) {
      place = std::move(taken);
    } else {
      waiting_.erase(id);
      taken.runs.clear();
    }
  }
  if (ends.status.ok()) {
    run(id, runs, std::move(sources), deadline);
  } else {
    refuse(std::move(taken), std::move(ends));
  }
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
  Waiting whole;
  {
    const std::lock_guard lock(mutex_);
    const auto it = waiting_.find(id);
    if (it == waiting_.end() || it->second.runs.erase(source) == 0) return;
    Waiting& waiting = it->second;
    HeldRequests::Request& request = *waiting.request;
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
    if (part.status.ok()) {
      whole.request = std::exchange(waiting.request, std::nullopt);
    } else {
      whole = std::move(waiting);
      waiting_.erase(it);
    }
  }
  if (!part.status.ok()) return refuse(std::move(whole), std::move(part));
  host_.go_on(id, *std::move(whole.request));
  handed_over(id);
}

// Or stayed where it was. Who wanted to cancel it was told that it is here.
void StageReruns::handed_over(JobId id) {
  bool cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    const auto it = waiting_.find(id);
    cancelled = it->second.cancelled;
    waiting_.erase(it);
  }
  if (cancelled) host_.cancel(id);
}

bool StageReruns::cancel(JobId id) {
  Waiting whole;
  {
    const std::lock_guard lock(mutex_);
    const auto it = waiting_.find(id);
    if (it == waiting_.end()) return false;
    if (!it->second.request) return it->second.cancelled = true;
    whole = std::move(it->second);
    waiting_.erase(it);
  }
  refuse(std::move(whole), gone());
  return true;
}

void StageReruns::stop(const absl::Status& why) {
  std::vector<Waiting> all;
  {
    const std::lock_guard lock(mutex_);
    over_ = why;
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (!it->second.request) {  // who has it next ends it
        ++it;
        continue;
      }
      all.push_back(std::move(it->second));
      it = waiting_.erase(it);
    }
  }
  for (Waiting& each : all) {
    refuse(std::move(each), {.status = why, .why = {.outcome = engine::Outcome::kUnavailable}});
  }
}

void StageReruns::refuse(Waiting waiting, engine::ReplyPart part) {
  for (const auto& [source, run] : waiting.runs) host_.cancel(run);
  HeldRequests::Request& request = *waiting.request;
  request.bytes = HeldBytes();
  request.reply({.status = std::move(part.status),
                 .model = request.request.service,
                 .version = request.variant->version,
                 .id = request.request.id,
                 .why = {.outcome = part.why.outcome}});
}

}  // namespace fermata::cluster
