#include "cli/demo_links.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/random.h"
#include "base/status.h"
#include "cli/spawned.h"

namespace fermata::cli {
namespace {

constexpr size_t kMadeSeconds = 200;
constexpr double kLeastMbps = 0.05, kMostMbps = 1e5;
constexpr std::string_view kPrefix = "fmd";
// Bytes. What the bucket of a link holds passes at once: one packet, and packets are small.
constexpr const char *kPacket = "1000", *kBucket = "1100";
constexpr char kNamespaces[] = "/run/netns";

// Log-normal around a median, each second drawn to the last one; `fall`: how often it breaks in.
LinkTrace made_trace(std::string name, double median, double spread, double memory, double fall) {
  Random random(1, name.size());
  LinkTrace trace{std::move(name), {}};
  double state = 0;
  for (size_t i = 0; i < kMadeSeconds; ++i) {
    state = memory * state + (1 - memory) * random.normal() * spread;
    const double factor = random.uniform() < fall ? 0.3 : 1;
    trace.mbps.push_back(std::max(median * portable_exp(state) * factor, kLeastMbps));
  }
  return trace;
}

// Whose namespace this is, named as space() does; 0: no demo's.
pid_t owner_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return 0;
  pid_t pid = 0;
  size_t client = 0;
  const char* const end = name.data() + name.size();
  const auto [dash, bad] = std::from_chars(name.data() + kPrefix.size(), end, pid);
  if (bad != std::errc() || dash == end || *dash != '-') return 0;
  const auto [last, worse] = std::from_chars(dash + 1, end, client);
  return worse == std::errc() && last == end ? pid : 0;
}

// What demos have left that no longer run.
void remove_leftovers() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(kNamespaces, ignored)) {
    const std::string name = entry.path().filename();
    const pid_t pid = owner_of(name);
    if (pid <= 0 || kill(pid, 0) == 0) continue;
    (void)run_program({"ip", "netns", "delete", name});
    (void)run_program({"ip", "link", "delete", fmt::format("{}{}", kPrefix, pid)});
  }
}

}  // namespace

double LinkTrace::at(Duration since_start) const {
  return mbps[static_cast<size_t>(since_start.seconds() / hold.seconds()) % mbps.size()];
}

std::vector<LinkTrace> made_traces() {
  return {made_trace("lte", 1.5, 0.9, 0.7, 0.06), made_trace("wifi", 5, 0.4, 0.5, 0),
          LinkTrace{"synthetic", {2, 1.5, 1, 0.5, 0.25, 0.5, 1, 1.5}, Duration::seconds(5)}};
}

absl::StatusOr<LinkTrace> read_trace(const std::string& file) {
  std::ifstream text(file);
  if (!text) return invalid("trace {} cannot be read", file);
  LinkTrace trace{std::filesystem::path(file).stem(), {}};
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    if (line.empty()) continue;
    double value = 0;
    const auto [end, failed] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (failed != std::errc() || end != line.data() + line.size() || !(value >= kLeastMbps) ||
        !(value <= kMostMbps)) {
      return invalid("trace {}, line {}: \"{}\", expected Mbit/s from {} to {}", file, number,
                     line.substr(0, 40), kLeastMbps, kMostMbps);
    }
    trace.mbps.push_back(value);
  }
  if (trace.mbps.empty()) return invalid("trace {} is empty, expected Mbit/s, one a line", file);
  return trace;
}

absl::StatusOr<DemoLinks> DemoLinks::make(std::vector<LinkTrace> traces) {
  if (geteuid() != 0) {
    return error(absl::StatusCode::kFailedPrecondition,
                 "network namespaces need root; try again with sudo, or as root in a container "
                 "that may (docker run --privileged)");
  }
  for (const char* program : {"ip", "tc"}) {
    if (!run_program({program, "-V"}).ok()) {
      return error(absl::StatusCode::kFailedPrecondition,
                   "{} is not there; install Debian's iproute2", program);
    }
  }
  remove_leftovers();
  DemoLinks links(fmt::format("{}{}", kPrefix, getpid()), std::move(traces));
  RETURN_IF_ERROR(links.make_all());
  return links;
}

DemoLinks::DemoLinks(std::string name, std::vector<LinkTrace> traces)
    : name_(std::move(name)), traces_(std::move(traces)), now_(traces_.size()) {}

DemoLinks::DemoLinks(DemoLinks&& other) noexcept
    : name_(std::exchange(other.name_, {})),
      traces_(std::move(other.traces_)),
      now_(std::move(other.now_)) {}

DemoLinks::~DemoLinks() {
  if (name_.empty()) return;
  for (size_t i = 0; i < traces_.size(); ++i) {
    (void)run_program({"ip", "netns", "delete", space(i)});
  }
  (void)run_program({"ip", "link", "delete", name_});
}

std::string DemoLinks::space(size_t client) const { return fmt::format("{}-{}", name_, client); }

std::vector<std::string> DemoLinks::inside(size_t client, std::vector<std::string> words) const {
  std::vector<std::string> all = {"ip", "netns", "exec", space(client)};
  for (std::string& word : words) all.push_back(std::move(word));
  return all;
}

absl::Status DemoLinks::make_all() {
  RETURN_IF_ERROR(run_program({"ip", "link", "add", name_, "type", "bridge"}));
  RETURN_IF_ERROR(
      run_program({"ip", "address", "add", fmt::format("{}/16", kServer), "dev", name_}));
  RETURN_IF_ERROR(run_program({"ip", "link", "set", name_, "up"}));
  for (size_t i = 0; i < traces_.size(); ++i) {
    const std::string near = fmt::format("{}n{}", name_, i), far = fmt::format("{}f{}", name_, i);
    const std::string address = fmt::format("10.214.1.{}/16", i + 1);
    RETURN_IF_ERROR(run_program({"ip", "netns", "add", space(i)}));
    RETURN_IF_ERROR(run_program({"ip", "link", "add", near, "type", "veth", "peer", "name", far}));
    RETURN_IF_ERROR(run_program({"ip", "link", "set", near, "master", name_, "up"}));
    RETURN_IF_ERROR(
        run_program({"ip", "link", "set", far, "netns", space(i), "name", "eth0", "mtu", kPacket}));
    RETURN_IF_ERROR(run_program({"ip", "-n", space(i), "address", "add", address, "dev", "eth0"}));
    for (const char* device : {"lo", "eth0"}) {
      RETURN_IF_ERROR(run_program({"ip", "-n", space(i), "link", "set", device, "up"}));
    }
  }
  return shape(Duration());
}

absl::Status DemoLinks::shape(Duration since_start) {
  for (size_t i = 0; i < traces_.size(); ++i) {
    const double mbps = traces_[i].at(since_start);
    if (mbps == now_[i]) continue;
    const char* verb = now_[i] == 0 ? "add" : "change";
    RETURN_IF_ERROR(run_program({"tc", "-n", space(i), "qdisc", verb, "dev", "eth0", "root", "tbf",
                                 "rate", fmt::format("{}kbit", static_cast<int64_t>(mbps * 1000)),
                                 "burst", kBucket, "limit", "4mb"}));
    now_[i] = mbps;
  }
  return absl::OkStatus();
}

}  // namespace fermata::cli
