#pragma once

#include "base/time.h"
#include "simulate/dedicated/dedicated.h"

namespace fermata::simulate {

// What became of the requests of a run, and what it cost.
class DedicatedAccount {
 public:
  DedicatedAccount(size_t seconds, size_t row_seconds, size_t stages);

  uint32_t arrived(Time now);  // the row that the request counts in
  void answered(uint32_t row, double ms, bool on_time, double accuracy);
  void dropped(uint32_t row);
  void batch() { ++result_.batches; }
  void decided(Time now, double forecast, const plan::PipelineDecision& decision);
  void compared(double forecast, double actual) { smape_.add(forecast, actual); }
  // Since the last call, at most a second ago, stages have cost this much a second.
  void charge(Time now, const std::vector<double>& costs);
  DedicatedResult finish();  // once

 private:
  DedicatedRow& row_at(Time now);

  const size_t seconds_, row_seconds_;
  Time charged_;
  estimate::SmapeMeter smape_;
  DedicatedResult result_;
};

}  // namespace fermata::simulate
