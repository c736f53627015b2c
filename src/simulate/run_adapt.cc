// What the driver does while plans and the number of workers change.
#include <algorithm>

#include "simulate/run.h"

namespace fermata::simulate {

void Run::adapt(Time now) {
  const auto change = adaptation_.step(now, counts_);
  if (!change) return;
  serve_with(change->workers, now);
  const size_t first = sources_.size() - scenario_.pipelines.size();
  for (size_t p = 0; p < change->variants.size(); ++p) {
    if (change->variants[p].empty()) continue;
    tree_.planned(sources_[first + p].service, change->variants[p]);
  }
}

// The first ones. Those that leave end what they run.
void Run::serve_with(uint32_t workers, Time now) {
  charge(now);
  for (uint32_t w = std::min(workers, serving_); w < std::max(workers, serving_); ++w) {
    scheduler_->planned(policy::Serving{WorkerId(w), w < workers}, now, decisions_);
  }
  serving_ = workers;
}

void Run::charge(Time now) {
  const Duration passed = std::min(now, to_) - std::max(charged_, from_);
  if (passed > Duration()) result_.worker_time += passed * serving_;
  charged_ = now;
}

// What a plan may name, of the stages of a pipeline that is planned.
void Run::add_options(const Source& pipeline) {
  if (pipeline.pipeline == nullptr || !pipeline.pipeline->adapter) return;
  for (const size_t member : pipeline.members) {
    Source& stage = sources_[member];
    if (!stage.options.empty()) continue;
    for (const KeyId key : stage.answers) stage.options.push_back(tree_.add_leaf(fastest({key})));
  }
}

}  // namespace fermata::simulate
