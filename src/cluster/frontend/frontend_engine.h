#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/frontend/frontend_models.h"
#include "cluster/frontend/frontend_streams.h"
#include "cluster/frontend/held_requests.h"
#include "cluster/frontend/input_holder.h"
#include "cluster/frontend/scheduler_link.h"
#include "cluster/frontend/stage_reruns.h"
#include "cluster/wire/offered.h"
#include "engine/engine.h"
#include "engine/host/registry.h"
#include "engine/services/trees.h"
#include "engine/threads/periodic.h"
#include "engine/threads/published.h"

namespace fermata::cluster {

// The engine of a process that only speaks with clients (Symphony 4: a frontend). It keeps their
// inputs, tells a scheduler of them, and gives the inputs to the workers that the scheduler chose.
// Services that are made of services run here: what one stage gave stays until a worker fetches it
// for the next, and the scheduler is asked for each as a request of its own. Where models are
// divided over several schedulers, each is asked for its own models.
class FrontendEngine : public engine::Engine {
 public:
  struct Options {
    // Of each division of the models its schedulers, in the order in which they are tried; 1 to
    // kMostDivisions.
    std::vector<std::vector<std::string>> divisions;
    SchedulerLink::Options link;  // of each of them; but its address, schedulers and sessions
    std::string host;             // to listen on for workers
    uint16_t port = 0;
    engine::EngineOptions engine;  // services' deadlines, and limits
  };
  // UNAVAILABLE where it cannot listen; INVALID_ARGUMENT of certificates.
  static absl::StatusOr<std::unique_ptr<FrontendEngine>> make(Options options);
  ~FrontendEngine() override;
  uint16_t port() const { return holder_.port(); }

  Time now() const override { return monotonic_now(); }
  JobId submit(engine::InferRequest request, engine::Reply reply) override;
  void cancel(JobId job) override;
  void close_streams(uint64_t owner) override { streams_.close(owner); }
  std::shared_ptr<const engine::Catalog> catalog() const override {
    return routes_.read()->catalog;
  }
  std::vector<engine::ModelStatus> index() const override { return offer_.read()->index; }
  std::vector<engine::ModelStatus> unserved() const override;
  absl::Status load(std::string_view model, std::optional<std::string> config) override;
  absl::Status unload(std::string_view model) override;
  void end_epoch() override {}
  std::vector<engine::PlacementDecision> placement_decisions() const override { return {}; }
  std::vector<policy::Problem> last_problems() const override { return {}; }
  engine::EngineSnapshot snapshot() const override;

 private:
  struct OfDivision {
    std::unique_ptr<SchedulerLink> link;
    // Frames of streams are asked for in the order in which they came: none while those are that
    // waited for the session. It changes under the lock, and in the timer's thread.
    std::shared_mutex asking;
    uint64_t asked_session = 0;  // that has been asked for what waited when it came
    Offer offer;                 // the last; under mutex_
  };

  FrontendEngine(Options options, std::vector<engine::ServiceOptions> streams);
  void connect(std::string address);
  SchedulerLink& link(uint32_t division) const { return *divisions_[division]->link; }
  // Whose request it is. What a stage runs again with is held by its source, and counted there.
  enum class Origin : uint8_t { kClient, kStage, kStageAgain };
  void submit_as(JobId id, engine::InferRequest request, engine::Reply reply, Origin origin);
  // One that workers run.
  void hold(JobId id, engine::InferRequest request, engine::Reply reply, const engine::Route& route,
            Origin origin);
  // A stream's frame, until its scheduler has said what runs it.
  void hold_frame(JobId id, HeldRequests::Request frame);
  static engine::Reply counted(const HeldRequests::Request& request, const engine::Route& route,
                               engine::Reply reply);
  void told(uint32_t division, const Told& told);
  void offered(uint32_t division, Offer offer);
  // One whose inputs have come again.
  void go_on(JobId id, HeldRequests::Request request);
  void ask(uint64_t session, uint64_t key, const HeldRequests::Request& request);
  void give_up(uint64_t key, uint32_t division);
  // To the scheduler that is there; `add` as in SchedulerLink::say().
  void say(uint32_t division, absl::FunctionRef<size_t(Asked&)> add);
  void tell_operators(Time now);
  void look();
  absl::Status not_here() const;

  const Options options_;
  const Time started_ = monotonic_now();
  std::atomic<uint64_t> unknown_{0};
  mutable std::mutex mutex_;  // of the registry, for a moment
  engine::Registry registry_;
  std::unique_ptr<FrontendModels> models_;
  engine::Published<engine::Routes> routes_;
  engine::Published<Offer> offer_;
  std::vector<std::unique_ptr<OfDivision>> divisions_;  // which the threads of the following use
  HeldRequests requests_;
  engine::Trees trees_;  // the last replies come to it
  StageReruns reruns_;   // the same
  FrontendStreams streams_;
  InputHolder holder_;
  std::unique_ptr<engine::Periodic> timer_;
};

}  // namespace fermata::cluster
