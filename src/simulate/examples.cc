#include "simulate/examples.h"

#include <algorithm>

namespace fermata::simulate {

Examples::Examples(const SimulatedVariants& service, Random random)
    : service_(&service), random_(random) {
  for (size_t i = 0; i < service.examples.size(); ++i) {
    const uint32_t label = service.examples[i].label;
    by_class_.resize(std::max<size_t>(by_class_.size(), label + 1));
    by_class_[label].push_back(i);
  }
  weigh(service.labels);
}

void Examples::weigh(const std::vector<double>& labels) {
  weights_.clear();
  total_ = 0;
  for (size_t c = 0; c < by_class_.size(); ++c) {
    const auto own = static_cast<double>(by_class_[c].size());
    weights_.push_back(labels.empty() ? own : labels.at(c));
    total_ += weights_.back();
  }
}

const Example& Examples::next(Time now) {
  const std::vector<LabelChange>& changes = service_->label_changes;
  for (; changes_ < changes.size() && changes[changes_].at <= now; ++changes_)
    weigh(changes[changes_].labels);
  double at = random_.uniform() * total_;
  size_t label = 0;
  for (; label + 1 < weights_.size() && at >= weights_[label]; ++label) at -= weights_[label];
  while (by_class_[label].empty() || weights_[label] == 0)
    label = (label + 1) % by_class_.size();  // rounding only
  const std::vector<size_t>& own = by_class_[label];
  return service_->examples[own[random_.below(own.size())]];
}

}  // namespace fermata::simulate
