#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace fermata::cluster {

// Of the messages: another one with each change of what these say or mean (proto/cluster.proto).
inline constexpr uint32_t kVersion = 5;

// PEM files; all or none. Both sides of a connection show a certificate of the authority.
struct TlsFiles {
  std::string certificate, key, authority;
  bool on() const { return !certificate.empty(); }
};

// The Lease of Kubernetes that the active one of several schedulers holds.
struct LeaseOptions {
  std::string name;    // empty: there is none
  std::string space;   // its namespace; empty: the one of the service account
  std::string server;  // URL of the API server; empty: the one that each pod is told of
  std::string account = "/var/run/secrets/kubernetes.io/serviceaccount";  // folder of its files
  Duration duration = Duration::seconds(2);                               // whole seconds
  bool on() const { return !name.empty(); }
};

// Models of which schedulers of their own decide.
struct Division {
  std::string name;
  std::vector<std::string> models;
};

// `cluster` of fermata.yaml.
struct Options {
  std::string host;   // to listen on; empty: no other host takes part
  uint16_t port = 0;  // 0: a free one
  // Who is not heard of for so long is gone.
  Duration silence = Duration::millis(300);
  TlsFiles tls;
  // Where a frontend listens for workers, which fetch inputs there; port 0: a free one.
  std::string frontends_host;
  uint16_t frontends_port = 0;
  // Where a worker listens for others, which fetch what stages gave there; empty: frontends get it.
  std::string workers_host;
  uint16_t workers_port = 0;
  // What one of several schedulers holds, the active one: a file, or a Lease. None: there is one.
  std::string lock;
  LeaseOptions lease;
  std::vector<Division> divisions;  // empty: one scheduler decides about all models
  bool on() const { return !host.empty(); }
};

}  // namespace fermata::cluster
