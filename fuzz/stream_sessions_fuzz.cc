#include <fuzzer/FuzzedDataProvider.h>

#include "base/check.h"
#include "plan/streams/stream_planner.h"
#include "policy/stream/stream_sessions.h"

namespace {

using namespace fermata;

policy::StreamSettings two_sizes(FuzzedDataProvider& data) {
  policy::StreamSettings s;
  for (uint32_t v = 0; v < 2; ++v) {
    const TableLatency latency{{{1, 10.0 + 10 * v}, {4, 16.0 + 16 * v}}};
    s.variants.push_back(
        {std::to_string(v), 100 * (v + 1), 0.2 * (v + 1), 0, *LatencyTable::make(latency, 4)});
  }
  s.phases = data.ConsumeBool();
  s.most_clients = 5;
  return s;
}

policy::StreamFrame any_frame(FuzzedDataProvider& data) {
  const auto number = [&](std::optional<double>& out) {
    if (data.ConsumeBool()) out = data.ConsumeFloatingPoint<double>();
  };
  policy::StreamFrame f;
  f.client = std::string(1, static_cast<char>('a' + data.ConsumeIntegralInRange(0, 7)));
  f.owner = data.ConsumeIntegralInRange<uint64_t>(0, 2);
  f.address = std::string(data.ConsumeIntegralInRange<size_t>(0, 2), 'x');
  if (data.ConsumeBool()) f.rate_rps = data.ConsumeFloatingPointInRange<double>(0, 130);
  number(f.bandwidth_mbps);
  number(f.sure_mbps);
  number(f.min_accuracy);
  // What the parser lets through: at most 1e12 us.
  const auto micros = [&] {
    return Duration::micros(data.ConsumeIntegralInRange(0L, 1'000'000'000'000));
  };
  if (data.ConsumeBool()) f.slo = micros();
  if (data.ConsumeBool()) f.round_trip = micros();
  if (data.ConsumeBool()) f.input_size = data.ConsumeIntegralInRange(0, 3) * 100;
  f.bytes = data.ConsumeIntegralInRange<uint64_t>(0, 1ULL << 40);
  return f;
}

}  // namespace

// Whatever clients of a stream service say of themselves, in any order: plans can be made, and a
// frame that is taken has a deadline within its objective.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzedDataProvider data(bytes, size);
  policy::StreamSessions sessions(two_sizes(data));
  Time now = Time() + Duration::seconds(1);
  for (int i = 0; i < 100 && data.remaining_bytes() > 0; ++i) {
    now = now + Duration::millis(data.ConsumeIntegralInRange(0, 3000));
    const policy::StreamFrame f = any_frame(data);
    switch (data.ConsumeIntegralInRange(0, 4)) {
      case 0:
        (void)sessions.hello(f, now);
        break;
      case 1:
        sessions.leave(f.client, f.owner);
        break;
      case 2:
        sessions.close(f.owner);
        break;
      default:
        if (const auto route = sessions.frame(f, now); route.ok()) {
          FERMATA_CHECK(route->variant < 2 && route->network >= Duration());
          FERMATA_CHECK(route->start_from >= now);
        }
    }
    FERMATA_CHECK(sessions.clients() <= 5);
    if (sessions.wants_plan(now)) {
      const plan::StreamProblem problem = sessions.problem(now);
      sessions.planned(problem, plan::plan_streams(problem));
    }
    const policy::StreamAdvice advice = sessions.advice(f.client, f.owner);
    FERMATA_CHECK(advice.input_size % 100 == 0);
  }
  return 0;
}
