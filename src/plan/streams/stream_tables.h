#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "plan/streams/stream_problem.h"

namespace fermata::plan {

// What the solvers ask of a problem, by rank: 0 is the most accurate variant; of equally
// accurate ones the faster comes first.
class StreamTables {
 public:
  // The problem must outlive it. O(variants * (clients * log(batch) + batch)).
  explicit StreamTables(const StreamProblem& problem);

  uint32_t ranks() const { return static_cast<uint32_t>(order_.size()); }
  uint32_t clients() const { return static_cast<uint32_t>(rates_.size()); }
  uint32_t variant(uint32_t rank) const { return order_[rank]; }
  uint32_t rank_of(uint32_t variant) const;
  double accuracy(uint32_t rank) const;
  double rate(uint32_t client) const { return rates_[client]; }

  // t(b) = b / l(b), requests a second, of the share of a worker.
  double throughput(uint32_t rank, uint32_t batch) const;
  // The largest batch size with (1 + batches_ahead) l(b) <= L, equation 6; 0: the client cannot be
  // mapped there.
  uint32_t largest_batch(uint32_t rank, uint32_t client) const {
    return batches_[rank * rates_.size() + client];
  }
  // What one batch may take: of two clients, who has less may go with no larger batches.
  double longest_ms(uint32_t rank, uint32_t client) const;
  // By client: the most that a worker may be asked to carry with it, the highest
  // throughput of all batch sizes up to largest_batch. 0: it cannot be mapped there.
  absl::Span<const double> capacity(uint32_t rank) const {
    return absl::MakeConstSpan(capacities_).subspan(rank * rates_.size(), rates_.size());
  }
  // The same by rank.
  const double* capacity_of(uint32_t client) const { return &by_client_[client * order_.size()]; }
  // The most of any batch size.
  double highest(uint32_t rank) const { return highest_[rank]; }
  // The smallest batch size that carries `load`; 0: none does.
  uint32_t smallest_batch(uint32_t rank, double load) const;
  // Whether any variant can serve it alone.
  bool servable(uint32_t client) const;
  // Ranks without those that some other one carries as much as, whoever shares the worker.
  const std::vector<uint32_t>& roomy_ranks() const { return roomy_; }

 private:
  double throughput_of(const StreamVariant& variant, uint32_t batch) const;
  double longest_ms(const StreamVariant& variant, const StreamClient& client) const;
  uint32_t limit(const StreamVariant& variant, const StreamClient& client) const;
  bool carries_all_of(uint32_t rank, uint32_t other) const;
  void find_roomy_ranks();

  const StreamProblem& problem_;
  std::vector<uint32_t> order_;
  std::vector<double> rates_, highest_, capacities_, by_client_;
  std::vector<uint32_t> batches_, roomy_;
};

// Which group each client is in; every group is for one worker. kNoGroup: unmapped.
using StreamGroups = std::vector<uint32_t>;
constexpr uint32_t kNoGroup = ~uint32_t{0};

// The most accurate variant that can serve these clients together, as its rank; ranks() if
// none can. O(ranks * clients), usually far less.
uint32_t best_rank(const StreamTables& tables, absl::Span<const uint32_t> clients);

// Each group served by the variant of its rank. Workers are matched to `current` in the order
// of sizes (section 4.4): each gets what is near to what it has. A group that its rank cannot
// carry is a broken invariant.
StreamPlan make_stream_plan(const StreamProblem& problem, const StreamTables& tables,
                            const StreamGroups& groups, const std::vector<uint32_t>& rank_of_group);

}  // namespace fermata::plan
