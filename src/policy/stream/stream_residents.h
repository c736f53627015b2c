#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"

namespace fermata::policy {

// Which of a stream service's DNNs each worker holds, where not all have room (Jellyfish, section
// 4.4). A worker that is to run another one goes on with the old one until the new one is loaded,
// and then loads those that it will probably need next: by how often workers went from the one to
// the other lately, and before there is much to go by, the nearest in size. One load at a time.
// Pure; `now` never goes back.
class StreamResidents {
 public:
  // `room`: DNNs of a worker, from 1. With 1 nothing is loaded ahead, and the old one stays until
  // the new one is there. `load`: of one DNN; zero for the widths of a dynamic network.
  StreamResidents(uint32_t workers, uint32_t variants, uint32_t room, Duration load);

  // From now on the worker should run this one; its first is there at once. None where that
  // changes nothing, else whether the new one is there already. O(variants · room).
  std::optional<bool> want(uint32_t worker, uint32_t variant, Time now);
  // What the worker runs now: the one that it should, or the one before until that is loaded.
  uint32_t active(uint32_t worker, Time now);
  uint32_t wanted(uint32_t worker) const { return workers_[worker].wanted; }
  bool holds(uint32_t worker, uint32_t variant, Time now);

 private:
  struct Load {
    uint32_t variant = 0;
    Time end;
  };
  struct Worker {
    bool started = false;
    uint32_t wanted = 0, active = 0;
    std::vector<uint32_t> held;
    std::optional<Load> load;
  };
  static bool holds(const Worker& worker, uint32_t variant);
  // Ends the loads that are over and begins the next ones.
  void advance(Worker& worker, Time now);
  void begin_next(Worker& worker, Time at);
  void take(Worker& worker, uint32_t variant);
  // How probably the worker needs it next.
  double score(const Worker& worker, uint32_t variant) const;

  const uint32_t variants_, room_;
  const Duration load_;
  std::vector<Worker> workers_;
  std::vector<double> changes_;  // [from, to], how often, older ones less
};

}  // namespace fermata::policy
