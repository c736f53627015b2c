#pragma once

#include <sys/types.h>
#include <ucontext.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "base/time.h"

namespace fermata::simulated {

// A program that runs in virtual time: it has threads, a clock that is off by an offset and a
// drift, and may be stopped or killed at any moment.
struct Process : std::enable_shared_from_this<Process> {
  std::string name;
  uint32_t place = 0;  // the host that it is on
  Duration offset;     // of its clock
  double rate = 1;     // of its clock, by virtual time
  bool stopped = false, dead = false;
  std::vector<int> files;  // whose locks end with it

  Time clock(Time at) const { return Time() + offset + (at - Time()).scaled(rate); }
  // The first moment at which its clock shows that.
  Time when(Time shown) const;
};

// All threads of a simulation, of which one runs at a time, on one thread of the machine and each
// on a stack of its own: they give way only where they wait, or where they lock and the seed says
// so. Time stands still while any of them can run, and then goes on to the next that is waited for.
// What the machine's own functions for threads and time do in it is in machine.cc. One a process of
// the machine, which ends with it.
class World {
 public:
  explicit World(uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  static World* current() { return current_; }

  Time now() const { return now_; }
  Random& random() { return random_; }
  Process& process() const;  // of the thread that calls
  uint64_t switches() const { return switches_; }
  uint64_t trace() const { return trace_; }  // the same for the same run

  std::shared_ptr<Process> make_process(std::string name, uint32_t place, Duration offset = {},
                                        double rate = 1);
  // Its threads do not go on, and its files are closed; with its host nobody does that.
  void kill(Process& process, bool with_host = false);
  [[noreturn]] void exit();  // the process that calls, at once
  void stop(Process& process) { process.stopped = true; }
  void go_on(Process& process);
  // How likely a thread gives way where it locks.
  void give_way(double chance) { chance_ = chance; }

  // From the scheduler's stack: it must not wait.
  void at(Time when, std::function<void()> event);

  struct Thread;
  Thread* start(Process& process, void* (*work)(void*), void* argument);
  Thread* start(Process& process, std::function<void*()> work);
  void* join(Thread* thread);
  Thread* self() const { return running_; }
  // Until somebody wakes who waits for that, or virtual time: false.
  bool wait(const void* what, Time until = Time::infinite());
  void wake(const void* what, size_t most = SIZE_MAX);
  void sleep(Time until);
  void give_way();  // to whoever else can run
  // Of one that looks at it again and again, time goes on.
  void clock_is_read();
  void maybe_give_way() {
    if (chance_ > 0 && random_.uniform() < chance_) give_way();
  }

 private:
  using Alarm = std::tuple<Time, uint64_t, Thread*, std::function<void()>*>;
  static void begin(uint32_t high, uint32_t low);
  void ready(Thread* thread);
  void switch_away();
  Thread* next();
  void advance();
  void forget(Thread* thread);
  void mark(uint64_t value) { trace_ = (trace_ ^ value) * 1099511628211u; }

  static World* current_;
  Random random_;
  double chance_ = 0;
  Time now_;
  uint64_t sequence_ = 0, switches_ = 0, trace_ = 14695981039346656037u;
  std::shared_ptr<Process> outside_;
  std::vector<std::shared_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::deque<Thread*> ready_;
  std::unordered_map<const void*, std::deque<Thread*>> waiting_;
  std::set<Alarm> alarms_;
  std::vector<Thread*> ended_;  // whose stacks others may have
  Thread* running_ = nullptr;
  uint32_t reads_ = 0;  // of clocks, since another ran
};

}  // namespace fermata::simulated
