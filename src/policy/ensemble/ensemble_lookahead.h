#pragma once

#include <cstdint>
#include <vector>

#include "policy/ensemble/ensemble_queries.h"

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
// model that adds anything; in a burst the hard queries get what the easy ones do not need.
class EnsembleLookahead {
 public:
  struct Plan {
    KeyId model;  // none: nothing that the worker could start now is worth its time
    std::vector<EnsembleQueries::Query*> queries;  // of its batch, by deadline
    Duration run;
    // What each waiting query of the plan is to have in the end.
    std::vector<std::pair<EnsembleQueries::Query*, plan::Subset>> planned;
  };

  // For `worker`, free at `start`; the others when the pool's view says. From one decision to the
  // next little changes, so only the last price and those beside it are tried, all of them now and
  // then. O(prices * batches * models * queries), of which at most kMostPlanned are looked at.
  const Plan& follow(const EnsembleQueries& queries, WorkerId worker, Time start);

 private:
  struct Item {
    EnsembleQueries::Query* query = nullptr;  // null: expected
    const double* utility = nullptr;
    Time arrival, deadline;
    Duration slo;
    uint32_t ensemble = 0;
    plan::Subset open = 0, had = 0;
    bool serve_all = false;
    // Of one play:
    plan::Subset has = 0;
  };
  struct Model {
    KeyId key;
    std::vector<const LatencyTable*> latency;  // by worker
    double cost = 0;                           // seconds of a worker for one task in a batch
    Duration alone;                            // of one task
    std::vector<std::pair<uint32_t, uint32_t>> waiting;  // items and their bit, of one play
  };
  // How a play goes beside its price: which batch runs next, and whether a query only names subsets
  // for which all workers together have the time, or whatever it can get of more.
  struct Style {
    bool by_earnings = false;  // else by urgency
    bool fitting = false;
  };
  static constexpr Style kStyles[] = {{false, false}, {true, false}, {false, true}, {true, true}};
  struct Move {
    uint32_t model = 0;
    std::vector<uint32_t> places;  // in the model's waiting
    Duration run;
    double rank = 0;  // the least is taken
  };

  void read(const EnsembleQueries& queries);
  void read_expected(const EnsembleQueries& queries, uint32_t ensemble);
  void add_models(const EnsembleQueries& queries, uint32_t ensemble);
  void price_models();
  void consider(size_t price, size_t style);
  double play(double price, Style style);
  void name_subsets(double price);
  bool best_move(uint32_t worker, Time now);
  bool move_of(uint32_t model, uint32_t worker, Time now, size_t from);
  // Late already where all are served: it gets some answer before anything else runs, or it might
  // wait forever for those that are worth more.
  bool is_late(const Item& item) const { return item.deadline <= start_; }
  // What earns it most at this price; empty where nothing earns anything.
  plan::Subset best_subset(const Item& item, double price) const;
  plan::Subset cheapest(const Item& item) const;
  double worth(const Item& item, plan::Subset more, Time finish) const;
  void run(uint32_t worker, Time now);
  void keep();

  std::vector<Item> items_;
  std::vector<Model> models_;
  std::vector<std::vector<uint32_t>> of_ensemble_;  // models_ by the ensemble's own order
  double dearest_ = 0;                              // the price beyond which nothing is worth it

  WorkerId worker_;
  Time start_;
  std::vector<Time> others_;  // by worker, when it is free
  int64_t serving_ = 1;       // of them
  std::vector<Time> free_at_;
  Move move_, best_move_;
  Style playing_;
  bool started_ = false;  // the worker has its first batch in this play
  Plan played_, best_;
  double value_ = 0, most_ = 0;
  size_t price_ = 0;  // of the best plan
  size_t style_ = 0;  // of the best plan
  uint32_t decisions_ = 0;
};

}  // namespace fermata::policy
