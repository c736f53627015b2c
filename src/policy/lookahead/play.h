#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.h"

namespace fermata::policy {

// Plays workers forward: whichever is free first, the earlier of several, has its turn at that
// moment and is free again when it says. One that finds nothing to do waits for the next arrival,
// and so do all that are like it and free, since each would find the same.
class Play {
 public:
  // Of `kinds` kinds of workers that are alike; none are there yet.
  void clear(size_t kinds) {
    kinds_.resize(kinds);
    end();
  }
  void add(size_t kind, uint32_t worker, Time free_at) {
    push(kinds_[kind].busy, std::pair(free_at, worker));
  }

  // From the turn of a worker that finds nothing to do: nobody will, ever.
  void end() {
    for (Alike& kind : kinds_) {
      kind.busy.clear();
      kind.idle.clear();
    }
  }

  // `turn(worker, now)` is when its batch ends, or nothing; `next_arrival(now)` is beyond now.
  // Ends when no worker is free any more, or it is told to. Each turn is O(kinds + log workers).
  template <class Turn, class NextArrival>
  void run(Turn turn, NextArrival next_arrival) {
    while (true) {
      Alike* first = nullptr;
      bool wakes = false;
      std::pair<Time, uint32_t> least(Time::infinite(), 0);
      for (Alike& kind : kinds_) {
        if (!kind.busy.empty() && kind.busy.front() < least) {
          least = kind.busy.front();
          first = &kind;
          wakes = false;
        }
        if (kind.idle.empty() || std::pair(kind.wake, kind.idle.front()) >= least) continue;
        least = {kind.wake, kind.idle.front()};
        first = &kind;
        wakes = true;
      }
      if (first == nullptr) return;
      const auto [now, worker] = least;
      wakes ? pop(first->idle) : pop(first->busy);
      if (const std::optional<Time> end = turn(worker, now)) {
        push(first->busy, std::pair(*end, worker));
      } else {
        push(first->idle, worker);
        first->wake = next_arrival(now);
        for (auto& busy = first->busy; !busy.empty() && busy.front().first == now; pop(busy)) {
          push(first->idle, busy.front().second);
        }
      }
    }
  }

 private:
  // Heaps, the least first.
  struct Alike {
    std::vector<std::pair<Time, uint32_t>> busy;  // until then
    std::vector<uint32_t> idle;
    Time wake;  // of all that are idle
  };
  template <class Entry>
  static void push(std::vector<Entry>& heap, Entry entry) {
    heap.push_back(entry);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  template <class Entry>
  static void pop(std::vector<Entry>& heap) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
  }

  std::vector<Alike> kinds_;
};

}  // namespace fermata::policy
