#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/random.h"
#include "plan/streams/stream_tables.h"

namespace fermata::plan {

// A division of clients into groups, one for a worker, that is improved worker by worker: the
// clients of up to three of them and those that are unmapped are dealt out anew, and two workers
// trade all their clients for what is worth most. Serving more clients comes first, then accuracy.
class StreamRefill {
 public:
  // `start` must be possible. `tables` and `random` must outlive it.
  StreamRefill(const StreamTables& tables, uint32_t workers, const StreamGroups& start,
               Random& random);
  // Until it has looked at about max_steps clients; simulated annealing in slices that begin at the
  // best so far. Never returns what is worth less than `start`.
  const StreamGroups& run(uint64_t max_steps);

 private:
  using Pool = std::vector<uint32_t>;  // clients, the lowest rate first
  using Worth = std::pair<size_t, double>;

  // A DNN at the batch sizes that carry `capacity`, for clients whose objectives allow these.
  struct Setting {
    uint32_t rank = 0;
    double capacity = 0;
    uint64_t allowed = 0;  // of the clients of a pool, as bits, where two workers trade
  };
  struct Worker {
    uint32_t rank = 0;
    Pool clients;
    double load = 0, worth = 0;  // worth: accuracy * load
    uint64_t changed = 0;        // when
  };

  void add_settings();
  void load(const StreamGroups& start);
  StreamGroups groups() const;
  void keep_best();
  bool allows(const Setting& setting, uint32_t client) const {
    return tables_.capacity_of(client)[setting.rank] >= setting.capacity;
  }
  double worth_at_most(const Setting& setting) const {
    return setting.capacity * tables_.accuracy(setting.rank);
  }
  void set(Worker& worker, uint32_t rank, Pool clients) const;
  Pool pool_of(const std::vector<uint32_t>& workers, Pool others) const;

  std::vector<uint32_t> draw_workers();
  void refill();
  Worker fill_at_random(const Pool& pool);
  Worker fill_best(const Pool& pool);
  size_t count(const Setting& setting, const Pool& pool);
  Worker fill(const Setting& setting, const Pool& pool);
  // Each of the clients for one of the others of a higher rate, as far as the setting has room.
  void raise(const Setting& setting, Pool& clients, double& load, Pool& others) const;

  void trade_all(uint64_t max_steps);
  bool trade(uint32_t a, uint32_t b);
  std::vector<Setting> settings_of(const Pool& pool);
  bool split(const Pool& pool, const Setting& a, const Setting& b, Worker& to_a, Worker& to_b);
  void exchange_all(uint64_t max_steps);
  bool exchange(uint32_t a, uint32_t b);
  bool serve_most(const Pool& pool, const Setting& a, const Setting& b, const Worth& than,
                  Worker& to_a, Worker& to_b);

  const StreamTables& tables_;
  Random& random_;
  std::vector<Setting> by_capacity_, by_rank_;  // the highest, and the most accurate, first
  std::vector<Worker> workers_;
  Pool unmapped_;
  StreamGroups best_;
  Worth best_worth_;
  std::vector<uint64_t> traded_;  // by pair of workers: when
  uint64_t now_ = 0, steps_ = 0;
  double temperature_ = 0, per_client_ = 0;  // what one client counts beside accuracy
};

}  // namespace fermata::plan
