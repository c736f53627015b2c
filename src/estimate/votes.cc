#include "estimate/votes.h"

#include <cmath>
#include <numeric>

#include "absl/algorithm/container.h"

namespace fermata::estimate {

std::vector<uint32_t> votes(absl::Span<const float> scores, uint32_t count) {
  std::vector<double> shares(scores.begin(), scores.end());
  std::vector<uint32_t> by_class(scores.size());
  if (scores.empty()) return by_class;
  if (absl::c_any_of(shares, [](double s) { return s < 0; })) {
    const double most = *absl::c_max_element(shares);
    for (double& share : shares) share = std::exp(share - most);
  }
  const double sum = absl::c_accumulate(shares, 0.0);
  if (sum == 0) return by_class;
  uint32_t left = count;
  for (size_t i = 0; i < shares.size(); ++i) {
    shares[i] *= count / sum;
    by_class[i] = std::min(left, static_cast<uint32_t>(shares[i]));
    shares[i] -= by_class[i];
    left -= by_class[i];
  }
  std::vector<size_t> order(shares.size());
  std::iota(order.begin(), order.end(), size_t{0});
  absl::c_stable_sort(order, [&](size_t a, size_t b) { return shares[a] > shares[b]; });
  for (size_t i = 0; left > 0; ++i, --left) ++by_class[order[i % order.size()]];
  return by_class;
}

}  // namespace fermata::estimate
