#pragma once

#include <cstdint>
#include <vector>

#include "policy/tree/chooser.h"

namespace fermata::policy {

// A pipeline: its stages are services, each of which may read the outputs of earlier ones.
struct StageInfo {
  ServiceId service;
  std::vector<uint32_t> after;  // earlier stages, ascending; empty: it reads the request alone
  // Of a stage that has variants, each alone; `service` is whichever of them is worth its price.
  std::vector<ServiceId> options = {};
  // Options have workers of their own: no other than the planned one takes requests. One that
  // failed is tried again where the plan has changed meanwhile, as often as it does, and may have
  // changed back.
  bool dedicated = false;
  // All items of a request take the same option, since answers of several do not fit together.
  bool uniform = false;
};

// Runs a stage as soon as those before it have ended. What is left of the deadline when a stage
// starts is shared with the stages after it, in proportion to their runs; a stage that is rejected
// although the stages after it could still make it is tried once more with all that they can
// spare. A request that cannot finish the rest, with the waits that its stages have now, is
// rejected before it costs anything (PARD's observation).
//
// A stage with variants is asked for any of them, which the scheduler chooses as late as it can, or
// for the one that a plan names; a request that this one would make late, or that was rejected
// or failed there, may take any of them.
//
// A stage may make any number of items of its own; the stages after it have as many. Where it makes
// none they are skipped, and that is an answer, as are stages that an answer skips; whatever reads
// a skipped stage is skipped too.
class PipelineChooser final : public Chooser {
 public:
  // At least one stage, each after those that it names.
  explicit PipelineChooser(std::vector<StageInfo> stages);

  void arrived(Node& node, Time now, ServiceTree& tree) override;
  void ended(Node& node, uint32_t child, Ending how, Time now, ServiceTree& tree) override;
  // Options of the stages, by stage.
  void planned(std::vector<uint32_t> options) override;
  Ahead ahead(uint32_t items, Time now, const ServiceTree& tree) const override;

 private:
  // How many items each stage has of a request: as many as were made, else as many as the stages
  // before it get; none where it will be skipped.
  std::vector<uint32_t> items_by_stage(const Node& node) const;
  // What stands after each stage on the longest way, beside its own: by the plan, or at the least.
  std::vector<Ahead> behind(const std::vector<uint32_t>& items, bool by_plan, Time now,
                            const ServiceTree& tree) const;
  ServiceId service(uint32_t stage, uint32_t option) const;
  uint32_t planned_option(uint32_t stage) const;
  // For a child that may take any option of its stage.
  void leave_open(Child& child, uint32_t stage, Duration within, Time now,
                  const ServiceTree& tree) const;
  uint32_t items_for(const Node& node, uint32_t stage) const;
  // False where the node is gone.
  bool start(Node& node, uint32_t stage, const Ahead& least, const Ahead& expected, Time now,
             ServiceTree& tree);
  void start_ready(Node& node, Time now, ServiceTree& tree);

  const std::vector<StageInfo> stages_;
  std::vector<bool> is_last_;   // nothing reads it
  std::vector<uint32_t> plan_;  // by stage; empty: none
  uint32_t plans_ = 0;          // that there were, each other than the one before
};

}  // namespace fermata::policy
