#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "engine/apart/area.h"
#include "engine/apart/control.h"

namespace fermata::engine::apart {

// A child that runs models, as its server sees it. Nothing that it writes is trusted. Its parent is
// the thread that starts it, and it goes with that thread.
class ModelProcess {
 public:
  struct Options {
    std::vector<std::string> command;
    uint32_t slots = 1;
    uint64_t inputs_each = 0, outputs_each = 0;  // bytes of the largest batch
  };
  // Blocks until it says that it is there.
  static absl::StatusOr<std::shared_ptr<ModelProcess>> start(const Options& options, Time until);
  // Kills it.
  ~ModelProcess();
  ModelProcess(const ModelProcess&) = delete;
  ModelProcess& operator=(const ModelProcess&) = delete;

  const Area& area() const { return area_; }
  Control& control() { return control_; }
  pid_t pid() const { return pid_; }

  // Blocks until it has ended, or lost its sign of life.
  void await_death();
  // Then, when nobody can take it any more: wakes whoever waits for a slot of it.
  void declare_dead();
  bool dead() const { return dead_; }
  void kill();
  // In words: "was ended by SIGSEGV". Blocks until it has ended and its memory is free.
  std::string how_it_ended();
  std::string cause();  // the same in short: "SIGSEGV", "exit"

  std::atomic<uint64_t> good_runs{0};  // that it has answered

 private:
  int await_end();
  ModelProcess(Area area, int control, pid_t pid)
      : area_(std::move(area)), control_(control), pid_(pid) {}

  Area area_;
  Control control_;
  const pid_t pid_;
  std::atomic<bool> dead_{false};
  std::mutex ending_;
  std::optional<int> ended_;  // what waitpid() says
};

}  // namespace fermata::engine::apart
