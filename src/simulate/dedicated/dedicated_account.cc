#include "simulate/dedicated/dedicated_account.h"

#include <algorithm>

#include "base/check.h"

namespace fermata::simulate {
namespace {

double mean_of(double sum, uint64_t count) {
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

}  // namespace

DedicatedAccount::DedicatedAccount(size_t seconds, size_t row_seconds, size_t stages)
    : seconds_(seconds), row_seconds_(row_seconds) {
  result_.series.resize((seconds + row_seconds - 1) / row_seconds);
  result_.stage_cost.resize(stages);
}

DedicatedRow& DedicatedAccount::row_at(Time now) {
  const auto second = static_cast<size_t>(now.nanos() / Duration::seconds(1).nanos());
  return result_.series[std::min(second / row_seconds_, result_.series.size() - 1)];
}

uint32_t DedicatedAccount::arrived(Time now) {
  DedicatedRow& row = row_at(now);
  ++row.offered;
  return static_cast<uint32_t>(&row - result_.series.data());
}

void DedicatedAccount::answered(uint32_t row, double ms, bool on_time, double accuracy) {
  DedicatedRow& counted = result_.series[row];
  ++(on_time ? counted.on_time : counted.late);
  counted.accuracy += accuracy;
  result_.latencies_ms.push_back(ms);
}

void DedicatedAccount::dropped(uint32_t row) { ++result_.series[row].dropped; }

void DedicatedAccount::decided(Time now, double forecast, const plan::PipelineDecision& decision) {
  row_at(now).forecast_rps = forecast;
  ++result_.decisions;
  result_.applied += decision.applied;
  result_.infeasible += !decision.answer.feasible;
}

void DedicatedAccount::charge(Time now, const std::vector<double>& costs) {
  const Time to = std::min(now, Time() + Duration::seconds(static_cast<int64_t>(seconds_)));
  if (to <= charged_) return;
  for (size_t s = 0; s < costs.size(); ++s) {
    const double cost = costs[s] * (to - charged_).seconds();
    row_at(charged_).cost += cost;
    result_.stage_cost[s] += cost;
  }
  charged_ = to;
}

DedicatedResult DedicatedAccount::finish() {
  DedicatedRow& total = result_.total;
  const auto seconds = static_cast<double>(seconds_);
  const auto length = static_cast<double>(row_seconds_);
  for (DedicatedRow& row : result_.series) {
    total.offered += row.offered;
    total.on_time += row.on_time;
    total.late += row.late;
    total.dropped += row.dropped;
    total.accuracy += row.accuracy;
    total.cost += row.cost / seconds;
    total.forecast_rps += row.forecast_rps / static_cast<double>(result_.series.size());
    row.accuracy = mean_of(row.accuracy, row.on_time + row.late);
    row.cost /= length;
    row.load_rps = static_cast<double>(row.offered) / length;
  }
  FERMATA_CHECK(total.on_time + total.late + total.dropped == total.offered);
  total.accuracy = mean_of(total.accuracy, total.on_time + total.late);
  total.load_rps = static_cast<double>(total.offered) / seconds;
  for (double& cost : result_.stage_cost) cost /= seconds;
  std::sort(result_.latencies_ms.begin(), result_.latencies_ms.end());
  result_.smape_percent = smape_.percent();
  return std::move(result_);
}

}  // namespace fermata::simulate
