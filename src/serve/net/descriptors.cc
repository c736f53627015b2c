#include "serve/net/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace fermata::serve {

size_t raise_descriptor_limit() {
  constexpr rlim_t kEnough = 1 << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;  // what POSIX systems start with
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::max(before, std::min(limit.rlim_max, kEnough));
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  return static_cast<size_t>(std::min(limit.rlim_cur, kEnough));
}

ConnectionLimits connection_limits(size_t wanted, size_t descriptors) {
  constexpr size_t kSpare = 256, kForMetrics = 64;
  const size_t ours = descriptors - std::min(kSpare, descriptors / 2);
  const size_t metrics = std::clamp<size_t>(ours / 8, 1, kForMetrics);
  const size_t each = std::clamp<size_t>((ours - std::min(ours, metrics)) / 2, 1, wanted);
  return {each, each, metrics};
}

}  // namespace fermata::serve
