#include "cluster/frontend/stage_reruns.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"

namespace fermata::cluster {
namespace {

const HeldRequests::Source* source_of(const Tensor& input) {
  if (input.data.elsewhere == nullptr) return nullptr;
  return static_cast<const HeldRequests::Source*>(input.data.elsewhere->source.get());
}

// The inputs that this source gave, from what it gave again.
absl::Status replace(std::vector<Tensor>& inputs, const HeldRequests::Source* source,
                     const std::vector<Tensor>& outputs) {
  for (Tensor& input : inputs) {
    if (source_of(input) != source) continue;
    const auto again = absl::c_find_if(outputs, [&input](const Tensor& output) {
      return output.name == input.data.elsewhere->name;
    });
    if (again == outputs.end() || again->data.bytes.size() != input.data.size()) {
      return internal("a stage that ran again gave something else");
    }
    input.data = again->data;
  }
  return absl::OkStatus();
}

}  // namespace

void StageReruns::begin(JobId id, HeldRequests::Request request) {
  Waiting waiting{.request = std::move(request)};
  std::vector<std::pair<const HeldRequests::Source*, engine::InferRequest>> again;
  const Time now = monotonic_now(), deadline = waiting.request.deadline;
  for (const Tensor& input : waiting.request.request.inputs) {
    const HeldRequests::Source* source = source_of(input);
    if (source == nullptr || waiting.runs.contains(source)) continue;
    waiting.runs.emplace(source, host_.next_id());
    engine::InferRequest& whole = again.emplace_back(source, source->request).second;
    whole.arrival = now;
    whole.begun = true;
    whole.timeout.reset();
    if (!deadline.is_infinite()) whole.timeout = std::max(deadline - now, Duration());
  }
  FERMATA_CHECK(!again.empty());
  const auto runs = waiting.runs;
  {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(id, std::move(waiting));
  }
  for (auto& [source, whole] : again) {
    host_.submit(
        runs.at(source), std::move(whole),
        [this, id, from = source](engine::ReplyPart part) { ended(id, from, std::move(part)); });
  }
}

void StageReruns::ended(JobId id, const HeldRequests::Source* source, engine::ReplyPart part) {
  Waiting whole;
  {
    const std::lock_guard lock(mutex_);
    const auto it = waiting_.find(id);
    if (it == waiting_.end()) return;
    Waiting& waiting = it->second;
    waiting.runs.erase(source);
    if (part.status.ok()) {
      part.status = replace(waiting.request.request.inputs, source, part.outputs);
      if (!part.status.ok()) part.why.outcome = engine::Outcome::kFailed;
    }
    if (part.status.ok() && !waiting.runs.empty()) return;
    whole = std::move(waiting);
    waiting_.erase(it);
  }
  if (!part.status.ok()) return refuse(std::move(whole), std::move(part));
  host_.go_on(id, std::move(whole.request));
}

bool StageReruns::cancel(JobId id) {
  Waiting whole;
  {
    const std::lock_guard lock(mutex_);
    auto it = waiting_.find(id);
    if (it == waiting_.end()) return false;
    whole = std::move(it->second);
    waiting_.erase(it);
  }
  refuse(std::move(whole), {.status = error(absl::StatusCode::kCancelled, "the client has gone"),
                            .why = {.outcome = engine::Outcome::kCancelled}});
  return true;
}

void StageReruns::refuse(Waiting waiting, engine::ReplyPart part) {
  for (const auto& [source, run] : waiting.runs) host_.cancel(run);
  HeldRequests::Request& request = waiting.request;
  request.bytes = HeldBytes();
  request.reply({.status = std::move(part.status),
                 .model = request.request.service,
                 .version = request.variant->version,
                 .id = request.request.id,
                 .why = {.outcome = part.why.outcome}});
}

}  // namespace fermata::cluster
