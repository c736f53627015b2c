// What the recorder costs: the same requests through an engine with and without it, many in flight.
// Prints one JSON object; bench/live_cost.py counts the instructions of both.
//   bench_recorder REPOSITORY FERMATA REQUESTS [record]
#include "tune/recorder.h"

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <string_view>

#include "base/document.h"
#include "engine/engine.h"

namespace {

using namespace fermata;
using namespace fermata::engine;

constexpr int kInFlight = 64;

Json run(Engine& engine, const Tensor& input, int requests) {
  std::counting_semaphore<> room(kInFlight);
  std::atomic<int> failed{0};
  const Time start = engine.now();
  for (int i = 0; i < requests; ++i) {
    room.acquire();
    InferRequest request{.service = "dense", .inputs = {input}, .arrival = engine.now()};
    engine.submit(std::move(request), [&](ReplyPart part) {
      if (!part.status.ok()) ++failed;
      room.release();
    });
  }
  for (int i = 0; i < kInFlight; ++i) room.acquire();
  const double seconds = (engine.now() - start).seconds();
  return {{"requests", requests}, {"per_second", requests / seconds}, {"failed", failed.load()}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  EngineOptions options;
  options.repository = argv[1];
  options.probe_program = argv[2];
  options.workers.isolation = Isolation::kThread;
  const bool record = argc > 4 && std::string_view(argv[4]) == "record";
  const auto recorder =
      record ? std::make_shared<tune::Recorder>(tune::RecorderOptions{}) : nullptr;
  options.observer = recorder;
  auto engine = make_engine(std::move(options));
  if (!engine.ok()) {
    std::cerr << engine.status() << "\n";
    return 1;
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(16 * sizeof(float));
  const Tensor input{"x", DataType::kFp32, {1, 16}, {*bytes, bytes}};
  Json result = run(**engine, input, std::atoi(argv[3]));
  if (recorder != nullptr) {
    recorder->collect();
    result["lost"] = recorder->lost();
    result["memory_mb"] = recorder->memory_mb();
  }
  std::cout << write_json(result);
}
