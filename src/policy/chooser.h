#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"

namespace fermata::policy {

// A request as a chooser sees it: no data.
struct Job {
  JobId id;
  Time arrival, deadline;  // infinite: none
  uint32_t items = 1;
};

// A variant that a service may run.
struct Candidate {
  VariantId variant;
  uint32_t max_batch = 1;
};

// Work for one batch of one variant: the items [first, first + items) of a job. The
// driver gives it a batch key and a place in the job's tree; the job's reply is the
// join of all its nominations, in the order in which they were made.
struct Nomination {
  JobId job;
  VariantId variant;
  uint32_t first = 0, items = 1;
};

// What runs; one per service, pure like the rest of the room. A chooser owns no data and
// no queue: what it nominates waits in the batchers until it is bound, and the driver
// withdraws what a job's end makes needless.
class Chooser {
 public:
  virtual ~Chooser() = default;
  // Appends at least one nomination; together they cover every item.
  virtual void arrived(const Job& job, Time now, std::vector<Nomination>& out) = 0;
};

// The names are those of chooser_names(); unknown: INVALID_ARGUMENT with the list.
absl::StatusOr<std::unique_ptr<Chooser>> make_chooser(std::string_view name,
                                                      std::vector<Candidate> candidates);
// `single` runs its one candidate, a job larger than its batch in several parts.
std::vector<std::string_view> chooser_names();

}  // namespace fermata::policy
