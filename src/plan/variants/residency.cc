#include "plan/variants/residency.h"

#include <algorithm>

#include "base/check.h"

namespace fermata::plan {

void Residency::reset(const GroupWorker& worker, std::span<const GroupModel> models) {
  models_ = models;
  memory_ = worker.memory_bytes;
  loaded_.assign(worker.loaded.begin(), worker.loaded.end());
  used_ = 0;
  for (const uint32_t model : loaded_) used_ += models[model].memory_bytes;
}

bool Residency::holds(uint32_t model) const {
  return std::find(loaded_.begin(), loaded_.end(), model) != loaded_.end();
}

bool Residency::use(uint32_t model) {
  if (const auto found = std::find(loaded_.begin(), loaded_.end(), model); found != loaded_.end()) {
    std::rotate(found, found + 1, loaded_.end());
    return false;
  }
  FERMATA_CHECK(fits(model));
  const int64_t size = models_[model].memory_bytes;
  auto kept = loaded_.begin();
  while (used_ > memory_ - size) used_ -= models_[*kept++].memory_bytes;
  loaded_.erase(loaded_.begin(), kept);
  loaded_.push_back(model);
  used_ += size;
  return true;
}

}  // namespace fermata::plan
