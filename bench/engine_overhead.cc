// What the engine adds to a model's own run time, without any protocol: one request at a
// time, then many in flight. Prints one JSON object.
//   bench_engine_overhead REPOSITORY FERMATA [POLICY]
#include <atomic>
#include <cstring>
#include <future>
#include <iostream>
#include <nlohmann/json.hpp>
#include <semaphore>

#include "base/clock.h"
#include "base/document.h"
#include "base/histogram.h"
#include "engine/engine.h"

namespace {

using namespace fermata;
using namespace fermata::engine;

InferRequest request_for(const Tensor& input, Time now) {
  return {.service = "dense", .inputs = {input}, .arrival = now};
}

Json one_at_a_time(Engine& engine, const Tensor& input) {
  Histogram whole, run;
  for (int i = 0; i < 20'000; ++i) {
    std::promise<void> done;
    const Time start = engine.now();
    engine.submit(request_for(input, start), [&](ReplyPart part) {
      run.record(part.why.run);
      done.set_value();
    });
    done.get_future().wait();
    whole.record(engine.now() - start);
  }
  return {{"p50_us", whole.quantile(0.5).micros()},
          {"p99_us", whole.quantile(0.99).micros()},
          {"model_p50_us", run.quantile(0.5).micros()}};
}

Json many(Engine& engine, const Tensor& input, int in_flight) {
  constexpr int kRequests = 400'000;
  std::counting_semaphore<> room(in_flight);
  std::atomic<int> failed{0};
  const Time start = engine.now();
  for (int i = 0; i < kRequests; ++i) {
    room.acquire();
    engine.submit(request_for(input, engine.now()), [&](ReplyPart part) {
      if (!part.status.ok()) ++failed;
      room.release();
    });
  }
  for (int i = 0; i < in_flight; ++i) room.acquire();
  const double seconds = (engine.now() - start).seconds();
  return {{"in_flight", in_flight}, {"per_second", kRequests / seconds}, {"failed", failed.load()}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  EngineOptions options;
  options.repository = argv[1];
  options.probe_program = argv[2];
  options.workers.isolation = Isolation::kThread;
  if (argc > 3) options.policy = argv[3];
  auto engine = make_engine(std::move(options));
  if (!engine.ok()) {
    std::cerr << engine.status() << "\n";
    return 1;
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(16 * sizeof(float));
  const Tensor input{"x", DataType::kFp32, {1, 16}, {*bytes, bytes}};
  std::cout << write_json(
      {{"one_at_a_time", one_at_a_time(**engine, input)},
       {"throughput", {many(**engine, input, 16), many(**engine, input, 256)}}});
}
