#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster_simulated/faults.h"
#include "cluster_simulated/network.h"
#include "cluster_simulated/world.h"
#include "engine/options.h"
#include "engine/request.h"

namespace fermata::simulated {

// A request of a client, by virtual time.
struct Asked {
  uint32_t frontend = 0, number = 0;
  uint64_t process = 0;  // of its frontend: how often that was started
  Time at;
  std::optional<Duration> timeout;
  int replies = 0;
  Time replied;
  absl::Status status;
  std::string id;
};

// Two schedulers, two frontends and three workers, each a process on a host of its own that runs
// the parts' own code, with clients at the frontends; and what befalls them. One a process.
class Cluster {
 public:
  struct Options {
    std::string models, lock;
    std::vector<engine::ServiceOptions> services;
    std::string service = "m";  // that clients ask
    uint64_t seed = 0;
    double give_way = 0;  // how likely a thread does where it locks
    Duration silence = Duration::millis(300);
    double requests_per_second = 40;  // of each frontend
    Duration asking = Duration::seconds(4);
    std::vector<Duration> timeouts = {Duration::millis(60), Duration::millis(400),
                                      Duration::seconds(10)};  // of which one is drawn
    bool without_deadline = true;                              // some requests
    // After the clients, until all that have time left must have been answered.
    Duration settles = Duration::seconds(12);
  };
  explicit Cluster(Options options);

  // All that clients ask while this befalls; returns when all has ended, or long after.
  void run(const Faults& faults);

  const std::list<Asked>& asked() const { return asked_; }
  World& world() { return world_; }
  // What is wrong, a line each.
  std::vector<std::string> findings() const;
  // Since the clients began.
  Duration since_begin(Time at) const { return at - began_; }

 private:
  struct Place {
    std::shared_ptr<Process> process;
    uint64_t started = 0;
    std::vector<std::pair<Time, Time>> away;  // dead or stopped
    bool leaves = false;
  };
  void start(uint32_t place);
  void run_scheduler();
  void run_worker(uint32_t place);
  void run_frontend(uint32_t place);
  void end(uint32_t place, bool with_host);
  void bring_back(uint32_t place, bool host);
  void befall(const Fault& fault);
  bool is_open() const;
  // A moment at which its frontend could not reply.
  bool was_away(const Asked& asked, Time from, Time to) const;
  void check(const Asked& asked, std::vector<std::string>& found) const;

  const Options options_;
  World world_;
  Network network_;
  Random random_;
  std::map<uint32_t, Place> places_;
  std::list<Asked> asked_;
  Time began_;
};

}  // namespace fermata::simulated
