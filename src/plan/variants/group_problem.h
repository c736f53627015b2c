#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/latency.h"
#include "plan/variants/penalty.h"

namespace fermata::plan {

// One decision of data-aware serving (SneakPeek): which variant serves each
// request, on which worker, when, and with whom. Things refer to each other by
// index; names are for documents and errors only.

// What a worker loads. Variants of several services may be the same model.
struct GroupModel {
  std::string name;
  Duration load;             // before the first batch on a worker that does not hold it
  int64_t memory_bytes = 0;  // while it is loaded
};

struct GroupVariant {
  uint32_t model = 0;          // of GroupProblem::models
  double accuracy = 0;         // profiled
  std::vector<double> recall;  // by class; of the service's number of classes
  // By worker type, or one for all types. max_batch is the table's.
  std::vector<std::shared_ptr<const LatencyTable>> latency;

  const LatencyTable& on(uint32_t type) const { return *latency[latency.size() == 1 ? 0 : type]; }
};

// The answer of the evidence model itself (section 5.3.1).
struct ShortCircuit {
  std::string name;
  double accuracy = 0;  // profiled
};

struct GroupService {
  std::string name;
  Penalty penalty;
  std::vector<double> prior;           // by class, each above 0; empty: no evidence is known
  std::vector<GroupVariant> variants;  // at least one
  std::optional<ShortCircuit> short_circuit;
};

struct GroupRequest {
  std::string id;
  uint32_t service = 0;
  Time arrival, deadline;  // finite, deadline > arrival
  // Where in GroupProblem::evidence its counts by class begin; none: not known (yet).
  std::optional<uint32_t> evidence;
};

struct GroupWorker {
  std::string name;
  uint32_t type = 0;
  Time free_at;
  int64_t memory_bytes = std::numeric_limits<int64_t>::max();
  // Models, the least recently used first; each alone fits the memory.
  std::vector<uint32_t> loaded;
};

// The contract's policies, as published (GroupPlanner), and the default's own decision
// (VariantsLookahead); group_policy_names() has their names in this order.
enum class GroupPolicy : uint8_t {
  kSneakPeek,
  kGrouped,
  kLoPriority,
  kLoEdf,
  kMaxAccEdf,
  kFermata
};
std::span<const std::string_view> group_policy_names();
std::span<const std::string_view> published_group_policy_names();  // all but the last

// What is expected to come of one service: requests at an even pace.
struct ExpectedArrivals {
  double rate_rps = 0;
  Duration slo;        // their deadline minus their arrival; infinite: they have none
  double waiting = 0;  // now, those too whom the problem leaves out
  // By variant, of some that came lately, one after the other: what the data of those to come
  // will say. Empty: what the profiles do.
  std::vector<double> accuracies;
};

struct GroupProblem {
  static constexpr uint64_t kDefaultSteps = 20'000'000;  // about a second

  Time now;
  std::vector<std::string> worker_types = {"default"};
  std::vector<GroupWorker> workers;  // at least one
  std::vector<GroupModel> models;
  std::vector<GroupService> services;
  std::vector<GroupRequest> requests;
  std::vector<double> evidence;  // of all requests that have some, one after the other
  GroupPolicy policy = GroupPolicy::kSneakPeek;
  uint32_t tau = 5;  // up to so many groups the answer is exact
  uint32_t max_group = std::numeric_limits<uint32_t>::max();  // larger ones are split (section 8)
  std::optional<bool> data_aware, short_circuit;              // none: as the policy has it
  uint64_t max_steps = kDefaultSteps;  // of the exact search, which then keeps its best

  // By class; empty where it has none.
  std::span<const double> evidence_of(const GroupRequest& r) const {
    if (!r.evidence) return {};
    return std::span(evidence).subspan(*r.evidence, services[r.service].prior.size());
  }

  // Of a decision that kFermata makes while it serves. By service; empty: nothing is known of
  // what will come, and no published policy that believes the same may be worth more.
  std::vector<ExpectedArrivals> expected;
  double others = 0;  // workers that are always busy with what is not in the problem
  // What that loses without a second of a worker of the type that takes longest.
  double others_price = 0;
  // Of the prices that it tries: the one that was best last time, and which of the others were
  // tried.
  uint32_t last_price = 0, last_tried = 0;
};

// One run of a variant. Its requests are GroupSchedule::requests[first, first + count).
struct GroupBatch {
  uint32_t worker = 0, service = 0, variant = 0;
  uint32_t first = 0, count = 0;
  bool load = false;  // start to finish includes loading the model
  Time start, finish;
  // Of a worker second, by which its requests chose the variant (kFermata).
  std::optional<double> price = {};
};

struct GroupSchedule {
  bool feasible = true;   // false: see `unserved`; the rest is empty
  uint32_t unserved = 0;  // a service none of whose variants fits any worker's memory
  bool exact = false;     // no order, choice of variants or assignment of these groups is better
  double utility = 0;     // mean over the requests of accuracy * (1 - penalty); 0 of none
  std::vector<GroupBatch> batches;  // by worker, and in the order in which each runs them
  std::vector<uint32_t> requests;
  std::vector<uint32_t> short_circuited;  // in the problem's order
  std::vector<double> expected_accuracy;  // by request, of what serves it
  uint64_t steps = 0;                     // that the exact search took

  std::span<const uint32_t> requests_of(const GroupBatch& b) const {
    return std::span(requests).subspan(b.first, b.count);
  }
};

}  // namespace fermata::plan
