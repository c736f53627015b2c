// Runs stream clients over network traces in virtual time. Reads one JSON object a line from
// standard input and writes one result a line; bench/streams.py makes and draws them.
//   bench_streams < runs.jsonl
#include "simulate/streams.h"

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/document.h"
#include "base/status.h"
#include "plan/streams/stream_document.h"

namespace {

using namespace fermata;
using namespace fermata::simulate;

StreamRun::Client read_client(Reader value, size_t traces) {
  ObjectReader fields = value.object();
  StreamRun::Client c;
  c.rate_rps = fields["rate_rps"].positive();
  c.slo_ms = fields["slo_ms"].positive();
  c.rtt_ms = fields["rtt_ms"].non_negative(c.rtt_ms);
  c.trace = static_cast<uint32_t>(
      fields["trace"].integer(0, static_cast<int64_t>(std::max<size_t>(traces, 1)) - 1, 0));
  c.start_s = fields["start_s"].non_negative(0.0);
  c.first_frame_s = fields["first_frame_s"].non_negative(0.0);
  return c;
}

StreamRun read_run(Reader root) {
  ObjectReader fields = root.object();
  StreamRun run;
  for (const Reader trace : fields["traces_mbps"].list(1)) {
    std::vector<double>& mbps = run.traces_mbps.emplace_back();
    for (const Reader value : trace.list(1)) mbps.push_back(value.non_negative());
  }
  run.hold_s = fields["hold_s"].positive(run.hold_s);
  run.variants = plan::read_stream_variants(fields["variants"]);
  for (const Reader value : fields["clients"].list(1)) {
    run.clients.push_back(read_client(value, run.traces_mbps.size()));
  }
  run.workers = static_cast<uint32_t>(fields["workers"].integer(1, 256));
  run.mode = static_cast<StreamMode>(fields["mode"].choice(
      {"planned", "fixed", "dnn-alone", "bandwidth-alone", "objective-alone"}, 0));
  run.compute_share = fields["compute_share"].between(0, 1, run.compute_share);
  run.dispatch =
      static_cast<StreamDispatch>(fields["dispatch"].choice({"pool", "workers", "batches"}, 0));
  const auto variants = static_cast<int64_t>(std::max<size_t>(run.variants.size(), 1));
  run.variant = static_cast<uint32_t>(fields["variant"].integer(0, variants - 1, 0));
  run.phases = fields["phases"].boolean(false);
  run.phased_wait = fields["phased_wait"].between(0, 1, run.phased_wait);
  run.solver =
      static_cast<plan::StreamSolver>(fields["solver"].choice({"best", "exact", "annealing"}, 0));
  run.scheduler = fields["scheduler"].string(run.scheduler);
  run.room = static_cast<uint32_t>(fields["room"].integer(0, variants, 0));
  run.load_ms = fields["load_ms"].non_negative(run.load_ms);
  run.keep_sent = fields["keep_sent"].boolean(false);
  run.duration_s = fields["duration_s"].positive(run.duration_s);
  run.seed = static_cast<uint64_t>(fields["seed"].integer(0, INT64_MAX, 1));
  return run;
}

// How long answers took, by the share that took less: of 0, 1, ... 100 %.
Json percentiles(const std::vector<double>& ascending) {
  Json at = Json::array();
  for (size_t p = 0; p <= 100 && !ascending.empty(); ++p) {
    at.push_back(std::round(ascending[p * (ascending.size() - 1) / 100] * 100) / 100);
  }
  return at;
}

Json sent(const std::vector<StreamRunResult::Sent>& frames) {
  Json rows = Json::array();
  for (const StreamRunResult::Sent& f : frames) {
    rows.push_back({f.client, f.at_s, f.size, f.mbps, f.estimated_mbps, f.on_time});
  }
  return rows;
}

absl::StatusOr<Json> answer(const std::string& line) {
  ASSIGN_OR_RETURN(Document document, Document::parse(line));
  ASSIGN_OR_RETURN(const StreamRun run, document.read(read_run));
  ASSIGN_OR_RETURN(const StreamRunResult r, run_streams(run));
  const double batches = static_cast<double>(std::max<uint64_t>(r.batches, 1));
  return Json{{"offered", r.offered},
              {"on_time", r.on_time},
              {"late", r.late},
              {"rejected", r.rejected},
              {"dropped", r.dropped},
              {"miss_rate", r.miss_rate()},
              {"accuracy", r.accuracy},
              {"utilization", r.utilization},
              {"mismatches", r.mismatches},
              {"plans", r.plans},
              {"switches", r.switches},
              {"near_switches", r.near_switches},
              {"prefetched", r.prefetched},
              {"fetched", r.fetched},
              {"stale", r.stale},
              {"mean_batch", static_cast<double>(r.batched) / batches},
              {"estimate_error", r.estimate_error},
              {"frames_by_variant", r.frames_by_variant},
              {"latency_percentiles_ms", percentiles(r.latencies_ms)},
              {"sent", sent(r.sent)}};
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto result = answer(line);
    if (!result.ok()) {
      std::cerr << "bench_streams: " << message(result.status()) << "\n";
      return 2;
    }
    std::cout << result->dump() << std::endl;
  }
}
