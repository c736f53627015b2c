#include "serve/config/cluster_options.h"

#include <charconv>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "serve/config/reach.h"

namespace fermata::serve {
namespace {

// HOST:PORT.
bool divide(const std::string& text, cluster::Options& options) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  options.host = text.substr(0, colon);
  if (options.host.size() > 2 && options.host.front() == '[' && options.host.back() == ']') {
    options.host = options.host.substr(1, options.host.size() - 2);
  }
  const char* end = text.data() + text.size();
  const auto [at, fault] = std::from_chars(text.data() + colon + 1, end, options.port);
  return fault == std::errc() && at == end;
}

cluster::TlsFiles tls_files(Reader reader) {
  cluster::TlsFiles files;
  if (!reader.present()) return files;
  ObjectReader fields = reader.object();
  files.certificate = fields["certificate"].string();
  files.key = fields["key"].string();
  files.authority = fields["authority"].string();
  return files;
}

}  // namespace

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
  if (!divide(where, options)) listen.fail("HOST:PORT, port 0 for a free one");
  options.silence =
      Duration::from_millis(fields["silence_ms"].between(50, 60'000, options.silence.millis()));
  options.tls = tls_files(fields["tls"]);
  if (!options.tls.on() && !is_loopback(options.host) && options.host != "::1") {
    listen.fail("a loopback address, or cluster.tls too: inputs cross hosts");
  }
  if (!any_remote) reader.fail("a type of workers with remote: true too");
  return options;
}

}  // namespace fermata::serve
