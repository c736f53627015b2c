#include "engine/options.h"

#include <algorithm>

namespace fermata::engine {

uint32_t WorkerOptions::count() const {
  uint32_t sum = 0;
  for (const WorkerType& type : types) sum += type.count;
  return sum;
}

double WorkerOptions::least_memory_mb() const {
  double least = std::numeric_limits<double>::infinity();
  for (const WorkerType& type : types) least = std::min(least, type.memory_mb);
  return least;
}

}  // namespace fermata::engine
