// What is asked of a model's process while it runs.
#include <fmt/format.h>

#include <string>

#include "engine/apart/supervised.h"
#include "engine/confine/machine.h"

namespace fermata::engine::apart {

// Between two looks a batch more may begin: what it takes until the second is not counted.
void Supervised::limit_processor(ModelProcess& process, Spent& spent) const {
  const Duration now = process.processor_time();
  if (const uint64_t begun = process.begun(); begun != spent.begun) spent = {begun, now};
  if (!options_.processor || now - spent.until <= *options_.processor) return;
  process.kill_for(fmt::format("was ended for taking more than {:g} s of processor time for one "
                               "batch (workers.process_processor_s)",
                               options_.processor->seconds()),
                   "processor");
}

bool Supervised::quarantined() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kQuarantined;
}

bool Supervised::there() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kThere;
}

double Supervised::memory_mb() const {
  std::shared_ptr<ModelProcess> process;
  {
    const std::lock_guard lock(mutex_);
    process = process_;
  }
  return process == nullptr ? 0 : resident_mb(process->pid());
}

Duration Supervised::processor_time() const {
  const std::lock_guard lock(mutex_);
  return process_ == nullptr ? Duration() : process_->processor_time();
}

bool Supervised::has_standby() const {
  const std::lock_guard lock(mutex_);
  return standby_.has_value() && !standby_lacks();
}

std::string Supervised::why_away() const {
  const std::lock_guard lock(mutex_);
  if (process_ != nullptr) {
    const auto [failures, last] = process_->failures();
    if (failures < kMostFailures || options_.may_fail) return {};
    return fmt::format("its last {} runs failed: {}", failures, last);
  }
  if (state_ != State::kQuarantined) return {};
  return fmt::format("its process died {} times in a row, and the last one {}: it is in quarantine",
                     in_a_row_, last_death_);
}

}  // namespace fermata::engine::apart
