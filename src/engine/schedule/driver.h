#pragma once

#include <concurrentqueue.h>

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "engine/execute/executor.h"
#include "engine/observer.h"
#include "engine/schedule/composite_keys.h"
#include "engine/schedule/job.h"
#include "engine/schedule/key_table.h"
#include "engine/schedule/turns.h"
#include "estimate/control_delay.h"
#include "estimate/reply_delay.h"
#include "policy/scheduler.h"

namespace fermata::engine {

// Drives a policy::Scheduler in real time: one thread at a time owns it and all state of jobs.
// Others put events into a queue; who finds no owner is it for a moment, so that most requests are
// decided on by the thread that brought them. Nobody waits for another. What may take long, and
// what falls due by time, is for a thread of the driver's own.
class Driver {
 public:
  // What a driver shares with the others of its pool.
  struct Shared {
    std::atomic<uint64_t>& ids;  // the next of a job or a part of one; outlives the driver
    uint32_t first_worker = 0;   // how many workers the drivers before it have
    // Of WorkerOptions::types those that its workers have; schedulers know them by their place
    // here.
    std::vector<uint32_t> types = {0};
    std::vector<std::string> type_names = {"default"};
    Duration run_limit = Duration::seconds(10);  // the least after which a run is stopped
    uint64_t most_bytes = ~uint64_t{0};          // BatchRun's
    uint32_t serving = ~uint32_t{0};             // of its workers, the first so many at the start
    Observer* observer = nullptr;                // outlives the driver
    bool guests = true;  // the scheduler may be called from any thread, by one at a time
  };
  struct NewWorker {
    std::shared_ptr<Executor> executor;
    uint32_t type = 0;                                // of Shared::types
    int64_t memory_bytes = policy::kUnlimitedMemory;  // for what is loaded on demand
  };
  // `orphan` takes a job whose variant is gone; called by the owner.
  Driver(Shared shared, std::unique_ptr<policy::Scheduler> scheduler, double quantile,
         std::vector<NewWorker> workers, absl::AnyInvocable<void(std::shared_ptr<Job>)> orphan);
  // Refuses what waits, lets what runs end.
  ~Driver();

  void submit(std::shared_ptr<Job> job);
  void wake() { turns_.call(); }  // the scheduler's next_wake() has come nearer
  void cancel(JobId id);
  // What the data of each item of a submitted job says; it may overtake the job. Any thread.
  void learned(std::shared_ptr<Job> job, std::vector<policy::Estimate> by_item);
  // By another process, which is not believed: what does not fit the service changes nothing.
  void learned(JobId id, std::vector<policy::Estimate> by_item);
  // As the scheduler's, with the names that users know. Blocks.
  std::vector<policy::Problem> last_problems();
  // As the scheduler's. Returns at once.
  void set_rules(const policy::Rules& rules);

  // The workers have it loaded already. Blocks until the scheduler knows it.
  void add(std::shared_ptr<const Variant> variant, Duration slo);
  // Takes nothing new for it; waiting work is refused with UNAVAILABLE, or ends
  // normally. Workers unload it when all has ended; then `gone` is called, by the
  // owner. Returns at once.
  void retire(VariantId id, bool refuse_waiting, absl::AnyInvocable<void()> gone);
  // The first `count` of its workers serve from now on. Those that come have loaded everything
  // before they get a batch; those that leave end the batch that they run. A worker that cannot
  // load does not come. Blocks until the scheduler knows it; not beside load() or another of its
  // kind. How many serve then.
  uint32_t set_workers(uint32_t count);
  // Batches that start from now on have at most so many items; no task may be larger. Blocks.
  void limit_batches(uint32_t most);
  // Whether nothing waits or runs. Blocks for a moment.
  bool idle();
  // Where the threads of one of its workers run from now on. One that serves may run on.
  void pin(uint32_t worker, const std::vector<uint32_t>& processors);
  // Into every worker that serves, or none; blocks.
  absl::Status load(const std::shared_ptr<const Variant>& variant);
  // Of workers that load what they run: one loads a variant beside what it runs, or lets it go, and
  // the scheduler is told. `done` may come from any thread, or not at all when the driver goes.
  void load_ahead(WorkerId worker, std::shared_ptr<const Variant> variant,
                  absl::AnyInvocable<void(absl::Status)> done);
  void let_go(WorkerId worker, std::shared_ptr<const Variant> variant);
  // Blocks until all that was posted before has been handled.
  void settle();

  std::vector<WorkerStatistics> worker_statistics() const;
  Duration control_delay() const { return Duration::nanos(control_delay_.load()); }
  uint64_t batch_keys() const { return batch_keys_.load(); }
  bool overdue() const;  // the run of some worker is

 private:
  struct Part;      // of a job, waiting or running
  struct Query;     // a part of a job of an ensemble: its answers so far
  struct InFlight;  // a batch that runs
  struct Worker;
  struct Cancel {
    JobId id;
  };
  struct Learned {
    std::shared_ptr<Job> job;
    std::vector<policy::Estimate> by_item;
  };
  using Command = absl::AnyInvocable<void()>;
  using Event = std::variant<std::monostate, std::shared_ptr<Job>, std::shared_ptr<InFlight>,
                             Cancel, Learned, Command>;

  JobId next_id() { return JobId(shared_.ids.fetch_add(1, std::memory_order_relaxed)); }
  static constexpr size_t kEventsAtOnce = 16;

  void post(Event event);
  // Another thread handles it: its bringer may hold locks, it may be long, or each of many drivers
  // is told.
  void leave(Event event);
  void post_and_wait(absl::FunctionRef<void()> command);
  Turns::Left work(bool guest);
  void handle(Event& event, Time now);
  void arrived(std::shared_ptr<Job> job, Time now);
  bool served(const Route& route);  // everything that it needs
  KeyId key_of(const Job& job, Time now);
  void task_added(KeyId key);
  void task_ended(KeyId key);
  void nominate(const std::shared_ptr<Job>& job, KeyId key, Time now);
  Time deadline_for(const Job& job, KeyId key, Time now) const;  // that decisions keep
  Duration fastest(KeyId key, uint32_t items) const;  // of a key's tables, or a service's
  void learned(Learned& learned, Time now);
  void tell(const Job& job, Time now);  // what is known of its data
  void name_all(plan::GroupProblem& problem) const;
  void name_all(plan::PoolProblem& problem) const;
  static void name_all(plan::EnsembleProblem& problem);
  void short_circuit(const policy::Concluded& concluded);
  // Of a share that is a query of an ensemble.
  void join_query(const Part& part, InFlight& running, BatchPart& wanted);
  void take_answer(InFlight& running, size_t share, absl::StatusOr<std::vector<Tensor>> answer);
  struct Unanswered {
    std::vector<policy::Task> failed, away;
  };
  Unanswered take_answers(InFlight& running);
  void ask_again(JobId query, InFlight& running);
  void conclude(const policy::Concluded& concluded, Time now);
  void cancelled(JobId id, Time now);
  std::shared_ptr<Job> job_of(JobId id) const;  // null: it is not here
  void batch_ended(InFlight& running, Time now);
  using Way = std::pair<std::string, WorkerId>;  // from who holds inputs to a worker
  // A process ended, or was not there: its parts run again, when there is one.
  void again(InFlight& running, size_t share, Time now);
  void set_aside(JobId part, InFlight& running);
  void take_back(VariantId variant);
  void leave_aside(Part& part);  // no more
  void refuse_aside(Time now);   // those whose deadline has passed
  // Its worker cannot reach the frontend that has its inputs: others take whatever that frontend
  // asks, until the way is believed to be there again. What several models may answer has no
  // workers of its own: then the worker rests for a moment. So does a part that none can reach.
  void look_for_cuts(const InFlight& running, Time now);
  void cut_off(const std::string& holder, WorkerId worker, Time now);
  void set_apart(const std::string& holder, Time now);
  bool is_cut(const std::string& holder) const;  // from some workers
  void tell_reaches(const Way& way, bool reaches, Time now);
  void tell_ways(KeyId apart, Time now);
  void enter_key(Part& part, Time now);  // that of requests which the same workers reach
  void rest(WorkerId worker, Time now);
  void nominate_again(Part& part, Time now);
  void put_off(JobId part, Time now);
  void go_on(Time now);  // with what was put off, with workers that have rested, and over ways
  // Of a part that another host runs: whoever waits for it beyond its deadline waits only as long
  // as that host is heard of.
  void watch(JobId part, WorkerId worker);
  void unwatch(Part& part);
  void ask_hosts(Time now);
  void look_aside(Time now);  // at those parts, and until when nothing is due of them
  Time next_aside() const;
  void observe_delay(Duration delay, Time now);
  void publish_delay();
  void learn(const InFlight& running, Time now);
  void learn_way(const InFlight& running, Time now);
  void look_at_links(Time now);
  void doubt(const policy::Task& refused, Time now);
  void doubt(KeyId key, uint32_t items, Time now);
  void publish(KeyId key, Time now);  // its corrected latency, if it moved
  void act(Time now);
  void launch(policy::Batch& batch, Time now);
  void observe_bound(const policy::Batch& batch, InFlight& running, Time now);
  void observe_end(const InFlight& running, const BatchResult& result) const;
  void observe_load(const Worker& worker, VariantId variant, Time from) const;
  void observe_deaths(Executor& executor, uint32_t worker) const;
  void refuse(const policy::Dropped& dropped, Time now);
  void withdraw_parts(Job& job, Time now);
  void withdraw_waiting(absl::FunctionRef<bool(const Route&)> of, const absl::Status& why,
                        Time now);
  void forget(JobId part);  // a part has ended
  void left_queue(Job& job);
  void hold(WorkerId worker, VariantId weights, bool there);
  void came_or_went(uint32_t worker, const Executor::Presence& presence);  // of another host
  absl::Status load_into(Worker& worker, const std::shared_ptr<const Variant>& variant);
  void unload_from(Worker& worker, VariantId id);
  void unload(VariantId id);             // from all workers
  absl::Status prepare(Worker& worker);  // loads what the others have
  void leave_if_idle(Worker& worker);    // unloads its models where it serves no more
  void completed(const std::shared_ptr<InFlight>& running, BatchResult result);  // worker's thread
  void reply(const std::shared_ptr<InFlight>& running, BatchResult result);      // its part

  const Shared shared_;
  moodycamel::ConcurrentQueue<Event> events_;
  Turns turns_{[this](bool guest) { return work(guest); }, shared_.guests};
  std::atomic<uint32_t> completing_{0};  // threads in completed(), whose last access this is
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<uint32_t> serving_;
  std::mutex loaded_mutex_;
  std::map<VariantId, std::shared_ptr<const Variant>> loaded_;  // into those that serve
  std::atomic<int64_t> control_delay_;
  std::atomic<uint64_t> batch_keys_{0};

  // The owner's:
  moodycamel::ConsumerToken token_{events_};
  std::array<Event, kEventsAtOnce> taken_;  // from the queue; from next_ to count_ not handled
  size_t next_ = 0, count_ = 0;
  std::unique_ptr<policy::Scheduler> scheduler_;
  absl::AnyInvocable<void(std::shared_ptr<Job>)> orphan_;
  KeyTable keys_;
  CompositeKeys composites_{*scheduler_, keys_};
  policy::Decisions decisions_, acting_;
  absl::flat_hash_map<JobId, Part> parts_;
  absl::flat_hash_map<JobId, std::shared_ptr<Query>> queries_;  // by part, once it runs
  absl::flat_hash_map<JobId, std::shared_ptr<Job>> split_jobs_;
  // Cancellations that overtook their job; the oldest are forgotten.
  absl::flat_hash_set<JobId> early_cancels_;
  std::deque<JobId> early_order_;
  std::set<std::pair<Time, JobId>> aside_;    // parts that wait for a process, by deadline
  std::set<std::pair<Time, JobId>> watched_;  // by when their host is asked
  std::set<std::pair<Time, JobId>> put_off_;  // until when
  std::set<std::pair<Time, WorkerId>> resting_;
  std::map<Way, Time> cut_ways_;              // until when they are believed to be
  std::set<std::pair<Time, Way>> mended_at_;  // the same
  // Of which models' processes, by worker, the executors call when they are back.
  absl::flat_hash_set<std::pair<VariantId, WorkerId>> awaited_;
  std::vector<Observer::Member> observed_;  // of the batch that is bound
  estimate::ControlDelay delay_;
  estimate::ReplyDelay reply_delay_;
  Duration overslept_;   // of the tick under way
  bool remote_ = false;  // some workers are of other hosts
  Time looked_at_links_;
  bool stopping_ = false;
  uint64_t in_flight_ = 0;
};

}  // namespace fermata::engine
