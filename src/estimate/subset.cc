#include "estimate/subset.h"

namespace fermata::estimate {

std::string name(Subset subset, absl::Span<const std::string> models) {
  std::string text;
  for (uint32_t k = 0; k < models.size(); ++k) {
    if (!contains(subset, k)) continue;
    if (!text.empty()) text += '+';
    text += models[k];
  }
  return text;
}

}  // namespace fermata::estimate
