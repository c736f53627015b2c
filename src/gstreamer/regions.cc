#include "gstreamer/regions.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "model/signature.h"
#include "model/tensor_values.h"

namespace fermata::gstreamer {
namespace {

const Tensor* find(const std::vector<Tensor>& outputs, const std::string& name) {
  const auto found = std::find_if(outputs.begin(), outputs.end(),
                                  [&](const Tensor& output) { return output.name == name; });
  return found == outputs.end() ? nullptr : &*found;
}

absl::Status check_count(const Tensor& tensor, size_t has, size_t boxes) {
  if (has == boxes) return absl::OkStatus();
  return invalid("output '{}' is {}, expected one for each of {} boxes", tensor.name,
                 to_string(tensor.shape), boxes);
}

float inside(float fraction) { return std::clamp(fraction, 0.0f, 1.0f); }

}  // namespace

absl::StatusOr<std::vector<Region>> regions_in(const std::vector<Tensor>& outputs,
                                               const RegionOutputs& names, double threshold) {
  const Tensor* boxes = find(outputs, names.boxes);
  if (boxes == nullptr || boxes->shape.empty() || boxes->shape.back() != 4) {
    return invalid("output '{}' is {}, expected boxes [n,4]", names.boxes,
                   boxes == nullptr ? "absent" : to_string(boxes->shape));
  }
  ASSIGN_OR_RETURN(const std::vector<float> corners, as_floats(*boxes));
  const size_t count = corners.size() / 4;
  std::vector<float> scores(count, 1.0f);
  std::vector<int64_t> classes(count, -1);
  if (const Tensor* given = find(outputs, names.scores)) {
    ASSIGN_OR_RETURN(scores, as_floats(*given));
    RETURN_IF_ERROR(check_count(*given, scores.size(), count));
  }
  if (const Tensor* given = find(outputs, names.classes)) {
    ASSIGN_OR_RETURN(classes, as_integers(*given));
    RETURN_IF_ERROR(check_count(*given, classes.size(), count));
  }
  std::vector<Region> regions;
  for (size_t i = 0; i < count; ++i) {
    const float* c = &corners[i * 4];
    if (!(scores[i] >= threshold) ||
        !std::all_of(c, c + 4, [](float v) { return std::isfinite(v); }))
      continue;
    const Region region{inside(c[0]), inside(c[1]), inside(c[2]),
                        inside(c[3]), scores[i],    classes[i]};
    if (region.x1 > region.x0 && region.y1 > region.y0) regions.push_back(region);
  }
  return regions;
}

}  // namespace fermata::gstreamer
