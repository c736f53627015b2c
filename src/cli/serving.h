#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serve/config/config.h"

namespace fermata::cli {

// What a process does of what a Fermata does (docs/cluster.md).
enum class Part : uint8_t { kAll, kFrontend, kScheduler };

struct ServeArguments {
  Part part = Part::kAll;
  std::string config, models, model_name;
  std::optional<std::string> host, log_level;
  std::optional<uint16_t> http, grpc, metrics;
  std::optional<std::string> ready;
  std::optional<double> drain_delay_s;
  bool is_public = false, admin = false, exit_on_error = false;
  double drain_s = 10;
  std::string record;
  std::string listen, name;             // for other parts; of a frontend
  std::vector<std::string> schedulers;  // of a frontend, by division: with commas between them
  std::string division;                 // of a scheduler
};

// In metrics and logs of others: as given, or its host's. INVALID_ARGUMENT where it is no name.
absl::StatusOr<std::string> part_name(const std::string& given, const char* otherwise);

// HOST:PORT each, with commas between them. INVALID_ARGUMENT names one that is something else, or
// is on another host although the parts have no certificates.
absl::StatusOr<std::vector<std::string>> scheduler_addresses(const std::string& given,
                                                             const serve::Config& config);

// The options that all parts have, and those of parts that decide; `arguments` says which it is.
void add_serving_options(CLI::App& command, ServeArguments& arguments);
// Until a signal stops it: the exit code.
int serve_until_stopped(const ServeArguments& arguments);

}  // namespace fermata::cli
