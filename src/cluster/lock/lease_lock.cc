#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "cluster/lock/kubernetes_lease.h"
#include "cluster/lock/lease.h"
#include "cluster/lock/scheduler_lock.h"
#include "cluster/wire/random_number.h"

namespace fermata::cluster {
namespace {

class LeaseLock final : public SchedulerLock {
 public:
  LeaseLock(std::unique_ptr<LeaseStore> store, std::string identity, Duration duration,
            Events events)
      : store_(std::move(store)),
        candidate_(*store_, std::move(identity), duration, monotonic_now, std::move(events)),
        thread_([this] { run(); }) {}

  ~LeaseLock() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
    candidate_.give_up();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      lock.unlock();
      const Duration idle = std::min(candidate_.turn(), Duration::seconds(3600));
      lock.lock();
      changed_.wait_for(lock, std::chrono::nanoseconds(idle.nanos()), [this] { return stopping_; });
    }
  }

  const std::unique_ptr<LeaseStore> store_;
  LeaseCandidate candidate_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SchedulerLock>> SchedulerLock::of_lease(const LeaseOptions& options,
                                                                       const std::string& name,
                                                                       Events events) {
  ASSIGN_OR_RETURN(auto store, make_kubernetes_lease(options));
  // A pod that starts again has its name still, and is another holder.
  const std::string identity = fmt::format("{}_{:016x}", name, random_number());
  return std::make_unique<LeaseLock>(std::move(store), identity, options.duration,
                                     std::move(events));
}

}  // namespace fermata::cluster
