#include "cluster_simulated/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/random.h"

namespace fermata::simulated {
namespace {

constexpr const char* kNames[] = {
    "dies",   "dies with its host",        "hangs", "cut", "cut one way", "slow",
    "leaves", "the lock's file is deleted"};

std::string name_of(uint32_t place) {
  if (place <= 2) return fmt::format("scheduler {}", place);
  return place <= 4 ? fmt::format("frontend {}", place) : fmt::format("worker {}", place);
}

Duration between(Random& random, Duration least, Duration most) {
  return least + (most - least).scaled(random.uniform());
}

Fault draw(Random& random) {
  Fault fault;
  fault.kind = static_cast<Fault::Kind>(random.below(std::size(kNames)));
  fault.place = 1 + static_cast<uint32_t>(random.below(kPlaces));
  if (fault.kind == Fault::kLeaves) {
    fault.place = kWorkers[random.below(std::size(kWorkers))];
  }
  do {
    fault.other = 1 + static_cast<uint32_t>(random.below(kPlaces));
  } while (fault.other == fault.place);
  fault.from = between(random, {}, Duration::seconds(3));
  const Duration lengths[] = {Duration::millis(50), Duration::millis(400), Duration::millis(1500)};
  fault.length = between(random, Duration::millis(5), lengths[random.below(std::size(lengths))]);
  fault.amount =
      between(random, Duration::micros(100), Duration::millis(random.below(2) ? 5 : 120));
  return fault;
}

}  // namespace

std::string Fault::text() const {
  const std::string when = fmt::format("{:7.1f} ms", from.millis());
  const std::string how_long = fmt::format("{:.1f} ms", length.millis());
  switch (kind) {
    case kFileGoes:
      return fmt::format("{}: {}", when, kNames[kind]);
    case kCut:
    case kCutOneWay:
      return fmt::format("{}: {} and {} are {} for {}", when, name_of(place), name_of(other),
                         kNames[kind], how_long);
    case kSlow:
      return fmt::format("{}: the way from {} to {} takes {:.2f} ms more for {}", when,
                         name_of(place), name_of(other), amount.millis(), how_long);
    default:
      return fmt::format("{}: {} {}, and is back after {}", when, name_of(place), kNames[kind],
                         how_long);
  }
}

Faults faults_of(uint64_t seed) {
  Random random(seed, 7);
  Faults all;
  const uint64_t count = 1 + random.below(8);
  for (uint64_t i = 0; i < count; ++i) all.push_back(draw(random));
  std::stable_sort(all.begin(), all.end(),
                   [](const Fault& a, const Fault& b) { return a.from < b.from; });
  return all;
}

}  // namespace fermata::simulated
