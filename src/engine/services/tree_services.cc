// Which services the tree knows: made when a request first needs them.
#include "engine/services/application.h"
#include "engine/services/ensemble.h"
#include "engine/services/tree_node.h"
#include "engine/services/trees.h"
#include "policy/tree/one_of.h"
#include "policy/tree/parts.h"
#include "policy/tree/pipeline.h"
#include "policy/tree/some_of.h"

namespace fermata::engine {

Trees::Known& Trees::known(const std::shared_ptr<const Pipeline>& pipeline) {
  if (const auto it = known_.find(pipeline.get()); it != known_.end()) return *it->second;
  forget_the_old();
  auto made = std::make_unique<Known>();
  made->pipeline = pipeline;
  std::vector<policy::PipelineStage> stages;
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
    if (stage.one_by_one)
      member = add(tree_.add(std::make_unique<policy::PartsChooser>(member, 1)));
    members.push_back(member);
    stages.push_back({member, stage.after});
  }
  std::unique_ptr<policy::NodeChooser> chooser;
  if (pipeline->application != nullptr) {
    chooser = std::make_unique<policy::OneOfChooser>(pipeline->application->info, members);
  } else if (pipeline->ensemble != nullptr) {
    chooser = std::make_unique<policy::SomeOfChooser>(pipeline->ensemble->info, members);
  } else {
    chooser = std::make_unique<policy::PipelineChooser>(std::move(stages));
  }
  made->service = add(tree_.add(std::move(chooser)));
  made->items = add(tree_.add(std::make_unique<policy::PartsChooser>(made->service, 1)));
  return *(known_[pipeline.get()] = std::move(made));
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

}  // namespace fermata::engine
