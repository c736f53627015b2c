#include "simulate/examples.h"

#include <algorithm>

namespace fermata::simulate {

Examples::Examples(const SimulatedApplication& application, Random random)
    : application_(&application), random_(random) {
  for (size_t i = 0; i < application.examples.size(); ++i) {
    const uint32_t label = application.examples[i].label;
    by_class_.resize(std::max<size_t>(by_class_.size(), label + 1));
    by_class_[label].push_back(i);
  }
  for (size_t c = 0; c < by_class_.size(); ++c) {
    const auto own = static_cast<double>(by_class_[c].size());
    weights_.push_back(application.labels.empty() ? own : application.labels.at(c));
    total_ += weights_.back();
  }
}

const Example& Examples::next() {
  double at = random_.uniform() * total_;
  size_t label = 0;
  for (; label + 1 < weights_.size() && at >= weights_[label]; ++label) at -= weights_[label];
  while (by_class_[label].empty()) label = (label + 1) % by_class_.size();  // rounding only
  const std::vector<size_t>& own = by_class_[label];
  return application_->examples[own[random_.below(own.size())]];
}

}  // namespace fermata::simulate
