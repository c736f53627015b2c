#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/tensor.h"

namespace fermata::gstreamer {

// What a detector found in a picture, in fractions of it.
struct Region {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0, score = 0;
  int64_t kind = -1;  // none: the detector has no classes
};

struct RegionOutputs {
  std::string boxes = "boxes", scores = "scores", classes = "classes";
};

// The boxes of FP32 [.., n, 4] (x0, y0, x1, y1 in fractions of the picture) whose score reaches
// `threshold`; scores [.., n] and classes [.., n] may be absent: then all are certain, or of no
// class. INVALID_ARGUMENT names the output, what it is and what was expected.
absl::StatusOr<std::vector<Region>> regions_in(const std::vector<Tensor>& outputs,
                                               const RegionOutputs& names, double threshold);

}  // namespace fermata::gstreamer
