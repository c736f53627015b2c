// How what the tree has ended is answered.
#include <fmt/format.h>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "engine/composite/ensemble_service.h"
#include "engine/observer.h"
#include "engine/schedule/budget_text.h"
#include "engine/services/tree_node.h"
#include "engine/services/trees.h"

namespace fermata::engine {

void Trees::OperatorRun::count(const Explanation& why, Time now) const {
  if (counters == nullptr) return;
  counters->count_end(why.outcome, {.arrival = started,
                                    .deadline = due,
                                    .ended = now,
                                    .queueing = why.queueing,
                                    .run = why.run,
                                    .items = items});
  if (Observer* observer = counters->observer(); observer != nullptr) {
    observer->ran({whole, counters->number(), started, why.queueing, why.run});
  }
  if (why.run > Duration()) counters->count_batch(1, {}, why.run, {});
}

// What has no job of its own answers its parent.
void Trees::finish(const Ended& ended, Time now, Actions& actions) {
  const auto it = nodes_.find(ended.id);
  if (it == nodes_.end()) return;
  const std::shared_ptr<Node> node = std::move(it->second);
  nodes_.erase(it);
  if (node->job != nullptr) let_go(*node->pipeline);
  const bool combined = node->kind == Node::kChoice && node->pipeline->ensemble != nullptr;
  if (ended.how != policy::Ending::kAnswered || !combined) {
    if (node->job == nullptr) {
      ReplyPart part = std::move(node->failure);
      if (ended.how == policy::Ending::kAnswered) {
        auto outputs = node->outputs();
        part = {.status = outputs.status()};
        if (outputs.ok()) part.outputs = *std::move(outputs);
        const auto first =
            absl::c_find_if(node->children, [](const Node::Child& c) { return c.answered; });
        if (first != node->children.end()) part.why = first->why;
        if (node->kind == Node::kItems) node->sum_up(part.why);
        if (!part.status.ok()) part.why.outcome = outcome_of_failure(part.status);
      } else if (ended.how == policy::Ending::kRejected) {
        part.why.outcome = Outcome::kRejectedDeadline;
        if (part.status.ok()) part.status = error(absl::StatusCode::kDeadlineExceeded, "too late");
      }
      return take(ended.id, std::move(part),
                  node->kind == Node::kItems ? std::optional(ended.made) : std::nullopt, now);
    }
    actions.push_back([node, ended, now] { reply(*node, ended, now); });
    return;
  }
  actions.push_back([this, node, id = ended.id, now] { combine(node, id, now); });
}

void Trees::combine(const std::shared_ptr<Node>& node, JobId id, Time now) {
  Join join = node->answers();
  const plan::Subset all = join.taken();
  PartRun run = node->run(now);
  run.ensemble = {.how = {.ran = all, .planned = all}, .difficulty = node->difficulty};
  EnsembleModel& model = *node->pipeline->ensemble->model;
  join.aggregate(model, all, std::move(run),
                 [this, node, id](absl::StatusOr<Outputs> outputs, const PartRun& run) {
                   if (node->job != nullptr) {
                     node->job->answered(0, std::move(outputs), run);
                     return node->job->leave_queue();
                   }
                   ReplyPart part{.status = outputs.status()};
                   if (outputs.ok()) part.outputs = *std::move(outputs);
                   part.why.variant = node->pipeline->ensemble->name_of(run.ensemble->how.ran);
                   part.why.run = run.run;
                   part.why.outcome =
                       part.status.ok() ? Outcome::kOnTime : outcome_of_failure(part.status);
                   child_ended(id, std::move(part));
                 });
}

void Trees::reply(const Node& node, const Ended& ended, Time now) {
  Job& job = *node.job;
  if (ended.how == policy::Ending::kAnswered) {
    job.answered(0, node.outputs(), node.run(now));
  } else if (ended.how == policy::Ending::kRejected) {
    const Duration budget = job.deadline() - job.request().arrival;
    job.end(Outcome::kRejectedDeadline,
            error(absl::StatusCode::kDeadlineExceeded,
                  "cannot end in time: {}; the stages that have not run are expected to wait "
                  "{:.3f} ms and to run {:.3f} ms",
                  budget_text(budget, job.deadline() - now), ended.met.wait.millis(),
                  ended.met.run.millis()),
            {.queueing = ended.met.wait,
             .run = ended.met.run,
             .remaining = job.deadline() - now,
             .stages = node.explain_stages(now, ended.infeasible)});
  } else {
    const absl::Status& why = node.failure.status;
    // What does not fit a stage is the service's own fault, unless there is too much of it or the
    // stage ran on it: then its values are at fault, which come from the client.
    const bool invalid = node.failure.why.outcome == Outcome::kInvalid &&
                         !absl::IsOutOfRange(why) && node.failure.why.batch_items == 0;
    std::string text(message(why));
    if (!node.failed_child.empty()) text = fmt::format("stage '{}': {}", node.failed_child, text);
    job.end(invalid ? Outcome::kFailed : node.failure.why.outcome,
            absl::Status(invalid ? absl::StatusCode::kInternal : why.code(), text),
            {.stages = node.explain_stages(now)});
  }
  job.leave_queue();
}

}  // namespace fermata::engine
