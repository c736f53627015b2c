#pragma once

// What benches of whole engines share: bench_apart, bench_apart_deaths and bench_cluster.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>
#include <iostream>
#include <memory>
#include <semaphore>
#include <string>
#include <vector>

#include "base/document.h"
#include "base/histogram.h"
#include "engine/confine/nursery.h"
#include "engine/engine.h"

namespace fermata::engine {

inline constexpr int kAlone = 2000, kInFlight = 32;
inline constexpr Duration kMany = Duration::millis(400);

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

inline std::unique_ptr<Engine> engine_of(EngineOptions options) {
  options.workers.nursery = std::make_shared<Nursery>(options.probe_program);  // as servers do
  auto made = make_engine(std::move(options));
  if (!made.ok()) {
    std::cerr << made.status() << "\n";
    std::exit(1);
  }
  return *std::move(made);
}

inline std::unique_ptr<Engine> engine_of(const char* repository, const char* fermata,
                                         Isolation isolation, bool standby = false) {
  EngineOptions options;
  options.repository = repository;
  options.probe_program = fermata;
  options.workers.isolation = isolation;
  options.workers.standby = standby;
  return engine_of(std::move(options));
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

inline double alone_us(Engine& engine, const std::string& model, const Tensor& input) {
  Histogram whole;
  for (int i = 0; i < kAlone; ++i) {
    std::promise<void> done;
    const Time start = engine.now();
    engine.submit({.service = model, .inputs = {input}, .arrival = start},
                  [&](const ReplyPart&) { done.set_value(); });
    done.get_future().wait();
    whole.record(engine.now() - start);
  }
  return whole.quantile(0.5).micros();
}

// Of two engines that take turns; `measure` gets one, the model and an input.
struct Comparison {
  double first = 0, second = 0, difference = 0, ratio = 0;  // medians
};

template <class Measure>
Comparison compare(Engine& first, Engine& second, const std::string& model, int rounds,
                   Measure measure) {
  const Tensor input = input_of(first, model);
  std::vector<double> firsts, seconds, differences, ratios;
  for (int i = 0; i < rounds; ++i) {
    double a = 0, b = 0;  // whoever is first differs from round to round
    if (i % 2 == 0) a = measure(first, model, input);
    b = measure(second, model, input);
    if (i % 2 == 1) a = measure(first, model, input);
    firsts.push_back(a);
    seconds.push_back(b);
    differences.push_back(b - a);
    ratios.push_back(b / a);
  }
  return {median(firsts), median(seconds), median(differences), median(ratios)};
}

}  // namespace fermata::engine
