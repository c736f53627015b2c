#include "serve/config/cluster_options.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "cluster/wire/offered.h"
#include "serve/config/reach.h"

namespace fermata::serve {
namespace {

constexpr size_t kLongestDivision = 63, kLongestLease = 253;
constexpr char kAddress[] = "HOST:PORT, port 0 for a free one";

cluster::TlsFiles tls_files(Reader reader) {
  cluster::TlsFiles files;
  if (!reader.present()) return files;
  ObjectReader fields = reader.object();
  files.certificate = fields["certificate"].string();
  files.key = fields["key"].string();
  files.authority = fields["authority"].string();
  return files;
}

// A DNS subdomain, which becomes a part of a path.
bool is_kubernetes_name(std::string_view name, size_t most) {
  const auto plain = [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); };
  const auto is_label = [&plain](std::string_view label) {
    return !label.empty() && plain(label.front()) && plain(label.back()) &&
           absl::c_all_of(label, [&plain](char c) { return plain(c) || c == '-'; });
  };
  const std::vector<std::string> labels = absl::StrSplit(std::string(name), '.');
  return name.size() <= most && absl::c_all_of(labels, is_label);
}

std::string kubernetes_name(size_t most) {
  return fmt::format(
      "a name of Kubernetes: small letters, digits, '-' and '.', a letter or digit first, last and "
      "beside each '.', {} at most",
      most);
}

std::string name_in_kubernetes(const Reader& reader, size_t most) {
  const std::string name = reader.string();
  if (!is_kubernetes_name(name, most)) reader.fail(kubernetes_name(most));
  return name;
}

cluster::LeaseOptions lease(const Reader& reader, const std::string& lock) {
  cluster::LeaseOptions lease;
  if (!reader.present()) return lease;
  ObjectReader fields = reader.object();
  lease.name = name_in_kubernetes(fields["name"], kLongestLease);
  if (Reader space = fields["namespace"]; space.present()) {
    lease.space = name_in_kubernetes(space, 63);
  }
  if (Reader server = fields["server"]; server.present()) {
    lease.server = server.string();
    std::string host;
    uint16_t port = 0;
    const bool secure = lease.server.rfind("https://", 0) == 0;
    const bool plain = lease.server.rfind("http://", 0) == 0;
    const std::string address = lease.server.substr(secure ? 8 : plain ? 7 : 0);
    if ((!secure && !plain) || !read_address(address, host, port) ||
        (plain && !is_loopback(host))) {
      server.fail("https://HOST:PORT, or http://HOST:PORT of this host, as kubectl proxy listens");
    }
  }
  lease.account = fields["account"].string(lease.account);
  lease.duration = Duration::seconds(fields["duration_s"].integer(2, 3600, 2));
  if (!lock.empty()) reader.fail("either lock or lease");
  return lease;
}

std::vector<cluster::Division> divisions(const Reader& reader, const cluster::LeaseOptions& lease) {
  std::vector<cluster::Division> divisions;
  if (!reader.present()) return divisions;
  std::map<std::string, std::string> division_of;
  for (const auto& [name, models] : reader.map()) {
    if (!is_kubernetes_name(name, kLongestDivision)) {  // a file and a Lease are named after it
      models.fail("a division with " + kubernetes_name(kLongestDivision));
    }
    const size_t of_lease = lease.name.size() + 1 + name.size();  // take_division() makes it so
    if (lease.on() && of_lease > kLongestLease) {
      models.fail(fmt::format("a division whose name and lease.name have {} characters at most",
                              kLongestLease - 1));
    }
    cluster::Division& division = divisions.emplace_back(cluster::Division{.name = name});
    for (const Reader& each : models.list()) {
      const std::string model = each.string();
      const auto [at, is_new] = division_of.emplace(model, name);
      if (!is_new) each.fail(fmt::format("a model in no other division; it is in {}", at->second));
      division.models.push_back(model);
    }
  }
  if (divisions.size() > cluster::kMostDivisions) {
    reader.fail(fmt::format("at most {} divisions", cluster::kMostDivisions));
  }
  return divisions;
}

// What inputs cross.
void check_safe(const Reader& listen, const std::string& host, const cluster::TlsFiles& tls) {
  if (tls.on() || is_loopback(host) || host == "::1") return;
  listen.fail("a loopback address, or cluster.tls too: inputs cross hosts");
}

}  // namespace

bool read_address(const std::string& text, std::string& host, uint16_t& port) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const char* end = text.data() + text.size();
  const auto [at, fault] = std::from_chars(text.data() + colon + 1, end, port);
  return fault == std::errc() && at == end;
}

cluster::Options cluster_options(Reader reader, const engine::WorkerOptions& workers) {
  cluster::Options options;
  const bool any_remote =
      absl::c_any_of(workers.types, [](const auto& type) { return type.remote; });
  if (!reader.present()) {
    if (any_remote) reader.fail("it, since a type of workers is remote");
    return options;
  }
  ObjectReader fields = reader.object();
  Reader listen = fields["listen"];
  const std::string where = listen.string();
  if (!read_address(where, options.host, options.port)) listen.fail(kAddress);
  options.silence =
      Duration::from_millis(fields["silence_ms"].between(50, 60'000, options.silence.millis()));
  options.tls = tls_files(fields["tls"]);
  check_safe(listen, options.host, options.tls);
  if (Reader frontends = fields["frontends"]; frontends.present()) {
    if (!read_address(frontends.string(), options.frontends_host, options.frontends_port)) {
      frontends.fail(kAddress);
    }
    check_safe(frontends, options.frontends_host, options.tls);
  }
  if (Reader others = fields["workers"]; others.present()) {
    if (!read_address(others.string(), options.workers_host, options.workers_port)) {
      others.fail(kAddress);
    }
    check_safe(others, options.workers_host, options.tls);
  }
  if (Reader lock = fields["lock"]; lock.present()) options.lock = lock.string();
  options.lease = lease(fields["lease"], options.lock);
  options.divisions = divisions(fields["divisions"], options.lease);
  if (!any_remote) reader.fail("a type of workers with remote: true too");
  return options;
}

}  // namespace fermata::serve
