#pragma once

#include <unistd.h>

#include <utility>

#include "base/time.h"

namespace fermata::engine {

// A file descriptor that is closed with this; -1: there is none.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(-1); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

// Blocks until the descriptor has one of these events of poll(), or an end; false: `until` came.
bool await_event(int fd, short events, Time until);

}  // namespace fermata::engine
