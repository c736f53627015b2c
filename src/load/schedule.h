#pragma once

#include <optional>
#include <queue>
#include <vector>

#include "load/spec.h"
#include "load/transport.h"
#include "simulate/arrivals.h"

namespace fermata::load {

// When each request of a load is to be sent, over all services in one order:
// by time, then by service. The same spec and seed give the same schedule.
class Schedule {
 public:
  // records[i]: how many input records service i has, at least one; they are used in turn.
  Schedule(const LoadSpec& spec, const std::vector<size_t>& records, Time start);

  // None: no more. O(log services).
  std::optional<Sending> next();

 private:
  struct Due {
    Time at;
    uint32_t service;
    bool operator>(const Due& o) const { return at != o.at ? at > o.at : service > o.service; }
  };
  struct Source {
    simulate::Arrivals arrivals;
    uint32_t records, next_record = 0;
  };
  void pull(uint32_t service);

  std::vector<Source> sources_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
};

}  // namespace fermata::load
