#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/byte_budget.h"
#include "engine/admission.h"
#include "engine/catalog.h"
#include "engine/composite/join.h"
#include "engine/composite/part_run.h"
#include "engine/request.h"
#include "engine/schedule/counters.h"
#include "policy/service.h"

namespace fermata::engine {

struct Composite;        // engine/composite/composite.h
struct EnsembleService;  // engine/composite/ensemble_service.h
struct Pipeline;         // engine/services/pipeline.h
struct VariantsService;  // engine/composite/variants_service.h

// The queue of one service: how many of its requests wait, of all and of one connection, and the
// bytes of those that are under way and of their replies that nobody has read.
struct Gate {
  explicit Gate(uint32_t most, std::shared_ptr<ByteBudget> budget = nullptr)
      : limit(most), bytes(std::move(budget)) {}
  std::atomic<uint32_t> limit;
  std::atomic<uint32_t> waiting{0};
  std::atomic<uint64_t> asked{0};  // of a pipeline: requests since the start
  const std::shared_ptr<ByteBudget> bytes;
  enum class Entry : uint8_t { kTaken, kFull, kShareIsFull };
  // A connection may hold half of what the others leave free, rounded up. Those whose numbers are
  // alike but for a multiple of kShares count as one, which takes no lock. `anyway`: as a stage's
  // request of one that has been let in.
  Entry enter(uint64_t connection, bool anyway = false) {
    const uint32_t own = share(connection).fetch_add(1) + 1, all = waiting.fetch_add(1) + 1;
    const uint32_t others = all - std::min(own, all), most = limit;
    const bool has_room = all <= most && (connection == 0 || own <= (most - others + 1) / 2);
    if (anyway || has_room) return Entry::kTaken;
    leave(connection);
    return all > most ? Entry::kFull : Entry::kShareIsFull;
  }
  void leave(uint64_t connection) {
    share(connection).fetch_sub(1);
    waiting.fetch_sub(1);
  }

 private:
  static constexpr size_t kShares = 4096;
  std::atomic<uint32_t>& share(uint64_t connection) { return shares_[connection % kShares]; }
  std::array<std::atomic<uint32_t>, kShares> shares_{};  // that wait
};

// Where requests for one service and version go. `variant` is what clients see of it: for a
// service of several variants their public model.
struct Route {
  std::string service;
  std::string member;  // of a pipeline's stage: the service that answers there
  std::optional<Duration> slo;
  std::shared_ptr<const Variant> variant;
  uint32_t subcluster = 0;  // where it is loaded
  std::shared_ptr<Counters> counters;
  std::shared_ptr<Gate> gate;
  uint32_t part_items = 1;  // of one task: larger requests run in parts, of which there are
  uint32_t most_parts = 1;  // so many at most
  // Of several variants; one of the two is the composite itself, in its own type.
  std::shared_ptr<const Composite> composite;
  const VariantsService* variants = nullptr;
  const EnsembleService* ensemble = nullptr;
  // Items that each variant of `composite` has answered, or taken part in answering, in their
  // order, and then its evidence, where it has any. `counters` owns them.
  std::vector<std::atomic<uint64_t>*> answers;
  bool dedicated = false;                    // replicas of its own, where there are any
  std::shared_ptr<const Pipeline> pipeline;  // its stages are services: nothing runs under its name

  std::shared_ptr<const policy::ServiceInfo> info() const;  // as engine::Service has it
  void count_answer(const PartRun& run) const;
};

// One request from submit to its final reply: the root of a tree whose parts run in
// batches of their own. Ends exactly once, whoever comes first, and is counted then.
class Job {
 public:
  Job(JobId id, InferRequest&& request, Reply reply, std::shared_ptr<Route> route,
      Admitted admitted);
  void hold(HeldBytes bytes) { held_ = std::move(bytes); }  // of its inputs, before it is queued

  void observe_coming() const;  // the one who observes is told; before anything else happens to it

  JobId id() const { return id_; }
  const InferRequest& request() const { return request_; }
  const Route& route() const { return *route_; }
  void leave_queue() { route_->gate->leave(connection_); }
  uint32_t items() const { return admitted_.items; }
  const Shape& shape() const { return admitted_.shape; }
  Time deadline() const { return deadline_; }
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  // Any thread. False where it had ended before.
  bool end(Outcome outcome, absl::Status status, Explanation why);
  // The outputs of one part, or why it failed; any thread, once a part. The last one
  // joins them all into the reply.
  void answered(uint32_t part, absl::StatusOr<std::vector<Tensor>> outputs, const PartRun& run);

  // Takes what the client sent out of a job that no batch has seen, unless it has ended;
  // `next` answers for it from now on.
  void move_to(absl::FunctionRef<void(InferRequest, Reply, const Route& old, JobId id)> next);

  // The driver's owner's own.
  void split(uint32_t parts);   // before any of them runs; more than one
  std::vector<JobId> part_ids;  // of a job that was split
  std::vector<JobId> parts() const { return part_ids.empty() ? std::vector{id_} : part_ids; }
  // Of a service of several variants: what is known of the data of each item, empty: nothing (yet).
  // Where one of them answers, fixed once a part of it is bound or answered.
  std::vector<policy::Estimate> estimates;
  bool decided = false;
  uint32_t waiting_parts = 0, open_parts = 0;
  bool withdrawn = false;  // what waited of it, once for all of its parts

 private:
  struct Split {
    explicit Split(uint32_t parts) : join(parts) {}
    std::mutex mutex;
    Join join;
  };
  // Of an answer, by how one part of it ran; where several variants may answer, parts are items.
  Explanation explain(const PartRun& run, uint32_t part) const;
  void finish(absl::StatusOr<std::vector<Tensor>> outputs, const PartRun& run, Explanation&& why);
  absl::StatusOr<std::vector<Tensor>> whole();  // the parts' outputs, of all of them
  void observe_end(const Explanation& why, Time now, const PartRun& run) const;
  void send(absl::Status status, std::vector<Tensor> outputs, Explanation&& why);

  const JobId id_;
  const uint64_t connection_;
  InferRequest request_;
  Reply reply_;
  const std::shared_ptr<Route> route_;
  const Admitted admitted_;
  const Time deadline_;
  HeldBytes held_;
  std::atomic<bool> ended_{false};
  std::unique_ptr<Split> split_;  // of a job that was split
};

}  // namespace fermata::engine
