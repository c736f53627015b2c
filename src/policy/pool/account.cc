#include "policy/pool/account.h"

#include <algorithm>

namespace fermata::policy {
namespace {

// Of a key whose arrivals have stopped, nothing tells: its silence counts instead.
constexpr double kGaps = 3;

double expected_rate(const Outlook& outlook, Time now) {
  const double silent = (now - outlook.seen).seconds();
  return silent * outlook.rate > kGaps ? kGaps / silent : outlook.rate;
}

// Of `items` whose last moments are spread from `first` to `last`, those before `until`.
double between(uint32_t items, Time first, Time last, Time start, Time until) {
  if (first >= until || last < start) return 0;
  if (last <= first) return items;
  const double span = (last - first).seconds();
  const double lost =
      (std::min(last, until) - std::max(first, start)).seconds() / span * (items - 1) +
      (first >= start);
  return std::min<double>(lost, items);
}

}  // namespace

double made_late(const PoolView& view, KeyId key, uint32_t type, Time start, Time until) {
  if (until <= start) return 0;
  double late = 0;
  for (const Offer& offer : view.offers()) {
    const Outlook& outlook = offer.outlook;
    if (offer.key == key || outlook.slack.is_infinite() || (offer.types >> type & 1) == 0) continue;
    const Duration short_of = until - start - outlook.slack;
    if (short_of > Duration()) late += expected_rate(outlook, start) * short_of.seconds();
    if (offer.items > 0 && !offer.patient) {
      late += between(offer.items, outlook.first_by, outlook.last_by, start, until);
    }
  }
  return late;
}

}  // namespace fermata::policy
