#pragma once

#include "base/time.h"

namespace fermata::tune {

struct RecorderOptions {
  Duration keep = Duration::seconds(60);  // what is older goes
  double memory_mb = 64;                  // so does what is beyond it, the oldest first
  bool on = true;
};
inline constexpr double kLeastRecorderMb = 8, kMostRecorderMb = 4096;

}  // namespace fermata::tune
