#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "load/report.h"
#include "load/run.h"
#include "load/spec.h"

namespace fermata::cli {
namespace {

constexpr const char* kLoadExamples = R"(Examples:
  fermata load --service digits:100
  fermata load --service digits:100:zoo/data/digits-test.jsonl:25 --timeout-ms 25 --duration 30
  fermata load --protocol http --service digits:50 --service scans:20 --arrivals gamma:0.5 --json
  fermata load zoo/load.yaml --explain

The services are those of the demo zoo: make serve, or fermata serve --config zoo/fermata.yaml.
Latency counts from the moment at which a request was to be sent (open loop),
so a slow server cannot slow the load down. docs/cli.md shows the document.

Exit codes: 0 done, 1 no server answers, 2 the arguments or the document are wrong.)";

// What the command line says; what it leaves out, the document or the defaults say.
struct LoadOptions {
  std::string file;
  std::vector<std::string> services;
  std::optional<std::string> protocol, url, arrivals;
  std::optional<double> duration_s, warmup_s, drain_s, slo_ms, timeout_ms;
  std::optional<uint64_t> seed;
  bool explain = false, json = false;
};

void override_times(const LoadOptions& options, load::LoadSpec& spec) {
  if (options.duration_s) spec.duration = Duration::from_seconds(*options.duration_s);
  if (options.warmup_s) spec.warmup = Duration::from_seconds(*options.warmup_s);
  if (options.drain_s) spec.drain = Duration::from_seconds(*options.drain_s);
  for (load::ServiceLoad& service : spec.services) {
    if (options.timeout_ms) service.timeout = Duration::from_millis(*options.timeout_ms);
    if (options.slo_ms && !service.slo) service.slo = Duration::from_millis(*options.slo_ms);
  }
}

absl::StatusOr<load::LoadSpec> spec_of(const LoadOptions& options) {
  load::LoadSpec spec;
  if (!options.file.empty()) {
    ASSIGN_OR_RETURN(Document document, Document::load(options.file));
    ASSIGN_OR_RETURN(spec, document.read(load::read_spec));
  }
  for (const std::string& text : options.services) {
    ASSIGN_OR_RETURN(load::ServiceLoad service, load::parse_service(text));
    spec.services.push_back(std::move(service));
  }
  if (spec.services.empty()) {
    return invalid("no service, expected --service NAME:RATE or a document (see --help)");
  }
  if (options.protocol) {
    spec.protocol = *options.protocol == "http" ? load::Protocol::kHttp : load::Protocol::kGrpc;
  }
  if (options.url) spec.address = *options.url;
  if (options.seed) spec.seed = *options.seed;
  spec.explain |= options.explain;
  if (options.arrivals) {
    ASSIGN_OR_RETURN(spec.arrivals, load::parse_arrivals(*options.arrivals));
  }
  override_times(options, spec);
  RETURN_IF_ERROR(load::complete(spec));
  return spec;
}

int fail(const absl::Status& status) {
  std::cerr << "fermata load: " << message(status) << "\n";
  if (status.code() != absl::StatusCode::kUnavailable) return kBadInput;
  std::cerr << "Start a server with `fermata serve`, or say where one is with --url HOST:PORT "
               "and --protocol.\n";
  return kFailed;
}

int run_command(const LoadOptions& options) {
  const auto spec = spec_of(options);
  if (!spec.ok()) return fail(spec.status());
  absl::StatusOr<load::LoadResult> result;
  {
    Progress progress("load");
    result = load::run_load(
        *spec, [&](double share, std::string_view note) { progress.update(share, note); });
  }
  if (!result.ok()) return fail(result.status());
  (options.json ? std::cerr : std::cout) << load::report_table(*spec, *result);
  if (options.json) std::cout << load::report_json(*spec, *result);
  return kDone;
}

}  // namespace

void add_load(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<LoadOptions>();
  CLI::App* command = app.add_subcommand(
      "load", "Send requests at a given rate and count how many are answered on time.");
  command->footer(kLoadExamples);
  command->add_option("FILE", options->file, "A YAML or JSON document that describes the load");
  command
      ->add_option(
          "--service", options->services,
          "NAME:RATE[:INPUTS][:SLO_MS]: requests a second, a file with inputs (.jsonl, or .npy "
          "with one per row; else synthetic), milliseconds within which an answer is on time; "
          "repeatable")
      ->allow_extra_args(false);
  command->add_option("--protocol", options->protocol, "grpc (the default) or http")
      ->check(CLI::IsMember({"grpc", "http"}));
  command->add_option("--url", options->url,
                      "HOST:PORT of the server (localhost:8001, or 8000 for http)");
  command->add_option("--arrivals", options->arrivals,
                      "poisson (the default), uniform, gamma:SHAPE, or trace:FILE with one "
                      "count per second on each line");
  command->add_option("--duration", options->duration_s, "Seconds to measure (10)")
      ->check(CLI::Range(0.001, 86400.0));
  command->add_option("--warmup", options->warmup_s, "Seconds to send before that, not counted (1)")
      ->check(CLI::Range(0.0, 86400.0));
  command->add_option("--drain", options->drain_s, "Seconds to wait for the last answers (10)")
      ->check(CLI::Range(0.0, 86400.0));
  command->add_option("--slo-ms", options->slo_ms, "SLO of services without their own")
      ->check(CLI::Range(1e-3, 86400e3));
  command
      ->add_option("--timeout-ms", options->timeout_ms,
                   "Deadline that each request tells the server; also the SLO if there is no other")
      ->check(CLI::Range(1e-3, 86400e3));
  command->add_option("--seed", options->seed, "Seed of arrivals and synthetic inputs (1)");
  command->add_flag("--explain", options->explain,
                    "Ask the server for batch sizes, queueing and run times");
  command->add_flag("--json", options->json,
                    "Print the result as JSON; the table then goes to standard error");
  command->callback([options, &exit_code] { exit_code = run_command(*options); });
}

}  // namespace fermata::cli
