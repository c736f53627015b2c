#include "policy/stream/frame_sizes.h"

#include <algorithm>

namespace fermata::policy {
namespace {

constexpr double kSizeSmoothing = 0.1;

}  // namespace

void FrameSizes::measure(uint32_t input_size, uint64_t bytes) {
  const double now_kb = static_cast<double>(bytes) / 1000;
  last_ = input_size;
  for (Size& size : sizes_) {
    if (size.input_size != input_size) continue;
    size.kb += kSizeSmoothing * (now_kb - size.kb);
    return;
  }
  sizes_.push_back({input_size, now_kb});
}

double FrameSizes::kb(uint32_t input_size) const {
  if (sizes_.empty()) return 0;
  const auto apart = [&](const Size& size) {
    return std::max(size.input_size, input_size) - std::min(size.input_size, input_size);
  };
  const auto nearest =
      std::min_element(sizes_.begin(), sizes_.end(),
                       [&](const Size& a, const Size& b) { return apart(a) < apart(b); });
  const double ratio = static_cast<double>(input_size) / nearest->input_size;
  return nearest->kb * ratio * ratio;
}

}  // namespace fermata::policy
