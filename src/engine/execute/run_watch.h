#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/execute/executor.h"
#include "engine/threads/periodic.h"

namespace fermata::engine {

// Looks after executors whose runs may never end. One beyond BatchRun::limit is told to stop; if
// it has not ended a grace later, it is given up: its parts fail, what waited behind it too,
// and a new executor with the same variants takes the place of the one that it holds, whose thread
// is left behind with what the run still reads, until the run ends. Where kMostLeftBehind runs of a
// variant go on so, it fails at once on this worker until one of them ends or it is loaded again.
// Thread-safe; outlives its executors.
class RunWatch {
 public:
  using Make = std::function<std::shared_ptr<Executor>()>;
  static constexpr size_t kMostLeftBehind = 2;

  explicit RunWatch(Duration period = Duration::millis(250), Duration grace = Duration::seconds(2));
  ~RunWatch();

  // `make` is called now, and again for every renewal.
  std::shared_ptr<Executor> over(Make make);

 private:
  class Watched;
  void look();

  const Duration grace_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<Watched>> watched_;
  Periodic timer_;  // last: uses the above
};

// Whether so many runs of it go on on some worker that it fails there.
bool is_given_up(const Variant& variant);

// Executors of this process that were left behind and go on. Where there are any, their threads may
// be in a model still, and the process has to end without waiting for threads.
uint64_t abandoned_runs();

}  // namespace fermata::engine
