// What the driver does for requests that have children: it acts on what the tree says.
#include <algorithm>
#include <limits>

#include "base/status.h"
#include "base/topological.h"
#include "policy/tree/members.h"
#include "policy/tree/parts.h"
#include "policy/tree/pipeline.h"
#include "simulate/run.h"

namespace fermata::simulate {
namespace {

constexpr uint64_t kMostMade = 1'000'000;  // items, by one stage of one request

}  // namespace

std::shared_ptr<const LatencyTable> Run::fastest(const std::vector<KeyId>& keys) const {
  std::shared_ptr<const LatencyTable> best;
  for (const KeyId key : keys) {
    for (const auto& table : latencies_[key.index()].tables()) {
      if (best == nullptr || (*table)(1) < (*best)(1)) best = table;
    }
  }
  return best;
}

void Run::add_to_tree(Source& source, const std::vector<KeyId>& answers, uint32_t most_items) {
  source.most_items = most_items;
  source.service = tree_.add_leaf(fastest(answers));
  source.parts = tree_.add(std::make_unique<policy::PartsChooser>(source.service, most_items));
}

void Run::add_pipelines() {
  for (const SimulatedPipeline& pipeline : scenario_.pipelines) {
    Source source{.slo = pipeline.slo,
                  .pipeline = &pipeline,
                  .demand = &pipeline.demand,
                  .most_items = std::numeric_limits<uint32_t>::max()};
    for (const SimulatedStage& stage : pipeline.stages) source.members.push_back(stage.service);
    add_source(std::move(source), pipeline.share, pipeline.arrival, pipeline.name);
  }
}

std::unique_ptr<policy::Chooser> Run::chooser_of(const Source& source) const {
  std::vector<ServiceId> members;
  for (const size_t member : source.members) members.push_back(sources_[member].service);
  if (source.pipeline != nullptr) {
    std::vector<policy::StageInfo> stages;
    for (size_t s = 0; s < members.size(); ++s) {
      stages.push_back({members[s], source.pipeline->stages[s].after});
      stages.back().options = sources_[source.members[s]].options;
    }
    return std::make_unique<policy::PipelineChooser>(std::move(stages));
  }
  return std::make_unique<policy::MembersChooser>(info_of(source, {}), std::move(members));
}

// What is made of services; what each contains first.
void Run::add_composites() {
  std::vector<std::vector<uint32_t>> members;
  for (size_t s = 0; s < sources_.size(); ++s) {
    Source& source = sources_[s];
    members.emplace_back(source.members.begin(), source.members.end());
    if (source.members.empty()) continue;
    source.key = KeyId(static_cast<uint32_t>(names_.size()));
    know(source.key, source.name(), s);
  }
  for (const uint32_t s : topological_order(members).order) {
    Source& source = sources_[s];
    if (source.members.empty()) continue;
    add_options(source);
    source.service = tree_.add(chooser_of(source));
    source.parts =
        tree_.add(std::make_unique<policy::PartsChooser>(source.service, source.most_items));
    for (size_t m = 0; m < source.members.size(); ++m) {
      ModelResult& own = result_.models[s].stages.emplace_back();
      own.name =
          source.pipeline != nullptr ? source.pipeline->stages[m].name : source.models()[m].name;
      if (sources_[source.members[m]].variants != nullptr) own.variants.emplace();
      if (sources_[source.members[m]].ensemble != nullptr) own.ensemble.emplace();
    }
  }
}

Run::Branch* Run::branch(JobId id) {
  if (branches_.empty()) return nullptr;
  const auto it = branches_.find(id);
  return it == branches_.end() ? nullptr : &it->second;
}

void Run::begin(JobId id, Branch made, Time deadline, bool begun, Time now) {
  Source& source = sources_[made.source];
  const bool planned = !made.key.is_none();
  made.has_parts = made.items > (planned ? latencies_[made.key.index()].slowest()->max_batch()
                                         : source.most_items);
  made.task = {id, planned ? made.key : source.key, now, deadline, made.items};
  made.task.begun = begun;
  Branch& own = branches_[id] = made;
  if (source.members.empty() && !own.has_parts) return nominate(own.task, source, now);
  if (!own.has_parts) draw(own.task, source, now);
  // What was drawn of it moves both.
  if (own.parent.is_none() && own.task.deadline != deadline) own.deadline = own.task.deadline;
  trace(TraceEvent::kOpened, id, source.key, own.items, now, own.task.deadline);
  tree_.arrived(id, own.has_parts ? source.parts : source.service, own.items, own.task.deadline,
                now, begun);
}

void Run::act_on_tree(Time now) {
  while (!tree_.decisions().empty()) {
    std::swap(branching_, tree_.decisions());
    for (const auto& started : branching_.started) start_branch(started, now);
    for (const JobId id : branching_.withdrawn) withdraw_branch(id, now);
    for (const auto& ended : branching_.ended) branch_ended(ended.id, ended.how, ended.made, now);
    branching_.clear();
  }
}

void Run::start_branch(const policy::TreeDecisions::Started& started, Time now) {
  const Branch* parent = branch(started.parent);
  if (parent == nullptr || parent->gone) return;
  Branch own{.source = parent->source,
             .parent = started.parent,
             .child = started.child,
             .key = parent->key,  // of parts of a planned stage
             .items = started.items,
             .started = now,
             .deadline = parent->deadline,
             .measured = parent->measured,
             .result = parent->result};
  if (!parent->has_parts) {
    own.source = sources_[parent->source].members[started.child];
    own.key = KeyId::none();
    own.result = &result_.models[parent->source].stages[started.child];
    if (started.option != policy::kAnyOption)
      own.key = sources_[own.source].answers[started.option];
    if (own.measured) {
      ModelResult& stage = *own.result;
      // Tried again, it is the same request.
      started.again ? --stage.dropped : ++stage.offered;
      if (!started.again) stage.items += started.items;
    }
  }
  begin(started.id, own, started.due, started.begun, now);
}

// What runs already is let run.
void Run::withdraw_branch(JobId id, Time now) {
  Branch* own = branch(id);
  if (own == nullptr) return;
  const Source& source = sources_[own->source];
  if (!source.members.empty() || own->has_parts) {
    if (!tree_.withdrawn(id)) return;
    trace(TraceEvent::kGivenUp, id, source.key, 0, now, now);
    return forget(id);
  }
  own->gone = true;
  own->measured = false;
  if (!scheduler_->withdraw(policy::Task(own->task), now, decisions_)) return;
  trace(TraceEvent::kWithdrawn, id, source.key, own->items, now, now);
  forget(id);
}

void Run::forget(JobId branch) {
  examples_.erase(branch);
  queries_.erase(branch);
  branches_.erase(branch);
}

uint32_t Run::made_by_stage(const Branch& own, uint32_t items) {
  if (own.parent.is_none()) return items;
  const Branch& parent = branches_.at(own.parent);
  if (parent.has_parts || sources_[parent.source].pipeline == nullptr) return items;
  const auto& makes = sources_[parent.source].pipeline->stages[own.child].makes;
  if (makes.empty()) return items;
  uint64_t made = 0;
  for (uint32_t i = 0; i < items; ++i) made += draw_items(makes, sources_[parent.source].drawn);
  if (made <= kMostMade) return static_cast<uint32_t>(made);
  const SimulatedPipeline& pipeline = *sources_[parent.source].pipeline;
  failed_ = invalid("stage '{}' of '{}' has made {} items of one request, expected at most {}",
                    pipeline.stages[own.child].name, pipeline.name, made, kMostMade);
  return 0;
}

std::vector<uint32_t> Run::skipped_after(const Branch& own) {
  std::vector<uint32_t> skipped;
  const Branch& parent = branches_.at(own.parent);
  Source& source = sources_[parent.source];
  if (source.pipeline == nullptr) return skipped;
  const auto& stages = source.pipeline->stages;
  for (uint32_t s = own.child + 1; s < stages.size(); ++s) {
    if (stages[s].when >= 1 || stages[s].after.front() != own.child) continue;
    if (source.drawn.uniform() >= stages[s].when) skipped.push_back(s);
  }
  return skipped;
}

void Run::count_end(ModelResult& result, const Branch& own, policy::Ending how, Time now) {
  if (!own.measured) return;
  if (how != policy::Ending::kAnswered) {
    ++result.dropped;
    return;
  }
  const Time answered = replied(now, &own);
  ++(answered <= own.deadline ? result.on_time : result.late);
  result.latency.record(answered - own.started);
  result.accuracy += own.accuracy;
}

void Run::branch_ended(JobId id, policy::Ending how, uint32_t made, Time now) {
  Branch own = branches_.at(id);
  if (own.gone) return forget(id);
  const Source& source = sources_[own.source];
  const bool answered = how == policy::Ending::kAnswered;
  if (!source.members.empty() && !own.has_parts && source.pipeline == nullptr && answered) {
    own.accuracy = judge(own, replied(now, &own));
  }
  if (!source.members.empty() || own.has_parts) {
    mix(id.value());
    trace(answered ? TraceEvent::kClosed : TraceEvent::kGivenUp, id, source.key, made, now, now);
  }
  if (own.parent.is_none()) {
    count(answered && replied(now, &own) <= own.deadline);
    if (own.measured) --unended_;
    count_end(*own.result, own, how, now);
    return forget(id);
  }
  Branch& parent = branches_.at(own.parent);
  std::vector<uint32_t> skipped;
  if (!parent.has_parts) count_end(*own.result, own, how, now);
  if (answered) {
    // Parts count by their items, stages are all to be right.
    parent.accuracy = parent.has_parts ? parent.accuracy - (1 - own.accuracy) * own.items /
                                                               static_cast<double>(parent.items)
                                       : parent.accuracy * own.accuracy;
    const bool of_pipeline = sources_[parent.source].pipeline != nullptr;
    if (!parent.has_parts && !of_pipeline) parent.answered |= plan::Subset{1} << own.child;
    made = made_by_stage(own, made);
    skipped = skipped_after(own);
  }
  forget(id);
  tree_.ended(id, how, made, now, skipped);
}

}  // namespace fermata::simulate
