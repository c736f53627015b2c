#include "plan/variants/penalty.h"

namespace fermata::plan {
namespace {

// 1 / (1 + (x / (1 - x))^-3) without the poles and without pow(), whose last bit
// differs between machines.
double sigmoid(double x) {
  const double late = x * x * x, early = (1 - x) * (1 - x) * (1 - x);
  return late / (late + early);
}

}  // namespace

double Penalty::operator()(Duration slo, Duration completion) const {
  if (!depends_on_time()) return on_time();
  const Duration lateness = completion - slo;
  if (lateness <= Duration()) return 0;
  if (shape == PenaltyShape::kStep || lateness >= slo) return 1;
  const double x = static_cast<double>(lateness.nanos()) / static_cast<double>(slo.nanos());
  return shape == PenaltyShape::kLinear ? x : sigmoid(x);
}

}  // namespace fermata::plan
