#pragma once

#include <cstdint>
#include <vector>

#include "policy/tree/node_chooser.h"

namespace fermata::policy {

// A pipeline: its stages are services, each of which may read the outputs of earlier ones.
struct PipelineStage {
  ServiceId service;
  std::vector<uint32_t> after;  // earlier stages, ascending; empty: it reads the request alone
};

// Runs a stage as soon as those before it have ended. What is left of the deadline when a stage
// starts is shared with the stages after it, in proportion to their runs; a stage that is rejected
// although the stages after it could still make it is tried once more with all that they can
// spare. A request that cannot finish the rest, with the waits that its stages have now, is
// rejected before it costs anything (PARD's observation).
//
// A stage may make any number of items of its own; the stages after it have as many. Where it makes
// none they are skipped, and that is an answer.
class PipelineChooser final : public NodeChooser {
 public:
  // At least one stage, each after those that it names.
  explicit PipelineChooser(std::vector<PipelineStage> stages);

  void arrived(Node& node, Time now, Branches& tree) override;
  void ended(Node& node, uint32_t child, Ending how, Time now, Branches& tree) override;
  Ahead ahead(uint32_t items, Time now, const Branches& tree) const override;

 private:
  // What stands after each stage on the longest way, beside its own.
  std::vector<Ahead> behind(uint32_t items, Time now, const Branches& tree) const;
  // False where the node is gone.
  bool start(Node& node, uint32_t stage, const Ahead& behind, Time now, Branches& tree);
  void start_ready(Node& node, Time now, Branches& tree);

  const std::vector<PipelineStage> stages_;
  std::vector<bool> is_last_;  // nothing reads it
};

}  // namespace fermata::policy
