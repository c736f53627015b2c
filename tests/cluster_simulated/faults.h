#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace fermata::simulated {

// Who is there, by the number of their hosts.
inline constexpr uint32_t kSchedulers[] = {1, 2}, kFrontends[] = {3, 4}, kWorkers[] = {5, 6, 7};
inline constexpr uint32_t kPlaces = 7;

// Something that befalls the cluster, and ends.
struct Fault {
  enum Kind : uint8_t {
    kDies,      // the process, and is started again
    kHostDies,  // without a word, and is started again
    kHangs,     // is stopped, and goes on
    kCut,       // both ways between two hosts
    kCutOneWay,
    kSlow,      // the way from one host to another, by `amount`
    kLeaves,    // a worker, as when it is asked to stop
    kFileGoes,  // the lock's file is deleted
  };
  Kind kind = kDies;
  uint32_t place = 0, other = 0;
  Duration from, length, amount;  // since the clients began

  std::string text() const;
};
using Faults = std::vector<Fault>;

// What is drawn for a seed, in the order of their times.
Faults faults_of(uint64_t seed);

}  // namespace fermata::simulated
