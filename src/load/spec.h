#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/document.h"
#include "base/time.h"
#include "load/transport.h"
#include "simulate/arrivals.h"

namespace fermata::load {

// The requests for one service.
struct ServiceLoad {
  std::string name, version;  // version empty: the server's choice
  double rate_rps = 0;
  std::optional<simulate::ArrivalProcess> arrivals;  // none: that of the whole load
  std::string inputs;                                // a file, see records.h; empty: made up
  // An answer counts as on time within `slo` of its scheduled arrival. `timeout`
  // is what the server is told; an slo alone tells it nothing.
  std::optional<Duration> slo, timeout;
};

// What `fermata load` is to do.
struct LoadSpec {
  Protocol protocol = Protocol::kGrpc;
  std::string address;  // HOST:PORT; empty: this machine, the protocol's usual port
  std::vector<ServiceLoad> services;
  simulate::ArrivalProcess arrivals;
  Duration warmup = Duration::seconds(1);     // of the schedule; not counted
  Duration duration = Duration::seconds(10);  // that is counted, after it
  Duration drain = Duration::seconds(10);     // how long answers are awaited after the last send
  uint64_t seed = 1;
  bool explain = false;
};

// NAME:RATE[:INPUTS][:SLO_MS], where INPUTS may be empty.
absl::StatusOr<ServiceLoad> parse_service(std::string_view text);
// poisson, uniform, gamma:SHAPE or trace:FILE. Reads the file.
absl::StatusOr<simulate::ArrivalProcess> parse_arrivals(std::string_view text);
Protocol read_protocol(Reader value);
// The document form; docs/cli.md shows it.
LoadSpec read_spec(Reader root);

// Fills in the address, and gives services without an arrival process, slo or
// timeout the load's. Every service has a rate above 0; a trace may bring it.
absl::Status complete(LoadSpec& spec);

}  // namespace fermata::load
