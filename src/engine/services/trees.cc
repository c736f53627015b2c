#include "engine/services/trees.h"

#include "base/clock.h"
#include "base/status.h"
#include "engine/composite/ensemble_service.h"
#include "engine/services/tree_node.h"

namespace fermata::engine {
namespace {

absl::Status stopping() {
  return error(absl::StatusCode::kUnavailable, "the server is shutting down");
}

// Each item of a stage that runs its items one by one has a row.
absl::Status check_rows(const std::vector<Tensor>& inputs, uint32_t items) {
  for (const Tensor& tensor : inputs) {
    const int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
    if (rows == items) continue;
    return invalid("input {} has {} rows, expected {}, one an item", tensor.name, rows, items);
  }
  return absl::OkStatus();
}

policy::Ending ending_of(const ReplyPart& part) {
  if (part.status.ok()) return policy::Ending::kAnswered;
  return part.why.outcome == Outcome::kRejectedDeadline ? policy::Ending::kRejected
                                                        : policy::Ending::kFailed;
}

// What a member answers that is no answer of its ensemble is a failure of the member.
void check_answer(const EnsembleService& ensemble, ReplyPart& part) {
  if (!part.status.ok()) return;
  part.status = ensemble.model->check_answer(part.outputs.front());
  if (!part.status.ok()) part.why.outcome = Outcome::kFailed;
}

}  // namespace

Trees::Trees(Host host, uint32_t operator_threads)
    : host_(std::move(host)),
      tree_([this] { return host_.next_id(); }),
      operators_(operator_threads, host_.ahead_bytes),
      timer_thread_([this] { run_timer(); }) {}

Trees::~Trees() {
  stop();
  timer_thread_.join();
}

bool Trees::handle(absl::FunctionRef<void(Actions&)> event) {
  Actions actions;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return false;
    event(actions);
    ++acting_;
    if (tree_.next_wake() < timer_wakes_) timer_.unpark();
  }
  for (Action& action : actions) action();
  const std::lock_guard lock(mutex_);
  if (--acting_ == 0) quiet_.notify_all();
  return true;
}

void Trees::submit(std::shared_ptr<Job> job) {
  const bool taken = handle([&](Actions& actions) {
    const Time now = monotonic_now();
    auto node = std::make_shared<Node>();
    node->pipeline = job->route().pipeline;
    node->job = job;
    Known& service = known(node->pipeline);
    ++service.users;
    ServiceId id = service.service;
    if (node->pipeline->choice != nullptr) {
      const bool apart = job->items() > 1;
      node->kind = apart ? Node::kItems : Node::kChoice;
      if (apart) id = service.items;
    }
    node->children.resize(node->kind == Node::kItems ? job->items()
                                                     : node->pipeline->stages.size());
    nodes_[job->id()] = std::move(node);
    tree_.arrived(job->id(), id, job->items(), job->deadline(), now, job->request().begun);
    settle(now, actions);
  });
  if (taken) return;
  job->end(Outcome::kUnavailable, stopping(), {});
  job->leave_queue();
}

void Trees::learned(const std::shared_ptr<Job>& job, std::vector<policy::Estimate> by_item) {
  handle([&](Actions& actions) {
    const auto it = nodes_.find(job->id());
    if (it == nodes_.end()) return;
    const Time now = monotonic_now();
    std::vector<JobId> asked = {job->id()};
    if (it->second->kind == Node::kItems) {
      asked.clear();
      for (const Node::Child& child : it->second->children) asked.push_back(child.id);
    }
    for (size_t i = 0; i < std::min(asked.size(), by_item.size()); ++i) {
      const auto node = nodes_.find(asked[i]);
      if (node == nodes_.end()) continue;
      if (const auto* found = std::get_if<policy::Difficulty>(&by_item[i])) {
        node->second->difficulty = *found;
      } else if (asked[i] == job->id()) {
        job->estimates = {by_item[i]};
      }
      tree_.learned(asked[i], by_item[i], now);
    }
    settle(now, actions);
  });
}

bool Trees::cancel(JobId id) {
  bool found = false;
  handle([&](Actions& actions) {
    const auto it = nodes_.find(id);
    found = it != nodes_.end() && it->second->job != nullptr;
    if (!found) return;
    withdraw(id, "the client went away", actions);
    settle(monotonic_now(), actions);
  });
  return found;
}

void Trees::stop() {
  std::vector<std::shared_ptr<Job>> jobs;
  {
    std::unique_lock lock(mutex_);
    stopped_ = true;
    timer_.unpark();
    for (const auto& [id, node] : nodes_) {
      if (node->job != nullptr) jobs.push_back(node->job);
    }
    nodes_.clear();
    quiet_.wait(lock, [this] { return acting_ == 0; });
  }
  for (const auto& job : jobs) {
    job->end(Outcome::kUnavailable, stopping(), {});
    job->leave_queue();
  }
}

void Trees::child_ended(JobId id, ReplyPart part) {
  handle([&](Actions& actions) {
    const Time now = monotonic_now();
    take(id, std::move(part), std::nullopt, now);
    settle(now, actions);
  });
}

void Trees::take(JobId id, ReplyPart part, std::optional<uint32_t> made, Time now) {
  const auto place = children_.extract(id);
  if (place.empty()) return;
  const uint32_t at = place.mapped().child;
  Node& node = *nodes_.at(place.mapped().node);
  place.mapped().of_operator.count(part.why, now);
  if (node.kind == Node::kChoice && node.pipeline->ensemble != nullptr) {
    check_answer(*node.pipeline->ensemble, part);
  }
  const policy::Ending how = ending_of(part);
  std::vector<uint32_t> skipped;
  Node::Child& child = node.children[at];
  const Pipeline::Stage* stage =
      node.kind == Node::kItems ? node.stage : &node.pipeline->stages[at];
  child.why = std::move(part.why);
  child.ended = now;
  if (how == policy::Ending::kAnswered) {
    child.answered = true;
    if (!made) tree_.ran(id, child.why.batch_items, child.why.run, now);
    child.outputs = std::move(part.outputs);
    child.made = made               ? *made  // what ran apart has its items first already
                 : stage != nullptr ? Node::make_items(*stage, child)
                                    : child.items;
    skipped = node.skipped_by(at);
    node.let_go_before(at);
  } else {
    part.why.outcome = child.why.outcome;
    child.error = message(part.status);
    node.failure = std::move(part);
    node.failed_child = stage == nullptr ? "" : stage->name;
  }
  tree_.ended(id, how, child.made, now, skipped);
}

void Trees::withdraw(JobId id, std::string_view why, Actions& actions) {
  bool of_operator = false;
  if (const auto place = children_.extract(id); !place.empty()) {
    of_operator = place.mapped().of_operator.counters != nullptr;
    place.mapped().of_operator.count({.outcome = Outcome::kCancelled}, monotonic_now());
    if (!place.mapped().submitted) unwanted_.insert(id);
  }
  if (!tree_.withdrawn(id)) {
    actions.push_back([this, id, of_operator] { cancel_run(id, of_operator); });
    return;
  }
  const auto it = nodes_.find(id);
  if (const std::shared_ptr<Job> job = it->second->job; job != nullptr) {
    let_go(*it->second->pipeline);
    actions.push_back([job, why] {
      job->end(Outcome::kCancelled, error(absl::StatusCode::kCancelled, "{}", why), {});
      job->leave_queue();
    });
  }
  nodes_.erase(it);
}

void Trees::settle(Time now, Actions& actions) {
  while (!tree_.decisions().empty()) {
    std::swap(acting_on_, tree_.decisions());  // acting on one may decide the next
    for (const Started& started : acting_on_.started) start(started, now, actions);
    for (const JobId id : acting_on_.withdrawn) {
      withdraw(id, "cancelled: no longer needed", actions);
    }
    for (const Ended& ended : acting_on_.ended) finish(ended, now, actions);
    acting_on_.clear();
  }
}

void Trees::branch(const Started& started, std::shared_ptr<Node> node, ServiceId service,
                   Time now) {
  nodes_[started.id] = std::move(node);
  tree_.arrived(started.id, service, started.items, started.due, now, started.begun);
}

void Trees::start(const Started& started, Time now, Actions& actions) {
  const auto it = nodes_.find(started.parent);
  if (it == nodes_.end()) return;  // gone meanwhile
  Node& node = *it->second;
  node.start(started, now);
  children_[started.id] = {started.parent, started.child};
  const auto fail = [&](absl::Status why) {
    ReplyPart part{.status = std::move(why)};
    part.why.outcome = Outcome::kInvalid;
    take(started.id, std::move(part), std::nullopt, now);
  };
  InferRequest request;
  if (node.kind == Node::kItems) {
    auto item = node.item(started.child, node.stage == nullptr);
    if (!item.ok()) return fail(item.status());
    if (node.stage == nullptr) {
      return branch(started,
                    node.branch(Node::kChoice, *std::move(item), node.pipeline->stages.size(), now),
                    known(node.pipeline).service, now);
    }
    request = {.service = node.stage->route_of(node.option),
               .inputs = *std::move(item),
               .outputs = node.stage->outputs,
               .arrival = now,
               .explain = node.explained()};
  } else {
    const Pipeline::Stage& stage = node.pipeline->stages[started.child];
    absl::Status few = node.check_items(started.child, started.items, host_.request_parts);
    if (!few.ok()) return fail(std::move(few));
    request = node.request_for(started.child, started.option, now);
    if (stage.one_by_one) {
      absl::Status fits = check_rows(request.inputs, started.items);
      if (!fits.ok()) return fail(std::move(fits));
      auto inner = node.branch(Node::kItems, std::move(request.inputs), started.items, now);
      inner->stage = &stage;
      inner->option = started.option;
      return branch(started, std::move(inner), started.service, now);
    }
  }
  const Pipeline::Stage& asked =
      node.stage != nullptr ? *node.stage : node.pipeline->stages[started.child];
  if (asked.op != nullptr) {
    children_[started.id].of_operator = {asked.counters, now, started.due, started.items,
                                         node.whole()};
    children_[started.id].submitted = false;
    actions.push_back(
        [this, id = started.id,
         work = operator_work(started, asked, node, std::move(request.inputs), now)]() mutable {
          operators_.submit(std::move(work));
          submitted(id, true);
        });
    return;
  }
  if (!started.due.is_infinite()) request.timeout = started.due - now;
  request.begun = started.begun;
  request.parent = node.whole();
  children_[started.id].submitted = false;
  actions.push_back([this, id = started.id, request = std::move(request)]() mutable {
    host_.submit(id, std::move(request),
                 [this, id](ReplyPart part) { child_ended(id, std::move(part)); });
    submitted(id, false);
  });
}

void Trees::submitted(JobId id, bool of_operator) {
  bool unwanted;
  {
    const std::lock_guard lock(mutex_);
    unwanted = unwanted_.erase(id) > 0;
    if (const auto place = children_.find(id); place != children_.end()) {
      place->second.submitted = true;
    }
  }
  if (unwanted) cancel_run(id, of_operator);
}

void Trees::cancel_run(JobId id, bool of_operator) {
  if (of_operator) {
    operators_.cancel(id);
  } else {
    host_.cancel(id);
  }
}

OperatorRunner::Work Trees::operator_work(const Started& started, const Pipeline::Stage& stage,
                                          const Node& of, std::vector<Tensor> inputs, Time now) {
  const JobId id = started.id;
  const Time deadline = started.due;
  const Known& pipeline = known(of.pipeline);
  const auto at = static_cast<size_t>(&stage - of.pipeline->stages.data());
  // Only what the whole of a request begins with waits: it keeps nothing from being let go of.
  const bool begins_it = of.kind == Node::kStages && of.job->request().parent.is_none();
  return {.id = id,
          .op = stage.op,
          .inputs = std::move(inputs),
          .submitted = now,
          .deadline = deadline,
          .done =
              [this, id, deadline](OperatorRunner::Answer answer) {
                ReplyPart part{.status = answer.outputs.status()};
                if (part.status.ok()) {
                  part.outputs = *std::move(answer.outputs);
                  const bool late = monotonic_now() > deadline;
                  part.why.outcome = late ? Outcome::kLate : Outcome::kOnTime;
                } else if (absl::IsDeadlineExceeded(part.status)) {
                  part.why.outcome = Outcome::kRejectedDeadline;
                } else {
                  part.why.outcome = outcome_of_failure(part.status);
                }
                part.why.batch_items = 1;
                part.why.queueing = answer.waited;
                part.why.run = answer.ran;
                child_ended(id, std::move(part));
              },
          .ahead = pipeline.ahead[at],
          .first = begins_it && pipeline.first == at,
          .runs = pipeline.busy_runs};
}

}  // namespace fermata::engine
