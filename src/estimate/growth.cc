#include "estimate/growth.h"

namespace fermata::estimate {

void QueueGrowth::hope_anew(Count& longer) {
  const double known = std::min(longer.promised, kPromisedByCame * (longer.came + 1));
  longer = {known / 2, longer.came / 2, 0};
}

}  // namespace fermata::estimate
