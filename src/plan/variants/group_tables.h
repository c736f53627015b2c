#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "estimate/posterior.h"
#include "plan/variants/group_problem.h"

namespace fermata::plan {

// Requests that one variant serves in consecutive batches: those of one
// service, of one likely class where the policy splits by it (section 5.3.2).
struct RequestGroup {
  uint32_t service = 0;
  uint32_t first = 0, count = 0;  // of GroupTables::order()
  bool short_circuit = true;      // every request of it may be short-circuited
  double priority = 0;            // equation 14, up to a factor that all share
};

// What every policy looks up, prepared once for a problem:
// O(requests * variants * classes + requests * log requests). It keeps its memory
// from one problem to the next, and the problem must stay while it is used.
class GroupTables {
 public:
  void prepare(const GroupProblem& problem);

  const GroupProblem& problem() const { return *problem_; }
  const GroupService& service(uint32_t request) const {
    return problem_->services[problem_->requests[request].service];
  }
  // What the policy believes: from the evidence where it looks at the data and there
  // is some (equation 9), else as profiled.
  double accuracy(uint32_t request, uint32_t variant) const {
    return accuracy_[request * most_variants_ + variant];
  }
  // Equation 12 over the registered variants, up to a factor that all requests share.
  double priority(uint32_t request) const { return priority_[request]; }
  // Higher priority first, then as in the document.
  bool before(uint32_t a, uint32_t b) const;
  // The short circuit is allowed, there is one, and the evidence is known.
  bool may_short_circuit(uint32_t request) const;
  double short_circuit_utility(uint32_t request) const;
  double utility(uint32_t request, uint32_t variant, Time finish) const;
  const LatencyTable& latency(const GroupVariant& variant, uint32_t worker) const {
    return variant.on(problem_->workers[worker].type);
  }

  // Groups by their first request in the document; prepared on demand.
  void prepare_groups();
  std::span<const RequestGroup> groups() const { return groups_; }
  // Requests, group by group, each by priority.
  std::span<const uint32_t> order() const { return order_; }
  std::span<const uint32_t> requests_of(const RequestGroup& g) const {
    return std::span(order_).subspan(g.first, g.count);
  }

 private:
  void believe(uint32_t request);
  void prioritise();
  void form_groups();
  void sort_groups();
  void split_large_groups();

  const GroupProblem* problem_ = nullptr;
  bool data_aware_ = false, short_circuit_ = false;
  uint32_t most_variants_ = 0;
  std::vector<double> accuracy_;  // by request and variant
  std::vector<uint32_t> label_;   // by request: 0 unknown, else the likely class + 1
  std::vector<double> priority_;
  estimate::Belief belief_;
  std::vector<RequestGroup> groups_, parts_;
  std::vector<uint32_t> order_;
  std::vector<uint32_t> slot_base_;  // of a service in slots_
  std::vector<uint32_t> slots_;      // group + 1 by service and label
  std::vector<uint32_t> group_of_;   // by request
};

}  // namespace fermata::plan
