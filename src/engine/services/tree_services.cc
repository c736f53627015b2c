// Which services the tree knows: made when a request first needs them.
#include "absl/algorithm/container.h"
#include "base/clock.h"
#include "engine/composite/ensemble_service.h"
#include "engine/composite/variants_service.h"
#include "engine/services/tree_node.h"
#include "engine/services/trees.h"
#include "policy/tree/members.h"
#include "policy/tree/parts.h"
#include "policy/tree/pipeline.h"

namespace fermata::engine {
namespace {

// Before a moment that a chooser waits for, a deadline, so that what there is can be put together.
constexpr Duration kLead = Duration::millis(1);

}  // namespace

Trees::Known& Trees::known(const std::shared_ptr<const Pipeline>& pipeline) {
  if (const auto it = known_.find(pipeline.get()); it != known_.end()) return *it->second;
  forget_the_old();
  auto made = std::make_unique<Known>();
  made->pipeline = pipeline;
  std::vector<policy::StageInfo> stages;
  std::vector<ServiceId> members;
  const auto add = [&](ServiceId id) { return made->own.emplace_back(id); };
  for (const Pipeline::Stage& stage : pipeline->stages) {
    ServiceId member;
    if (stage.pipeline != nullptr) {
      Known& inner = known(stage.pipeline);
      ++inner.users;
      member = inner.service;
    } else {
      member = add(tree_.add_leaf(stage.latency));
    }
    const auto apart = [&](ServiceId id) {
      if (!stage.one_by_one) return id;
      return add(tree_.add(std::make_unique<policy::PartsChooser>(id, 1)));
    };
    member = apart(member);
    members.push_back(member);
    std::vector<ServiceId> options;
    for (const Pipeline::Option& option : stage.options) {
      options.push_back(apart(add(tree_.add_leaf(option.latency))));
    }
    stages.push_back({member, stage.after, std::move(options), stage.dedicated, stage.uniform});
  }
  std::unique_ptr<policy::Chooser> chooser;
  if (pipeline->variants != nullptr) {
    chooser = std::make_unique<policy::MembersChooser>(pipeline->variants->info, members);
  } else if (pipeline->ensemble != nullptr) {
    chooser = std::make_unique<policy::MembersChooser>(pipeline->ensemble->info, members);
  } else {
    chooser = std::make_unique<policy::PipelineChooser>(std::move(stages));
  }
  find_ahead(*made);
  made->service = add(tree_.add(std::move(chooser)));
  made->stages = members;
  follow_plan(*made);
  made->items = add(tree_.add(std::make_unique<policy::PartsChooser>(made->service, 1)));
  return *(known_[pipeline.get()] = std::move(made));
}

void Trees::find_ahead(Known& known) const {
  const std::vector<Pipeline::Stage>& stages = known.pipeline->stages;
  uint32_t together = 1, begin = 0;
  std::vector<bool> no_model;
  for (uint32_t s = 0; s < stages.size(); ++s) {
    const bool is_operator = stages[s].op != nullptr;
    if (!is_operator) together = std::max(together, stages[s].part_items);
    no_model.push_back(is_operator && absl::c_all_of(stages[s].after, [&](uint32_t before) {
                         return no_model[before];
                       }));
    known.ahead.push_back(no_model[s] && !Node::is_answer(*known.pipeline, s));
    if (!is_operator || !stages[s].after.empty()) continue;
    known.first = s;
    ++begin;
  }
  if (begin != 1) known.first.reset();
  known.busy_runs = 2 * together * std::max(host_.workers, 1u);
}

void Trees::plan(const std::string& service, VariantPlan variants) {
  const std::lock_guard lock(mutex_);
  plans_[service] = std::move(variants);
  for (const auto& [pipeline, known] : known_) {
    if (pipeline->public_model->model == service) follow_plan(*known);
  }
}

void Trees::follow_plan(const Known& known) {
  const Pipeline& pipeline = *known.pipeline;
  const auto plan = plans_.find(pipeline.public_model->model);
  if (plan == plans_.end() || pipeline.choice != nullptr) return;
  std::vector<uint32_t> options(pipeline.stages.size(), policy::kAnyOption);
  for (size_t s = 0; s < options.size(); ++s) {
    const auto& own = pipeline.stages[s].options;
    const auto wanted = plan->second.find(pipeline.stages[s].name);
    if (wanted == plan->second.end()) continue;
    const auto at = absl::c_find_if(own, [&](const auto& o) { return o.name == wanted->second; });
    if (at != own.end()) options[s] = static_cast<uint32_t>(at - own.begin());
  }
  tree_.planned(known.service, std::move(options));
}

std::vector<Duration> Trees::runs(const std::shared_ptr<const Pipeline>& pipeline) {
  const std::lock_guard lock(mutex_);
  const Time now = monotonic_now();
  std::vector<Duration> runs;
  for (const ServiceId stage : known(pipeline).stages) {
    runs.push_back(tree_.ahead(stage, 1, now).run);
  }
  return runs;
}

void Trees::let_go(const Pipeline& pipeline) { --known_.at(&pipeline)->users; }

// Those that a reload has replaced: beside us only routes hold one, and only while it is served.
void Trees::forget_the_old() {
  std::vector<const Pipeline*> old;
  do {
    old.clear();
    for (const auto& [pipeline, known] : known_) {
      if (known->users == 0 && known->pipeline.use_count() == 1) old.push_back(pipeline);
    }
    for (const Pipeline* pipeline : old) {
      const auto it = known_.find(pipeline);
      const std::unique_ptr<Known> gone = std::move(it->second);
      known_.erase(it);
      for (const ServiceId own : gone->own) tree_.remove(own);
      for (const Pipeline::Stage& stage : gone->pipeline->stages) {
        if (stage.pipeline != nullptr) let_go(*stage.pipeline);
      }
    }
  } while (!old.empty());
}

void Trees::run_timer() {
  while (handle([this](Actions& actions) {
    const Time now = monotonic_now();
    tree_.tick(now + kLead);
    settle(now, actions);
  })) {
    Time until;
    {
      const std::lock_guard lock(mutex_);
      until = timer_wakes_ = tree_.next_wake();
    }
    timer_.park_until(until.is_infinite() ? until : until - kLead);
  }
}

}  // namespace fermata::engine
