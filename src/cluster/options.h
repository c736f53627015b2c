#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"

namespace fermata::cluster {

// PEM files; all or none. Both sides of a connection show a certificate of the authority.
struct TlsFiles {
  std::string certificate, key, authority;
  bool on() const { return !certificate.empty(); }
};

// `cluster` of fermata.yaml.
struct Options {
  std::string host;   // to listen on; empty: no other host takes part
  uint16_t port = 0;  // 0: a free one
  // Who is not heard of for so long is gone.
  Duration silence = Duration::millis(300);
  TlsFiles tls;
  bool on() const { return !host.empty(); }
};

}  // namespace fermata::cluster
