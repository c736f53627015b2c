#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "estimate/subset.h"
#include "model/latency_by_type.h"

namespace fermata::plan {

// One decision of the default for all ensembles of a pool: what a free worker runs next, and for
// whom (policy/ensemble/ensemble_lookahead.h). Cheap to copy: what is large is shared.
struct PoolProblem {
  struct Worker {
    std::string name;
    uint32_t type = 0;  // of worker_types
    Time free_at;
  };
  struct Model {
    std::string name;
    LatencyByType latency;
  };
  using Utilities = std::vector<std::vector<double>>;  // rows by Subset of an ensemble's models
  struct Ensemble {
    std::string name;
    std::vector<uint32_t> models;  // of PoolProblem::models; bit k of a Subset is models[k]
    bool serve_all = false;        // nothing is refused, however late it gets
    // By bin of difficulty, and last of a query of which nothing is known.
    std::shared_ptr<const Utilities> utility;
    // The queries that are expected around one that has come, when the last came, and over what
    // time they spread; they have `slo` to be answered. Infinite: none are expected. So many come
    // a second, lately.
    double co_arrivals = 0, rate_rps = 0;
    Duration spread, slo = Duration::infinite();
    Time last;
  };
  struct Query {
    std::string id;
    uint32_t ensemble = 0, row = 0;  // its row of Ensemble::utility
    Time arrival, deadline;
    estimate::Subset had = 0;   // has answered, or runs
    estimate::Subset open = 0;  // may still be run for it; nothing of it is in `had`
  };

  Time start;           // when the worker can start
  uint32_t worker = 0;  // of workers
  std::vector<std::string> worker_types = {"default"};
  std::vector<Worker> workers;  // that serve
  std::vector<Model> models;
  std::vector<Ensemble> ensembles;
  std::vector<Query> queries;  // by deadline
  // Of the ways to play, see EnsembleLookahead: the one that was best last time, which of those
  // beside it was tried last, and whether all are tried or some beside it.
  uint32_t last_price = 0, last_style = 0, last_tried = 0;
  bool try_all = true;
  // What others lose without a second of a worker of the type that takes longest.
  double others_price = 0;

  const std::vector<double>& utility(const Query& q) const {
    return (*ensembles[q.ensemble].utility)[q.row];
  }
};

struct PoolPlan {
  struct Planned {
    uint32_t query = 0;
    estimate::Subset subset = 0;  // what it is to have in the end
    estimate::Subset wanted = 0;  // and would have at this price, were there time for it
    Duration finish;              // of the last that is still to run, from the start
  };
  double value = 0;               // of all, those that are expected included
  std::optional<uint32_t> model;  // none: nothing that it could start now is worth its time
  std::vector<uint32_t> queries;  // of the batch, by deadline
  Duration run;
  std::vector<Planned> planned;  // by query
};

}  // namespace fermata::plan
