#pragma once

#include <vector>

#include "base/random.h"
#include "estimate/labelled_points.h"

namespace fermata::estimate {

// Gaussian clusters of unit spread, one a class, their centres `apart` from each other.
inline LabelledPoints clusters(size_t n, uint32_t dimensions, uint32_t classes, double apart,
                               Random random) {
  LabelledPoints points{.dimensions = dimensions, .classes = classes};
  for (size_t i = 0; i < n; ++i) {
    const auto label = static_cast<uint32_t>(random.below(classes));
    points.labels.push_back(label);
    for (uint32_t d = 0; d < dimensions; ++d) {
      const double centre = d % classes == label ? apart : 0;
      points.features.push_back(static_cast<float>(centre + random.normal()));
    }
  }
  return points;
}

inline std::vector<float> point(uint32_t dimensions, Random& random, double spread = 1) {
  std::vector<float> values(dimensions);
  for (float& value : values) value = static_cast<float>(spread * random.normal());
  return values;
}

}  // namespace fermata::estimate
