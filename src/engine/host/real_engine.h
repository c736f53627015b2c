#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/execute/model_calls.h"
#include "engine/for_frontends.h"
#include "engine/host/placement_log.h"
#include "engine/host/placement_units.h"
#include "engine/host/pool.h"
#include "engine/host/pool_window.h"
#include "engine/host/registry.h"
#include "engine/host/replicas.h"
#include "engine/schedule/entry.h"
#include "engine/services/adapter.h"
#include "engine/services/streams.h"
#include "engine/services/trees.h"
#include "engine/threads/periodic.h"
#include "engine/threads/published.h"
#include "engine/trial/loader.h"
#include "plan/autoscale.h"

namespace fermata::engine {

// The Engine that make_engine() makes: a repository's models on a pool of workers.
class RealEngine : public Engine, public ForFrontends {
 public:
  // `helpers`: of the models beside the workers; null: the first type's.
  RealEngine(EngineOptions options, std::vector<std::unique_ptr<ExecutorFactory>> executors,
             std::unique_ptr<ExecutorFactory> helpers);
  ~RealEngine() override;
  // Loads `models`, divides the pool as they need it, starts the timers. Once, before
  // anything else.
  absl::Status start(const std::vector<std::string>& models);
  // One whose variants are not all served starts when they are.
  absl::Status start_streams(const std::vector<ServiceOptions>& services);

  Time now() const override { return monotonic_now(); }
  void cancel(JobId job) override {
    if (trees_.cancel(job)) return;
    pool_->cancel(job);
    replicas_->cancel(job);
  }
  void learned(JobId job, std::vector<policy::Estimate> by_item) override {
    pool_->learned(job, std::move(by_item));
  }
  StreamDirection direct(InferRequest request) override;
  void operators_take(uint64_t frontend, std::string_view stream,
                      std::vector<Duration> by_variant) override {
    streams_.operators_take(frontend, stream, std::move(by_variant));
  }
  std::shared_ptr<const Catalog> catalog() const override { return routes_.read()->catalog; }
  JobId submit(InferRequest request, Reply reply) override;
  const EngineOptions& options() const { return options_; }
  std::vector<ModelStatus> index() const override;
  ServedModels models() const override;
  std::vector<ModelStatus> unserved() const override;
  std::string why_failing(const Variant& variant) const override;
  absl::Status load(std::string_view model, std::optional<std::string> config) override;
  absl::Status unload(std::string_view model) override;
  void end_epoch() override;
  std::vector<PlacementDecision> placement_decisions() const override { return log_.decisions(); }
  std::vector<policy::Problem> last_problems() const override { return pool_->last_problems(); }
  void set_rules(const policy::Rules& rules) override { pool_->set_rules(rules); }
  void end_second() override;
  void close_window() override;
  void want_workers(const std::vector<plan::PoolUse>& uses,
                    std::map<std::string, uint32_t>& wanted);
  uint32_t set_workers(uint32_t count) override;
  std::vector<AdapterDecision> adapter_decisions() const override;
  std::optional<StreamDecision> last_stream_decision() const override {
    return streams_.last_decision();
  }
  void close_streams(uint64_t owner) override { streams_.close(owner); }
  EngineSnapshot snapshot() const override;
  bool overdue() const override { return pool_->overdue() || replicas_->overdue(); }
  void stop_loading() override;

 private:
  using Variants = Registry::Variants;
  using Loaded = Registry::Loaded;

  void submit_as(JobId id, InferRequest&& request, Reply reply, bool of_stage);
  void admit_and_queue(JobId id, InferRequest&& request, Reply reply, std::shared_ptr<Route> route,
                       Place place);
  void queue(const std::shared_ptr<Job>& job);
  void adopt(std::shared_ptr<Job> job);

  std::string workers_in_words() const;
  absl::Status prepare(const std::map<std::string, Variants>& opened);
  absl::Status prepare_variants(const ServiceOptions& service,
                                const std::map<std::string, Variants>& opened);
  absl::Status prepare_ensemble(const ServiceOptions& service,
                                const std::map<std::string, Variants>& opened);
  // Those of `opened` of which nobody says how often they are right.
  absl::Status try_out_variants(const ServiceOptions& service,
                                const std::map<std::string, Variants>& opened);
  absl::Status index_evidence(const ServiceOptions& service,
                              const std::map<std::string, Variants>& opened);
  // What the repository has of a model; the index says meanwhile that it is being loaded.
  absl::StatusOr<Variants> open(const std::string& model, const std::optional<std::string>& config);
  // As load(), under the model's opening_.
  absl::Status load_now(const std::string& model, std::optional<std::string> config);
  std::mutex& opening(const std::string& model) {
    return opening_[std::hash<std::string>()(model) % opening_.size()];
  }
  // Puts these in the place of what is loaded of a model. All of them, or none.
  absl::Status replace(const std::string& model, Loaded next, bool unloading, Duration patience);
  absl::Status serve(const std::string& model, const Loaded& loaded, Duration patience);
  bool on_shared_workers(const std::string& model) const {
    return !options_.replica_models.contains(model);
  }
  // What the index says of a model that is not ready; nothing: it is, or is not there.
  void note(const std::string& model, std::optional<ModelStatus> status);
  // Puts the registry in service; says in the log which services that takes away, and why.
  void publish();
  absl::Status ready(const std::string& model);
  // INVALID_ARGUMENT where it is the name of a service, and no model has it.
  absl::Status check_is_model(const std::string& name) const;
  absl::Status unavailable(const std::string& model, const absl::Status& why);

  // Of models in processes of their own: real_engine_processes.cc.
  void watch_processes();
  void withdraw_dying(Time now);
  void serve_again(Time now);
  std::string why_dying(const Loaded& loaded) const;
  bool lacks(const std::string& model) const;

  // real_engine_streams.cc
  StreamService::Loading loading();
  StreamCosts::Sources stream_costs();
  absl::Status make_streams();
  std::shared_ptr<const Variant> model_of(const std::string& service) const;
  absl::Status make_adapters();  // real_engine_adapters.cc
  void start_adapters();
  // Of pipelines whose dedicated replicas run the model: their requests need not go where it was.
  void replan(const std::string& model);
  std::map<std::string, ServiceStatistics> measured();
  void adapt(Adapter& adapter, const std::shared_ptr<const Pipeline>& pipeline,
             const std::map<std::string, ServiceStatistics>& rows);
  uint32_t planned_workers() const;

  // Where models live: real_engine_placement.cc. All of it under changing_.
  bool memory_is_limited() const;
  absl::Status divide_pool(const std::map<std::string, Variants>& models);
  absl::Status settle_in(const std::string& model, const Variants& variants);
  absl::Status replace_version(const std::string& model, const Variants& variants);
  // A problem with the units that are placed and some models that are not.
  plan::PlacementProblem problem(double max_change_cost,
                                 const std::map<std::string, Variants>& without_room) const;
  // Plans and carries it out; how long the planning took.
  Duration place(const char* cause, double max_change_cost,
                 const std::map<std::string, Variants>& without_room);
  std::vector<PlacementChange> changes_of(
      const plan::EpochPlan::Step& step, const std::map<std::string, Variants>& without_room) const;
  // The models of a unit, as the problem names it, that are loaded or wait for room.
  std::vector<std::string> models_in(const std::string& unit) const;
  std::optional<uint32_t> place_of(const std::string& model) const;
  void carry_out(std::vector<PlacementChange>& changes,
                 const std::map<std::string, Variants>& without_room);
  void change_place(PlacementChange& change, const Variants& variants);
  void measure_rates();

  const EngineOptions options_;
  const Time started_ = monotonic_now();
  const PlacementUnits units_;
  const std::shared_ptr<ModelCalls> calls_;                        // by code of models
  const std::vector<std::unique_ptr<ExecutorFactory>> executors_;  // by type of worker
  const std::unique_ptr<ExecutorFactory> own_helpers_;
  ExecutorFactory& helpers_;  // for models beside the workers
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> unknown_{0};  // requests for services that there are not
  std::array<std::mutex, 16>
      opening_;          // by model: one load or unload of it at a time; before changing_
  std::mutex changing_;  // held by the one load, unload or epoch under way, for seconds
  // Of what is registered, for a moment; what changes it holds changing_ too. Never for a request.
  mutable std::mutex mutex_;
  Loader loader_;
  Registry registry_;
  std::map<std::string, std::string> overrides_;  // by model: the configuration it was loaded with
  std::map<std::string, ModelStatus> troubled_;   // by model: loading, or why it failed
  std::map<std::string, bool> wanted_;            // by model; false: it was unloaded
  Published<Routes> routes_;
  std::vector<ServiceOptions> stream_options_;             // under changing_
  size_t stream_faces_ = 0;                                // of those that have started
  Streams streams_;                                        // the pool's last replies go through it
  Trees trees_;                                            // the pool's last replies come to it
  std::vector<std::unique_ptr<EnsembleModel>> ensembles_;  // the pool's last queries need them
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Replicas> replicas_;                    // beside it
  std::vector<std::unique_ptr<EvidenceModel>> evidence_;  // of services of several variants
  std::map<std::string, Variants> without_room_;          // for which there was no room
  std::map<std::string, uint64_t> demand_;                // by model, when the last epoch ended
  std::map<std::string, double> rates_rps_;               // of the last epoch
  Time epoch_start_ = started_;
  PlacementLog log_;
  mutable std::mutex adapting_;                     // of the adapters
  std::vector<std::unique_ptr<Adapter>> adapters_;  // of pipelines
  std::map<std::string, uint64_t> asked_;           // by their service, a second ago
  PoolTotals window_start_;                         // the timer's own
  AutoscaleSignal autoscale_;
  std::optional<plan::PoolSize> pool_size_;      // the timer's own
  std::vector<plan::WantedWorkers> pool_sizes_;  // the same, by type, where that is not set
  struct Withdrawn {
    Time since, again;  // again: infinite where it is served
    uint32_t times = 0;
  };
  std::map<std::string, Withdrawn> withdrawn_;  // the process timer's own
  std::set<std::string> quarantined_;           // of these, those neither ready again nor unloaded
  std::unique_ptr<Periodic> window_timer_, epoch_timer_, second_timer_, process_timer_;
};

}  // namespace fermata::engine
