#include "simulate/demand_document.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulate/variants_document.h"

namespace fermata::simulate {
namespace {

constexpr uint32_t kMostItems = 100'000;

constexpr double kMostShare = 1e12;

Duration read_one(Reader value) {
  if (value.present() && value.is_null()) return Duration::infinite();
  return Duration::from_millis(value.between(1e-3, kLongestTimeMs));
}

}  // namespace

double read_share(Reader value, std::optional<double> fallback) {
  return value.between(0, kMostShare, fallback);
}

bool is_common_slo(Reader value) {
  if (!value.is_object()) return true;
  const auto fields = value.map();
  return !fields.empty() && fields.front().first == "mix";
}

Duration read_slo(Reader value, Demand& demand) {
  if (!value.is_object()) {
    return read_one(value);
  }
  ObjectReader fields = value.object();
  Duration longest;
  for (Reader entry : fields["mix"].list(1)) {
    ObjectReader own = entry.object();
    const double share = own["share"].between(1 / kMostShare, kMostShare);
    demand.slos.push_back({share, read_one(own["slo_ms"])});
    const Duration slo = demand.slos.back().slo;
    if (!slo.is_infinite()) longest = std::max(longest, slo);
  }
  return longest == Duration() ? Duration::infinite() : longest;
}

std::vector<Demand::Items> read_items(Reader value, uint32_t least) {
  if (!value.present()) return {};
  if (!value.is_object()) {
    return {{1, static_cast<uint32_t>(value.integer(least, kMostItems))}};
  }
  std::vector<Demand::Items> all;
  double sum = 0;
  for (const auto& [name, entry] : value.map()) {
    Demand::Items own;
    const std::optional<uint32_t> number = number_of(name);
    own.items = number.value_or(0);
    if (!number || own.items < least || own.items > kMostItems) {
      entry.fail(
          fmt::format("no such field, but numbers of items from {} to {}", least, kMostItems));
      return {};
    }
    own.share = read_share(entry);
    sum += own.share;
    all.push_back(own);
  }
  if (sum == 0 && !value.failed()) value.fail("shares of numbers of items, one of them above 0");
  return all;
}

}  // namespace fermata::simulate
