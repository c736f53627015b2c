// What models in processes of their own cost beside models on threads of the server, without any
// protocol. Rounds of both take turns in one process. Prints one JSON object.
//   bench_apart REPOSITORY FERMATA ROUNDS      (bench/apart.py writes the repository)
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <future>
#include <nlohmann/json.hpp>

#include "base/histogram.h"
#include "engines.h"

namespace {

using namespace fermata;
using namespace fermata::engine;

// Of a request's time in its batch, on average: putting it together, running it, taking it apart.
Json stages_us(const Engine& engine, const std::string& model) {
  for (const ServiceStatistics& row : engine.snapshot().services) {
    if (row.service != model || row.compute_infer.count == 0) continue;
    const auto mean = [](const DurationCount& all) {
      return all.total.micros() / static_cast<double>(all.count);
    };
    return {{"input", mean(row.compute_input)},
            {"run", mean(row.compute_infer)},
            {"output", mean(row.compute_output)}};
  }
  return {};
}

// Items in a batch, on average.
double batch_items(const Engine& engine, const std::string& model) {
  for (const ServiceStatistics& row : engine.snapshot().services) {
    if (row.service != model || row.execution_count == 0) continue;
    return static_cast<double>(row.inference_count) / static_cast<double>(row.execution_count);
  }
  return 0;
}

template <class Measure>
Json compared(const std::string& model, int rounds, Engine& thread, Engine& process,
              Measure measure) {
  const Comparison made = compare(thread, process, model, rounds, measure);
  return {{"thread", made.first},
          {"process", made.second},
          {"ratio", made.ratio},
          {"difference", made.difference}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: bench_apart REPOSITORY FERMATA ROUNDS\n";
    return 2;
  }
  spdlog::set_default_logger(spdlog::stderr_logger_st("bench"));
  const int rounds = std::atoi(argv[3]);
  const auto thread = engine_of(argv[1], argv[2], Isolation::kThread);
  const auto process = engine_of(argv[1], argv[2], Isolation::kProcess);
  Json result;
  for (const char* model : {"kb1", "kb150"}) {
    result["p50_us"][model] = compared(model, rounds, *thread, *process, alone_us);
    result["mean_us"][model] = {{"thread", stages_us(*thread, model)},
                                {"process", stages_us(*process, model)}};
  }
  for (const char* model : {"kb1", "us100", "ms1"}) {
    result["per_second"][model] = compared(model, rounds, *thread, *process, per_second);
    result["mean_us"][model] = {{"thread", stages_us(*thread, model)},
                                {"process", stages_us(*process, model)}};
    result["batch_items"][model] = {{"thread", batch_items(*thread, model)},
                                    {"process", batch_items(*process, model)}};
  }
  std::cout << write_json(result);
  return 0;
}
