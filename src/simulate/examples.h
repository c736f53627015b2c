#pragma once

#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "simulate/scenario.h"

namespace fermata::simulate {

// Draws a variants service's examples, classes as often as its `labels` say at that time.
// O(classes) each.
class Examples {
 public:
  Examples(const SimulatedVariants& service, Random random);
  const Example& next(Time now);  // not before the last one

 private:
  void weigh(const std::vector<double>& labels);

  const SimulatedVariants* service_;
  Random random_;
  std::vector<std::vector<size_t>> by_class_;  // of the service's examples
  std::vector<double> weights_;                // by class
  double total_ = 0;
  size_t changes_ = 0;  // of the labels, so far
};

}  // namespace fermata::simulate
