#pragma once

#include <vector>

#include "base/random.h"
#include "simulate/scenario.h"

namespace fermata::simulate {

// Draws an application's examples, classes as often as its `labels` say. O(classes) each.
class Examples {
 public:
  Examples(const SimulatedApplication& application, Random random);
  const Example& next();

 private:
  const SimulatedApplication* application_;
  Random random_;
  std::vector<std::vector<size_t>> by_class_;  // of the application's examples
  std::vector<double> weights_;                // by class
  double total_ = 0;
};

}  // namespace fermata::simulate
