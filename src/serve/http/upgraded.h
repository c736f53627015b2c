#pragma once

#include "serve/http/http_parser.h"

namespace fermata::serve {

// What a connection is after one of its requests asked for it: whoever owns the reads and writes of
// its socket from then on. All is called on the connection's io thread.
class Upgraded {
 public:
  virtual ~Upgraded() = default;
  // Answers the request for it, once all replies before it are written.
  virtual void accept(HttpMessage request) = 0;
  virtual bool idle() const = 0;  // the connection may be closed for a new one
  virtual bool waits_for_client() const = 0;
  // A part of a message has come, or its client has not taken what is written.
  virtual bool holds() const = 0;
  virtual void drain() = 0;   // ends once idle
  virtual void closed() = 0;  // the connection is; no handler is called any more
};

}  // namespace fermata::serve
