#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "engine/apart/area.h"
#include "engine/apart/calls.h"
#include "engine/apart/control.h"
#include "engine/confine/nursery.h"

namespace fermata::engine::apart {

// A child that runs models, as its server sees it. Nothing that it writes is trusted. Its parent is
// the thread that starts it, and it goes with that thread.
class ModelProcess {
 public:
  struct Options {
    std::vector<std::string> command;
    std::shared_ptr<Nursery> nursery;  // copies the command's program, if anything does
    bool opened_once = false;          // by the nursery, which is this model's own
    std::optional<double> memory_mb;   // that it may write to
    uint32_t slots = 1;
    uint64_t inputs_each = 0, outputs_each = 0;  // bytes of the largest batch
    bool may_fail = false;                       // its failures are answers, of code of the user's
    Duration look;                               // for which it may look before it sleeps
    bool quietly = false;                        // its first load is beside others that serve
    std::shared_ptr<ModelCalls> calls;           // through which it calls models; null: it does not
    std::optional<Duration> processor;           // as WorkerOptions::process_processor
  };
  static absl::StatusOr<std::shared_ptr<ModelProcess>> start(const Options& options);
  // Blocks until it says that it is there.
  absl::Status greet(Time until);
  // Kills it.
  ~ModelProcess();
  ModelProcess(const ModelProcess&) = delete;
  ModelProcess& operator=(const ModelProcess&) = delete;

  const Area& area() const { return area_; }
  // As Control's. One that gives no answer in time is killed.
  absl::Status ask(const Json& message, Time until);
  absl::StatusOr<Json> inquire(const Json& message, Time until);
  void tell(const Json& message) { control_.tell(message); }
  // Of the next batch of a slot, for the one that uses the slot.
  uint32_t next_number(uint32_t slot);
  pid_t pid() const { return pid_; }

  // Blocks until it has ended, or lost its sign of life.
  void await_death();
  // Then, when nobody can take it any more: wakes whoever waits for a slot of it.
  void declare_dead();
  bool dead() const { return dead_; }
  bool ended() const;  // to the system
  void kill();
  // Its end leaves processors to others, as freeing much memory takes some time.
  void end_quietly();
  // Says so in its place: "took more than ...".
  void kill_for(std::string why, std::string cause);
  // That its threads have taken, as far as it could last be seen.
  Duration processor_time();
  uint64_t begun() const { return begun_; }  // batches, of all slots
  // In words: "was ended by SIGSEGV". Blocks until it has ended and its memory is free.
  std::string how_it_ended();
  std::string cause();  // the same in short: "SIGSEGV", "exit"

  std::atomic<uint64_t> good_runs{0};  // that it has answered
  // Since the last of these: those that failed for the model and not for what it was given. In
  // words, why the last did.
  void failed(const absl::Status& why);
  void answered_well();
  std::pair<uint32_t, std::string> failures() const;

 private:
  int await_end();
  ModelProcess(Area area, int control, pid_t pid)
      : area_(std::move(area)), control_(control), pid_(pid), numbers_(area_.slots()) {}

  Area area_;
  Control control_;
  const pid_t pid_;
  std::vector<uint32_t> numbers_;  // by slot: of its last batch
  std::unique_ptr<Calls> calls_;
  std::atomic<bool> dead_{false};
  std::mutex ending_;
  std::optional<int> ended_;  // what waitpid() says
  std::string killed_for_, killed_cause_;
  std::atomic<uint64_t> begun_{0};
  std::atomic<int64_t> processor_nanos_{0};
  std::atomic<uint32_t> failures_{0};
  mutable std::mutex failing_;
  std::string last_failure_;
};

}  // namespace fermata::engine::apart
