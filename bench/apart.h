#pragma once

// What bench_apart and bench_apart_deaths share.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <semaphore>
#include <string>
#include <vector>

#include "base/document.h"
#include "engine/engine.h"

namespace fermata::engine {

inline constexpr int kInFlight = 32;
inline constexpr Duration kMany = Duration::millis(400);

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

inline std::unique_ptr<Engine> engine_of(const char* repository, const char* fermata,
                                         Isolation isolation, bool standby = false) {
  EngineOptions options;
  options.repository = repository;
  options.probe_program = fermata;
  options.workers.isolation = isolation;
  options.workers.standby = standby;
  auto made = make_engine(std::move(options));
  if (!made.ok()) {
    std::cerr << made.status() << "\n";
    std::exit(1);
  }
  return *std::move(made);
}

inline Tensor input_of(const Engine& engine, const std::string& model) {
  const auto variant = engine.catalog()->find(model, "");
  if (!variant.ok()) {
    std::cerr << variant.status() << "\n";
    std::exit(1);
  }
  const TensorSpec& spec = (*variant)->signature.inputs[0];
  Shape item = spec.dims;
  std::replace(item.begin(), item.end(), int64_t{-1}, int64_t{1});
  return zeros(spec, std::move(item), (*variant)->signature.batches ? 1 : 0);
}

inline double per_second(Engine& engine, const std::string& model, const Tensor& input) {
  std::counting_semaphore<> room(kInFlight);
  std::atomic<int> failed{0};
  const Time start = engine.now();
  int asked = 0;
  for (; engine.now() - start < kMany; ++asked) {
    room.acquire();
    engine.submit({.service = model, .inputs = {input}, .arrival = engine.now()},
                  [&](const ReplyPart& part) {
                    if (!part.status.ok()) ++failed;
                    room.release();
                  });
  }
  for (int i = 0; i < kInFlight; ++i) room.acquire();
  if (failed > 0) std::exit(1);
  return asked / (engine.now() - start).seconds();
}

}  // namespace fermata::engine
