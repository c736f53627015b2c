#pragma once

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
  // Tries prices, and at each several ways to go by it: all, or those beside the last best one.
  // O(ways * batches * models * queries). Two planners give the same plan. Valid until the next
  // call.
  const plan::PoolPlan& plan(const plan::PoolProblem& problem);
  // What the next problem has to say of them.
  uint32_t last_price() const { return static_cast<uint32_t>(price_); }
  uint32_t last_style() const { return static_cast<uint32_t>(style_); }
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
    // Of one play:
    plan::Subset has = 0, named = 0;
    Time finish;
  };
  // Queries a second to keep up with, and seconds of a worker for one in efficient batches.
  struct ToCome {
    double queries = 0;
    std::vector<double> seconds;  // by Subset
  };
  struct NamedSubset {
    const double* utility = nullptr;
    plan::Subset open = 0, had = 0, subset = 0;
  };
  struct Model {
    const LatencyByType* latency = nullptr;
    double cost = 0;  // seconds of a worker for one task in a batch
    Duration alone;   // of one task, here, and wherever that is fastest
    Duration fastest;
    // Of one play: items and their bit, by deadline; up to `gone` nothing can be on time any more.
    std::vector<std::pair<uint32_t, uint32_t>> waiting;
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
    std::vector<uint32_t> places;  // in the model's waiting
    Duration run;
    double rank = 0;  // the least is taken
  };

  void read();
  void read_expected(uint32_t ensemble);
  void price_models();
  void price_items();
  double sustained_price();
  double work(double price) const;
  void consider(size_t price, size_t style);
  double play(double price, Style style);
  const LatencyTable& latency(const Model& model, uint32_t worker) const {
    return model.latency->on(problem_->workers[worker].type);
  }
  const std::vector<uint32_t>& models_of(const Item& item) const {
    return problem_->ensembles[item.ensemble].models;
  }
  void forget_named();
  void name_subsets(double price);
  void name(uint32_t item, plan::Subset subset);
  bool name_for_nothing(Time now);
  bool best_move(uint32_t worker, Time now);
  bool move_of(uint32_t model, uint32_t worker, Time now, size_t from);
  // Late already where all are served: it gets some answer before anything else runs, or it might
  // wait forever for those that are worth more.
  bool is_late(const Item& item) const { return item.deadline <= start_; }
  // What earns it most at this price in so much time; empty where nothing earns anything.
  plan::Subset best_subset(const Item& item, plan::Subset had, double price, Duration most) const;
  plan::Subset best_subset_of_alike(const Item& item, plan::Subset had, double price);
  bool is_bound(const Item& item) const;
  Duration room(const Item& item) const;
  plan::Subset cheapest(const Item& item) const;
  double worth(const Item& item, plan::Subset more, Time finish) const;
  Time run(uint32_t worker, Time now);
  bool is_gone(const Item& item, const Model& model, Time now) const;
  Time next_arrival(Time after);

  const plan::PoolProblem* problem_ = nullptr;
  Time start_;
  std::vector<Item> items_;
  std::vector<uint32_t> by_deadline_;         // items, those of a deadline as they stand there
  std::vector<Model> models_;                 // as the problem has them
  std::vector<std::vector<Duration>> alone_;  // by ensemble and Subset: one task of each, in turn
  std::vector<ToCome> to_come_;               // by ensemble
  double dearest_ = 0;                        // the price beyond which nothing is worth it
  WorkerTime time_;
  Play play_;
  std::vector<Time> arrivals_;      // of expected items, in order, and
  size_t arrived_ = 0;              // those that have come in one play
  std::vector<NamedSubset> named_;  // in one play
  Move move_, best_move_;
  Style playing_;
  bool started_ = false;  // the worker has its first batch in this play
  plan::PoolPlan played_, best_;
  size_t price_ = 0, style_ = 0;  // of the best plan
};

}  // namespace fermata::policy
