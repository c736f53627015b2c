#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "engine/snapshot.h"
#include "plan/placement/epoch.h"

namespace fermata::engine {

// One model that was to live elsewhere.
struct PlacementChange {
  enum class Result : uint8_t {
    kDone,
    kPostponed,  // there was no room to load it before something else had left
    kFailed,     // the worker could not load it
  };
  std::string model;
  std::optional<uint32_t> from;  // none: a first load
  uint32_t to = 0;
  Result result = Result::kPostponed;
  std::string reason;  // why not kDone
};
std::string_view name(PlacementChange::Result result);  // "done", ...

// One problem that the planner solved, and what came of it; `problem` gives the same
// answer offline.
struct PlacementDecision {
  uint64_t number = 0;  // counts from 1
  std::string cause;    // "start", "epoch" or "load"
  Time at;              // when it was begun
  Duration took;        // the planning, of all steps of its plan
  plan::PlacementProblem problem;
  plan::Placement answer;
  bool stayed = false;  // what moving would have gained was too little
  std::vector<PlacementChange> changes;
};

// What is known of epochs: their last decisions and how many changes there were. Thread-safe.
class PlacementLog {
 public:
  // All steps of a plan; the changes are the last one's.
  void add(const char* cause, Time at, Duration took, const plan::EpochPlan& plan,
           std::vector<PlacementChange> changes);
  // `now`: the figures of where everything is after it.
  void epoch_ended(Duration took, Duration planned, const plan::Placement& now);

  std::vector<PlacementDecision> decisions() const;  // the newest first
  PlacementSnapshot snapshot() const;                // leaves subcluster_of to the caller

 private:
  static constexpr size_t kKept = 16;
  void count(const PlacementChange& change);

  mutable std::mutex mutex_;
  std::deque<PlacementDecision> decisions_;
  uint64_t numbers_ = 0;
  PlacementSnapshot totals_;
};

}  // namespace fermata::engine
