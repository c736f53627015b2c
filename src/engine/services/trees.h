#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "engine/options.h"
#include "engine/request.h"
#include "engine/schedule/counters.h"
#include "engine/schedule/job.h"
#include "engine/services/operator_runner.h"
#include "engine/services/pipeline.h"
#include "engine/threads/parker.h"
#include "policy/tree/service_tree.h"

namespace fermata::engine {

// Drives a policy::ServiceTree in real time: what it starts are requests for the members' services,
// whose replies come back here. Thread-safe: events run on the thread that brings them, the tree's
// own part of each under one short lock; what they lead to happens outside of it.
class Trees {
 public:
  // How requests for members go in and are withdrawn, whatever their services are.
  struct Host {
    std::function<JobId()> next_id;
    std::function<void(JobId, InferRequest, Reply)> submit;
    std::function<void(JobId)> cancel;
    uint32_t request_parts = 0;  // that a request runs in at most, at every stage
    uint32_t workers = 1;        // that run what is submitted
    uint64_t ahead_bytes = 0;    // that operators may have given to models that have not taken it
  };
  // `operator_threads` of its own run the operators of pipelines.
  Trees(Host host, uint32_t operator_threads);
  ~Trees();

  // A request for a service whose route has a pipeline.
  void submit(std::shared_ptr<Job> job);
  // What the data of a job say, by item; nothing where it has ended.
  void learned(const std::shared_ptr<Job>& job, std::vector<policy::Estimate> by_item);
  // False where no such request is under way.
  bool cancel(JobId id);
  // What an adapter plans for a pipeline: the variants that stages are to take, by stage, for
  // requests that reach them from now on. A stage without one, or whose variant is not there, is
  // left open.
  using VariantPlan = std::map<std::string, std::string>;
  void plan(const std::string& service, VariantPlan variants);
  // How long each stage is expected to run on one item.
  std::vector<Duration> runs(const std::shared_ptr<const Pipeline>& pipeline);
  // Ends all that is under way with UNAVAILABLE, and all that comes; nothing is submitted any more
  // when it returns.
  void stop();

 private:
  struct Node;
  struct Known;
  // A run of an operator, whom nobody else counts.
  struct OperatorRun {
    std::shared_ptr<Counters> counters;  // null: it is none
    Time started, due;
    uint32_t items = 0;
    JobId whole;  // the client's request
    void count(const Explanation& why, Time now) const;
  };
  struct Place {
    JobId node;
    uint32_t child = 0;
    OperatorRun of_operator = {};
    bool submitted = true;  // false: what start() led to has yet to submit it
  };
  using Ended = policy::TreeDecisions::Ended;
  using Started = policy::TreeDecisions::Started;
  using Action = absl::AnyInvocable<void()>;
  using Actions = std::vector<Action>;

  // Runs `event` under the lock, then what it led to. False where it has stopped.
  bool handle(absl::FunctionRef<void(Actions&)> event);
  void run_timer();
  void child_ended(JobId id, ReplyPart part);
  // The rest is under the lock.
  void take(JobId id, ReplyPart part, std::optional<uint32_t> made, Time now);
  OperatorRunner::Work operator_work(const Started& started, const Pipeline::Stage& stage,
                                     const Node& of, std::vector<Tensor> inputs, Time now);
  void settle(Time now, Actions& actions);
  void start(const Started& started, Time now, Actions& actions);
  // A node that is no request of its own: items of one that run apart.
  void branch(const Started& started, std::shared_ptr<Node> node, ServiceId service, Time now);
  void finish(const Ended& ended, Time now, Actions& actions);
  void withdraw(JobId id, std::string_view why, Actions& actions);
  // Beyond the lock. Who withdrew it before it was submitted found nothing to cancel.
  void submitted(JobId id, bool of_operator);
  void cancel_run(JobId id, bool of_operator);
  void combine(const std::shared_ptr<Node>& node, JobId id, Time now);
  static void reply(const Node& node, const Ended& ended, Time now);
  Known& known(const std::shared_ptr<const Pipeline>& pipeline);
  void find_ahead(Known& known) const;
  void follow_plan(const Known& known);
  void let_go(const Pipeline& pipeline);
  void forget_the_old();

  const Host host_;
  std::mutex mutex_;
  std::condition_variable quiet_;
  uint32_t acting_ = 0;  // threads beyond the lock
  bool stopped_ = false;
  policy::ServiceTree tree_;
  policy::TreeDecisions acting_on_;
  Time timer_wakes_ = Time::infinite();
  Parker timer_;
  absl::flat_hash_map<JobId, std::shared_ptr<Node>> nodes_;
  absl::flat_hash_map<JobId, Place> children_;
  absl::flat_hash_map<const Pipeline*, std::unique_ptr<Known>> known_;
  absl::flat_hash_set<JobId> unwanted_;       // withdrawn before they were submitted
  std::map<std::string, VariantPlan> plans_;  // by service
  OperatorRunner operators_;                  // what it runs comes back here
  std::thread timer_thread_;                  // the last: it runs from the beginning
};

// Of what requests may hold, pictures that were decoded for models and not taken yet.
inline uint64_t ahead_of_models(const Limits& limits) { return limits.held_bytes / 16; }

}  // namespace fermata::engine
