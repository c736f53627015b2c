#include "model/confusion.h"

#include <numeric>

namespace fermata {
namespace {

std::optional<double> share(uint64_t part, uint64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

uint64_t Confusion::examples(uint32_t truth) const {
  const auto row = cells_.begin() + static_cast<ptrdiff_t>(size_t{truth} * classes_);
  return std::accumulate(row, row + classes_, uint64_t{0});
}

uint64_t Confusion::examples() const {
  return std::accumulate(cells_.begin(), cells_.end(), uint64_t{0});
}

std::optional<double> Confusion::accuracy() const {
  uint64_t right = 0;
  for (uint32_t c = 0; c < classes_; ++c) right += at(c, c);
  return share(right, examples());
}

std::optional<double> Confusion::recall(uint32_t truth) const {
  return share(at(truth, truth), examples(truth));
}

}  // namespace fermata
