#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "cluster/lock/scheduler_lock.h"

namespace fermata::cluster {

// A Lease of Kubernetes (coordination.k8s.io/v1), as far as it says who is active.
struct LeaseRecord {
  std::string version;  // of the object; empty: there is none
  std::string holder;   // empty: nobody
  std::string renewed;  // when it was written last, by the clock of the holder; set by write()
  Duration duration;
  int64_t transitions = 0;  // how often the holder has changed
};

// Where a Lease is kept. Calls block for `limit` at most, and are made from one thread at a time.
class LeaseStore {
 public:
  virtual ~LeaseStore() = default;
  virtual absl::StatusOr<LeaseRecord> read(Duration limit) = 0;
  // Writes it if it still is of this version, or where there is none, and returns its new version;
  // else ABORTED. Any other error says nothing of whether it has been written.
  virtual absl::StatusOr<std::string> write(const LeaseRecord& record, Duration limit) = 0;
};

// One of those who want a Lease. The holder renews it four times in its duration, and has lost it
// when that has not succeeded for three quarters of it. Others take it once they have seen no
// renewal for its whole duration: by their own clocks, so that clocks need not agree.
class LeaseCandidate {
 public:
  // `identity` is nobody else's, nor of an earlier process.
  LeaseCandidate(LeaseStore& store, std::string identity, Duration duration,
                 std::function<Time()> clock, SchedulerLock::Events events);
  // Does what is due, and says for how long nothing will be. Infinite: it is lost.
  Duration turn();
  // Another may take it at once, where this holds it.
  void give_up();

 private:
  Duration renew();
  Duration stand_by();
  bool may_take(const LeaseRecord& found);
  Duration take(const LeaseRecord& found);
  void lose(const std::string& why);
  void complain(const absl::Status& why);
  uint64_t epoch() const { return static_cast<uint64_t>(transitions_) + 1; }
  LeaseRecord mine(const std::string& version, int64_t transitions) const;

  LeaseStore& store_;
  const std::string identity_;
  const Duration duration_;
  const std::function<Time()> clock_;
  const SchedulerLock::Events events_;
  bool holds_ = false, lost_ = false;
  std::string version_;  // while it holds
  int64_t transitions_ = 0;
  Time keep_until_;                          // it is lost if it is not renewed before
  std::optional<LeaseRecord> seen_;          // while it stands by
  Time free_;                                // when that one's time is over
  std::optional<int64_t> most_transitions_;  // that a Lease has had
  std::string complaint_;                    // the latest
};

}  // namespace fermata::cluster
