#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace fermata::policy {

// Which of a stream service's DNNs each worker holds, where not all have room (Jellyfish, section
// 4.4). A worker that is to run another one goes on with the old one until the new one is loaded,
// and then loads those that it will probably need next: by how often workers went from the one to
// the other lately, and before there is much to go by, the nearest in size. One load at a time,
// which nothing interrupts. Pure: who loads says when it has.
class StreamResidents {
 public:
  // What a worker should do: load this one, or let it go. In this order.
  struct Order {
    uint32_t worker = 0, variant = 0;
    bool load = false;
  };
  // `room`: DNNs of a worker, from 1, the one that is being loaded among them. With 1 nothing is
  // loaded ahead, and there must be room for a second one while the old one waits for the new.
  StreamResidents(uint32_t workers, uint32_t variants, uint32_t room);

  // From now on the worker should run this one. None where that changes nothing, else whether the
  // new one is there already. O(variants · room).
  std::optional<bool> want(uint32_t worker, uint32_t variant);
  // The load that was ordered last has ended. One that failed is not tried again before the worker
  // is to run it anew.
  void loaded(uint32_t worker, uint32_t variant, bool ok);
  // Another one is served in its place, which no worker holds.
  void replaced(uint32_t variant);
  // What is to be done since the last call.
  std::vector<Order> take_orders() { return std::exchange(orders_, {}); }

  // What serves a frame for this one: itself where a worker holds it; else what runs where it is
  // wanted, until it is loaded; else the nearest that is there. Itself where nothing is.
  uint32_t serving(uint32_t variant) const;
  // Whether some worker is to run it, and none holds it yet.
  bool awaited(uint32_t variant) const;
  bool holds(uint32_t worker, uint32_t variant) const { return holds(workers_[worker], variant); }

 private:
  struct Worker {
    bool started = false;
    uint32_t wanted = 0;
    std::optional<uint32_t> active, loading;
    std::vector<uint32_t> held, broken;
  };
  static bool holds(const Worker& worker, uint32_t variant);
  void begin_next(uint32_t w);
  void let_go(uint32_t w, uint32_t variant);
  bool worth_loading(const Worker& worker, uint32_t variant) const;
  std::optional<uint32_t> least_needed(const Worker& worker) const;
  // How probably the worker needs it next.
  double score(const Worker& worker, uint32_t variant) const;

  const uint32_t variants_, room_;
  std::vector<Worker> workers_;
  std::vector<double> changes_;  // [from, to], how often, older ones less
  std::vector<Order> orders_;
};

}  // namespace fermata::policy
