#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/placement/placement.h"

namespace fermata::plan {

// What one epoch decides where not every model may fit. Pure, as place() is.
struct EpochPlan {
  // Every problem that was solved, in order, each as `fermata plan placement` reads it.
  // The last answer is the decision; where it is not feasible everything stays.
  struct Step {
    PlacementProblem problem;
    Placement answer;
  };
  std::vector<Step> steps;
  struct LeftOut {
    std::string model, reason;
  };
  std::vector<LeftOut> left_out;  // models that are not placed and have no room
  bool stay = false;              // nothing is loaded, and moving would gain too little
};

// `problem.max_change_cost` bounds the moves; the first loads come on top of it. Of
// models that have no place yet, those that no worker can hold are left out, and as long
// as there is no feasible placement, the one that needs most. A bound on rates that
// demand exceeds gives way, since the requests come all the same. Nothing moves unless
// the objective falls by more than `min_gain`. At most one solution for each model and three more.
EpochPlan plan_epoch(PlacementProblem problem, double min_gain);

// Into how few sub-clusters the models can be divided, at most `most`; which is the answer
// too where none will do. Where they live now and the rates do not count.
uint32_t fewest_subclusters(PlacementProblem problem, uint32_t most);

}  // namespace fermata::plan
