#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace fermata::engine {

// Whether a part of a batch failed because of the process that it should have run in, and not of
// the model: then it may run again.
enum class Absence : uint8_t {
  kNone,
  kLost,      // the process ended while it ran it
  kAway,      // there was no process: it has not run
  kCut,       // the worker's host was not heard of any more: that says nothing of what it ran
  kHostLost,  // the worker's host ended while it ran it, which may have had many reasons
  kLate,      // its deadline passed before its turn came: it has not run
};

// It may have been what it ran.
inline bool is_loss(Absence how) { return how == Absence::kLost || how == Absence::kHostLost; }

absl::Status absent(Absence how, absl::Status why);
Absence absence_of(const absl::Status& status);

}  // namespace fermata::engine
