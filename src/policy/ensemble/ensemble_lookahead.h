#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/ensemble/ensemble_problem.h"
#include "plan/ensemble/pool_problem.h"
#include "policy/lookahead/play.h"
#include "policy/lookahead/worker_time.h"

namespace fermata::policy {

// Ensembles as `fermata` serves them (beyond Schemble): which base model runs next on a free
// worker, and for whom. Tasks of one model from many queries form a batch, and any worker runs
// any model.
//
// It plays forward what would happen if worker time had a price: every query, those expected to
// come included, names the subset of models that earns it most,
//   utility - price * the models' run times, shared with those who wait,
// and whenever a worker is free the most urgent batch runs, or the one that earns most a second.
// The price that is worth most in all is the right one: with idle workers everybody gets every
// model that adds anything; in a burst the hard queries get what the easy ones do not need. Each
// query pays at least what others lose without the time, as WorkerTime has it. A plan looks no
// further than an SLO: what it takes is charged at the price at which the workers keep up.
class EnsembleLookahead {
 public:
  // Tries prices, and at each several ways to go by it: all, or the last best one and of those
  // beside it as many as are quick to try, in turn.
  // O(ways * batches * models * queries). Two planners give the same plan. Valid until the next
  // call.
  const plan::PoolPlan& plan(const plan::PoolProblem& problem);
  // What the next problem has to say of them.
  uint32_t last_price() const { return static_cast<uint32_t>(price_); }
  uint32_t last_style() const { return static_cast<uint32_t>(style_); }
  uint32_t last_tried() const { return static_cast<uint32_t>(next_); }
  static constexpr size_t kPricesTried = 19, kStylesTried = 4;

 private:
  struct Item {
    const double* utility = nullptr;
    Time arrival, deadline;
    Duration slo;
    uint32_t ensemble = 0;
    plan::Subset open = 0, had = 0;
    bool real = true, serve_all = false;
    double least_price = 0, charged_price = 0;
    uint32_t alike = 0;  // of alike_
    // Of one play:
    plan::Subset has = 0, named = 0;
    Time finish;
  };
  // Queries a second to keep up with, and seconds of a worker for one in efficient batches.
  struct ToCome {
    double queries = 0;
    std::vector<double> seconds;  // by Subset
  };
  // Items that name the same, unless their deadlines bind them: they differ in nothing else.
  struct Alike {
    uint32_t first = 0;       // of items_
    plan::Subset wanted = 0;  // in one play
  };
  // An item that waits for a model.
  struct Wait {
    Time arrival, deadline;
    Time next;  // nobody from here on comes before
    uint32_t item = 0;
    plan::Subset bit = 0;  // the model's, in its ensemble
    bool serve_all = false;
  };
  struct Model {
    const LatencyByType* latency = nullptr;
    double cost = 0;  // seconds of a worker for one task in a batch
    Duration alone;   // of one task, here, and wherever that is fastest
    Duration fastest;
    // Of one play: by deadline; up to `gone` nothing can be on time any more, or has been taken.
    std::vector<Wait> waiting;
    uint32_t gone = 0;
  };
  // How a play goes beside its price: which batch runs next, and whether a query only names subsets
  // for which all workers together have the time, or whatever it can get of more.
  struct Style {
    bool by_earnings = false;  // else by urgency
    bool fitting = false;
  };
  static constexpr Style kStyles[kStylesTried] = {
      {false, false}, {true, false}, {false, true}, {true, true}};
  struct Move {
    uint32_t model = 0;
    uint32_t from = 0;  // of seen_
    Duration run;
    double rank = 0;  // the least is taken
  };
  struct Seen {
    uint32_t place = 0;  // in the model's waiting
    int64_t before = 0;  // what those before it earn
  };

  void read();
  void read_expected(uint32_t ensemble);
  void find_alike();
  void price_models();
  void price_items();
  double sustained_price();
  double work(double price) const;
  // Whether it was played: the same may have been before.
  bool consider(size_t price, size_t style);
  bool consider_beside(size_t price, size_t style, size_t way);
  double play(Style style);
  const LatencyTable& latency(const Model& model, uint32_t worker) const {
    return model.latency->on(problem_->workers[worker].type);
  }
  const std::vector<uint32_t>& models_of(const Item& item) const {
    return problem_->ensembles[item.ensemble].models;
  }
  // What everybody names, into named_; false where that has been played in this way.
  bool name_subsets(double price, Style style);
  void set_waiting();
  void clear_waiting();
  void wait_for(uint32_t item, plan::Subset subset);
  // Nobody who waits for something is still to come, and time was too dear for something.
  bool may_name_more(Time now) {
    return time_.others() != 0 && !time_.free() && next_arrival(now).is_infinite();
  }
  bool name_for_nothing(Time now);
  // Late already where all are served: it gets some answer before anything else runs, or it might
  // wait forever for those that are worth more.
  bool is_late(const Item& item) const { return item.deadline <= start_; }
  // What earns it most at this price in so much time; empty where nothing earns anything.
  plan::Subset best_subset(const Item& item, plan::Subset had, double price, Duration most) const;
  bool is_bound(const Item& item, Style style) const;
  Duration room(const Item& item) const;
  plan::Subset cheapest(const Item& item) const;

  bool best_move(uint32_t worker, Time now);
  void moves_of(uint32_t model, uint32_t worker, Time now);
  void consider(const Move& move);
  void see(Model& model, const LatencyTable& latency, Time now, size_t most);
  void take(const Model& model, size_t from, const LatencyTable& latency, Time now);
  void sum_earned(const Model& model, Time now);
  double urgency(const Wait& head, Time now, Duration run) const;
  double worth(const Item& item, plan::Subset more, Time finish) const;
  Time run(uint32_t worker, Time now);
  void forget_taken(Model& model);
  bool may_be_late(const Wait& wait) const { return wait.serve_all && items_[wait.item].has == 0; }
  Time next_arrival(Time after);

  const plan::PoolProblem* problem_ = nullptr;
  Time start_;
  std::vector<Item> items_;
  std::vector<uint32_t> by_deadline_;  // items, those of a deadline as they stand there
  std::vector<Model> models_;          // as the problem has them
  // By ensemble and Subset: one task of each in turn, alone, and its share of batches.
  std::vector<std::vector<Duration>> alone_;
  std::vector<std::vector<double>> cost_;
  std::vector<Alike> alike_;
  std::vector<ToCome> to_come_;  // by ensemble
  double dearest_ = 0;           // the price beyond which nothing is worth it
  WorkerTime time_;
  Play play_;
  std::vector<Time> arrivals_;       // of expected items, in order, and
  size_t arrived_ = 0;               // those that have come in one play
  std::vector<plan::Subset> named_;  // in one play, by by_deadline_
  // The same of all that have been played, by by_earnings: the price counts for nothing else.
  std::array<std::vector<plan::Subset>, 2> played_names_;
  std::vector<Seen> seen_;       // of one model's waiting
  std::vector<uint32_t> taken_;  // places of the batch that runs
  Move best_move_;
  bool found_ = false;  // best_move_
  Style playing_;
  bool any_serve_all_ = false;
  bool started_ = false;  // the worker has its first batch in this play
  plan::PoolPlan played_, best_;
  size_t price_ = 0, style_ = 0;  // of the best plan
  size_t next_ = 0;               // of the ways beside, that was tried last
  size_t turns_ = 0;              // of workers in all plays of this decision
};

}  // namespace fermata::policy
