#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/plan.h"
#include "plan/streams/stream_document.h"
#include "plan/streams/stream_planner.h"

namespace fermata::cli {
namespace {

constexpr const char* kStreamsHelp = R"(
Example, with this document as cameras.yaml:
  fermata plan streams cameras.yaml > mapping.json

  workers: 2
  variants:
    - {name: yolo-128, input_size: 128, accuracy: 0.19, request_kb: 10.3,
       latency_ms: {table: {1: 23, 4: 32, 8: 44}}}
    - {name: yolo-416, input_size: 416, accuracy: 0.41, request_kb: 74.7,
       latency_ms: {table: {1: 31, 4: 64, 8: 108}}}
  clients:
    - {id: gate, rate_rps: 15, slo_ms: 150, bandwidth_mbps: 40, rtt_ms: 5}
    - {id: yard, rate_rps: 25, slo_ms: 75, bandwidth_mbps: 12.5, rtt_ms: 8}
  current: [yolo-128, yolo-128]
  solver: best

Exit code 0: done. 2: the document is wrong.
)";

Exit run_streams(const std::string& file) {
  auto document = Document::load(file);
  if (!document.ok()) return refuse_plan(document.status());
  const auto problem = document->read(plan::read_stream_problem);
  if (!problem.ok()) return refuse_plan(problem.status());
  const Time start = monotonic_now();
  const plan::StreamPlan plan = plan::plan_streams(*problem);
  std::cerr << fmt::format("mapped {} of {} clients to {} workers in {:.2f} ms\n", plan.served,
                           problem->clients.size(), problem->workers,
                           (monotonic_now() - start).millis());
  for (const plan::StreamVariant& variant : problem->variants) {
    if (!variant.raised) continue;
    std::cerr << fmt::format(
        "{}: a larger batch takes less than a smaller one; it was planned with the time of the "
        "smaller one\n",
        variant.name);
  }
  std::cout << write_json(plan::write_stream_plan(*problem, plan));
  return kDone;
}

}  // namespace

void add_plan_streams(CLI::App& plan, int& exit_code) {
  CLI::App* streams = plan.add_subcommand(
      "streams", "Choose each worker's DNN and clients (Jellyfish, Algorithms 1 and 2).");
  auto file = std::make_shared<std::string>();
  streams->add_option("FILE", *file, kPlanFile)->required();
  streams->footer(kStreamsHelp);
  streams->callback([file, &exit_code] { exit_code = run_streams(*file); });
}

}  // namespace fermata::cli
