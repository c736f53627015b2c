#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "estimate/posterior.h"
#include "plan/variants/group_problem.h"
#include "plan/variants/residency.h"
#include "policy/lookahead/play.h"
#include "policy/lookahead/worker_time.h"

namespace fermata::policy {

// Data-aware serving as `fermata` does it: who runs next, as which variant. It plays
// forward what would happen if worker time had a price: whenever a worker is free, each
// waiting request of a service names the variant that earns it most,
//   accuracy * (1 - penalty) - price * its share of the batch's run time,
// those who name the same one form a batch, others join where the time that this adds costs
// less than it earns, and the most urgent batch (or the one that earns most a second) runs.
// The price that is worth most over all requests, those expected to come included, is the
// right one: idle workers make time cheap, so the most accurate variants run; in a burst it
// is dear, so cheap ones do, for those requests whose data says that it costs them little.
// For those whom it does not look at, since they come later or are too many, the time that it
// takes is charged at the price at which the workers keep up with all: a running dual price of
// their time, found by what those who came lately would name at it.
//
// A group is thus not a service or a label (SneakPeek 5.2, 5.3.2) but whoever is best served alike.
//
// Where a penalty does not depend on time, waiting costs its requests nothing. They leave worker
// time to others at the price that these pay, and no worker idles while one of them is worth it.
// Once the first has waited for longer than its SLO they pay the price at which the workers keep up
// with them too, as many times as it has waited for its SLO, or they might all wait for ever for
// the most accurate variant.
class VariantsLookahead {
 public:
  // Waiting tasks that one decision looks at, and arrivals of one service that it expects.
  static constexpr size_t kMostPlanned = 48, kMostExpected = 16;

  // Every request is served, late or not, or short-circuited, as by GroupPlanner.
  // O(prices * batches * requests * variants). Where nothing is expected all prices are tried. Else
  // little changes from most decisions to the next: the problem's last one is tried, and of the
  // others as many as are quick to try, in turn.
  // One call after the other on the same planner differs from calls on new ones in nothing.
  const plan::GroupSchedule& plan(const plan::GroupProblem& problem);
  // What the next problem has to say of prices.
  uint32_t last_price() const { return static_cast<uint32_t>(near_); }
  uint32_t last_tried() const { return static_cast<uint32_t>(next_); }
  // Of a second of a worker of the first one's type: at which the workers keep up with all of the
  // last problem, those too whom lateness costs nothing.
  double price_of_all() const { return price_of_all_; }

 private:
  // One request of the problem, or an expected one.
  struct Item {
    Time arrival, deadline;
    uint32_t service = 0;
    uint32_t accuracies = 0;  // where its accuracies by variant begin
    double fallback = 0;      // what it is worth without a worker
    bool real = true, short_circuit = false;
    bool taken = false;  // by the batch that is being made
  };
  struct Named {
    uint32_t variant = 0;
    double net = 0;  // what it earns by that beyond its fallback and its share of the time
  };
  // How long batches of a variant take on a worker as it is, loading included.
  struct RunTimes {
    const LatencyTable* latency = nullptr;
    Duration load;
    Duration operator()(uint32_t items) const { return load + (*latency)(items); }
  };
  enum class Order : uint8_t { kUrgency, kEarnings };
  struct Move {  // a batch that could run next
    uint32_t service = 0, variant = 0, items = 0;
    uint32_t head = 0;  // its most urgent item
    Duration run;
    double earned = 0;
    double rank = 0;  // the least is taken
  };

  void read(const plan::GroupProblem& problem);
  void try_all_prices();
  void try_few_prices();
  void add_request(const plan::GroupRequest& request);
  void add_expected(uint32_t service);
  void add(const Item& item);
  void add_pressure(const plan::GroupRequest& request);
  double price_unit() const;
  double first_type_workers() const;
  Time soonest_elsewhere(uint32_t service, uint32_t worker, Time now) const;
  double sustained_price(bool timeless) const;
  double work(double price, bool timeless) const;
  void measure_items();
  double least_price(uint32_t service) const;
  double price_on(uint32_t worker, uint32_t service, double price) const;
  uint32_t first_type() const { return problem_->workers[0].type; }

  static void clear(plan::GroupSchedule& schedule);
  void consider(size_t price, Order order);
  double play(double price, Order order);
  std::optional<Time> turn(uint32_t worker, Time now, double price, Order order);
  bool best_move(uint32_t worker, Time now, double price, Order order, Move& best,
                 bool of_timeless = false);
  void name_variants(uint32_t service, uint32_t worker, Time now, double price);
  bool batch_of(uint32_t service, uint32_t variant, uint32_t worker, Time now, double price,
                Move& move) const;
  static uint32_t most_by(Time deadline, const RunTimes& run, Time now, uint32_t most);
  double earned(uint32_t variant, uint32_t items, Time finish) const;
  Time run(const Move& move, uint32_t worker, Time now, double price);
  void join(const Move& move, const RunTimes& run, Time now, Time limit, double price);
  void forget_taken(uint32_t service);
  Time next_arrival(Time after) const;
  void leave_the_rest();
  void finish();
  void serve_last(uint32_t request);

  RunTimes run_times(const plan::GroupVariant& variant, uint32_t worker) const;
  double utility(const Item& item, uint32_t variant, Time finish) const;

  const plan::GroupProblem* problem_ = nullptr;
  std::vector<Item> items_;  // the problem's, then expected ones
  std::vector<double> accuracies_;
  estimate::Belief belief_;
  std::vector<std::vector<uint32_t>> by_deadline_;  // items by service

  // Of one play:
  std::vector<std::vector<uint32_t>> waiting_;
  std::vector<uint32_t> available_, taken_;  // items of one service
  std::vector<Named> named_;                 // by available_
  uint32_t named_service_ = 0;               // whose they are
  std::vector<plan::Residency> residency_;
  Play play_;
  std::vector<Time> free_at_;  // as the play has it
  Time next_arrival_;          // of the last turn that found nothing to do
  double value_ = 0, real_value_ = 0;
  double most_ = 0;  // the value of best_
  size_t near_ = 0;  // its price
  size_t next_ = 0;  // of the prices and orders, that is tried beside it
  double price_unit_ = 0;
  WorkerTime time_;
  std::vector<double> asked_;         // at least, by service
  std::vector<double> item_seconds_;  // of a worker, in an efficient batch: by variant of all
  double sustained_price_ = 0, price_of_all_ = 0;  // of a second
  std::vector<double> earns_;  // by service: the most that a variant alone does a second
  std::vector<bool> served_;   // by request
  plan::GroupSchedule played_, best_;
};

}  // namespace fermata::policy
