#pragma once

#include <cstdint>

#include "base/time.h"

namespace fermata::plan {

// What lateness takes from a request's utility (SneakPeek, equation 2 and
// section 6.1): a share from 0 to 1 that never falls with time.
enum class PenaltyShape : uint8_t { kStep, kLinear, kSigmoid, kNone, kConstant };

struct Penalty {
  PenaltyShape shape = PenaltyShape::kStep;
  double constant = 0;  // of kConstant: taken from every request, on time or not

  // `slo`, positive, is deadline - arrival, `completion` is finish - arrival. Only a
  // late request pays: step all of it at once; linear and sigmoid by x = lateness / slo,
  // all of it from x = 1 on (the paper's inner max is read as the cap it must mean).
  double operator()(Duration slo, Duration completion) const;
  // What a request on time pays.
  double on_time() const { return shape == PenaltyShape::kConstant ? constant : 0; }
  bool depends_on_time() const {
    return shape != PenaltyShape::kNone && shape != PenaltyShape::kConstant;
  }
};

}  // namespace fermata::plan
