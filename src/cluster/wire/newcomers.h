#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/allowance.h"
#include "base/time.h"
#include "cluster/wire/channel.h"

namespace fermata::cluster {

// Connections that have not said who they are: what one machine may have of them. Anybody can make
// one, and each costs a thread and a look at certificates. One thread at a time.
class Newcomers {
 public:
  static constexpr size_t kMost = 64;                               // at a time
  static constexpr double kAtOnce = 512;                            // from one machine, which may
  static constexpr double kEachSecond = 64;                         // make so many more
  static constexpr double kAllAtOnce = 1024, kAllEachSecond = 256;  // from machines of no part
  static constexpr double kHardly = 8;                              // of kAtOnce that are not back
  static constexpr size_t kFewMachines = 1024;  // beyond it those that are quiet are forgotten

  // False: the machine makes them too often, or machines of which no part has come do together.
  bool may_come(const std::string& machine, Time now);
  // Who has to go for it, null: nobody. That is the oldest of the machines that have most: it has
  // had most time to say who it is.
  std::shared_ptr<Channel> add(const std::string& machine, const std::shared_ptr<Channel>& channel);
  // It has said who it is.
  void remove(const std::shared_ptr<Channel>& channel);
  void cut_all();

 private:
  struct Machine {
    Allowance may_come;
    bool has_a_part = false;
  };
  struct Newcomer {
    std::string machine;
    std::weak_ptr<Channel> channel;
  };

  std::map<std::string, Machine> machines_;
  // Machines of no part, together: those that hardly come, and others.
  Allowance rare_{kAllAtOnce / 2, kAllEachSecond / 2}, others_{kAllAtOnce / 2, kAllEachSecond / 2};
  size_t look_beyond_ = kFewMachines;
  std::vector<Newcomer> newcomers_;  // oldest first
};

}  // namespace fermata::cluster
