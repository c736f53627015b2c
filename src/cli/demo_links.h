#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace fermata::cli {

// The bandwidth of a link over time, from the start again when it is over.
struct LinkTrace {
  std::string name;
  std::vector<double> mbps;  // positive, at least one
  Duration hold = Duration::seconds(1);

  double at(Duration since_start) const;
};

// Made ones: a mobile link that falls now and then, a wireless one, and steps. Around what the demo
// zoo's frames need.
std::vector<LinkTrace> made_traces();
// Of a file: a number of Mbit/s a line, each for a second. INVALID_ARGUMENT names the line.
absl::StatusOr<LinkTrace> read_trace(const std::string& file);

// Links between network namespaces, as Linux has them: a bridge, a namespace with a veth for each
// client, and a token bucket with a long queue and no added delay on the client's way to the
// server (Jellyfish, section 5.1). All of it goes with this. Needs root, ip and tc.
class DemoLinks {
 public:
  // FAILED_PRECONDITION says what is missing, and what to do. Removes what earlier demos that were
  // killed have left.
  static absl::StatusOr<DemoLinks> make(std::vector<LinkTrace> traces);  // one a client
  DemoLinks(DemoLinks&& other) noexcept;
  DemoLinks& operator=(DemoLinks&&) = delete;
  ~DemoLinks();

  static constexpr char kServer[] = "10.214.0.1";  // the address that clients reach
  std::vector<std::string> inside(size_t client, std::vector<std::string> words) const;
  absl::Status shape(Duration since_start);  // where the traces have changed
  double mbps(size_t client) const { return now_[client]; }

 private:
  DemoLinks(std::string name, std::vector<LinkTrace> traces);
  absl::Status make_all();
  std::string space(size_t client) const;

  std::string name_;  // empty: moved from
  std::vector<LinkTrace> traces_;
  std::vector<double> now_;
};

}  // namespace fermata::cli
