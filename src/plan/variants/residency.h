#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/variants/group_problem.h"

namespace fermata::plan {

// What is loaded on one worker while a plan is made. Running a model makes it the
// most recently used; loading one evicts the least recently used ones until it fits.
// Linear in the loaded models; allocates only while it grows.
class Residency {
 public:
  // What is loaded at first is taken as a fact, even beyond the worker's memory.
  void reset(const GroupWorker& worker, std::span<const GroupModel> models);
  bool holds(uint32_t model) const;
  // Whether the model fits the worker at all, alone.
  bool fits(uint32_t model) const { return models_[model].memory_bytes <= memory_; }
  // Runs a model that fits; true where it had to be loaded.
  bool use(uint32_t model);
  // The least recently used first.
  std::span<const uint32_t> loaded() const { return loaded_; }

 private:
  std::span<const GroupModel> models_;
  int64_t memory_ = 0, used_ = 0;
  std::vector<uint32_t> loaded_;
};

}  // namespace fermata::plan
