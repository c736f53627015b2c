#include "engine/threads/periodic.h"

#include <utility>

#include "base/clock.h"

namespace fermata::engine {

Periodic::Periodic(Duration period, absl::AnyInvocable<void()> work)
    : work_(std::move(work)), thread_([this, period] { run(period); }) {}

Periodic::~Periodic() {
  stopping_ = true;
  parker_.unpark();
  thread_.join();
}

void Periodic::run(Duration period) {
  Time due = monotonic_now() + period;
  while (!stopping_) {
    if (monotonic_now() < due) {
      parker_.park_until(due);
      continue;
    }
    work_();
    due = monotonic_now() + period;
  }
}

}  // namespace fermata::engine
