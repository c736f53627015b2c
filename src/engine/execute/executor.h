#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "base/time.h"
#include "engine/options.h"
#include "engine/snapshot.h"
#include "model/model_config.h"
#include "model/profile.h"
#include "model/tensor.h"

namespace fermata::engine {

class ModelCalls;  // engine/execute/model_calls.h
struct Variant;    // engine/catalog.h: a loaded model version with its configuration and profile
struct InputsElsewhere;  // engine/request.h

// The part of a batch that belongs to one task: whole tensors of one request,
// or for a request that was split, `items` rows of them from `first_item` on.
struct BatchPart {
  const std::vector<Tensor>* inputs = nullptr;        // in the order of the signature;
                                                      // alive until done is called
  const std::vector<std::string>* outputs = nullptr;  // names asked for; empty: all
  uint32_t first_item = 0, items = 1;
  bool alone = false;    // runs by itself, although it came in a batch: it may end its process
  bool last = false;     // it has lost a process before: its end is told with all that is known
  uint64_t request = 0;  // its number
  Time deadline = Time::infinite();  // and deadline
  // What the request's client said of it, for models that read it; null: nothing.
  const std::string* id = nullptr;
  const std::string* parameters = nullptr;     // as InferRequest has them
  const InputsElsewhere* elsewhere = nullptr;  // then there are no inputs here; only remote workers
};

// One stage of a dynamic network in a batch.
struct StageRun {
  uint32_t items = 0;  // that came to it
  Duration took;
  bool widened = false;  // it was wider than asked for
};

struct BatchResult {
  // One per part, in order: its outputs, or why that part alone failed.
  std::vector<absl::StatusOr<std::vector<Tensor>>> parts;
  Time started;
  Duration input, run, output;   // gathering, computing, scattering
  Duration link;                 // of `input`, what it took to get to another host and back
  uint64_t moved = 0;            // bytes that went there and back
  std::vector<StageRun> stages;  // of a dynamic network, those that ran; else none
  Duration total() const { return input + run + output; }
};

// All parts have the same shape per item and the same optional inputs. A variant
// that does not batch gets one part.
struct BatchRun {
  VariantId variant;
  std::vector<BatchPart> parts;
  Duration limit = Duration::seconds(600);  // beyond it the run is stopped and fails
  // Of inputs that are copied at a time; of larger batches several runs are made.
  uint64_t most_bytes = std::numeric_limits<uint64_t>::max();
  bool to_the_end = false;  // no item leaves a dynamic network early
  absl::AnyInvocable<void(BatchResult)> done;
};

inline uint32_t items_of(absl::Span<const BatchPart> parts) {
  uint32_t items = 0;
  for (const BatchPart& part : parts) items += part.items;
  return items;
}

// How long messages and so many bytes take to another host and back: 99 of 100 take less.
struct LinkBound {
  Duration control;
  double nanos_per_byte = 0;
  Duration operator()(double bytes) const {
    return control + Duration::nanos(static_cast<int64_t>(nanos_per_byte * bytes));
  }
};

// Where batches run; one per worker. Nothing above it knows which kind it is.
class Executor {
 public:
  // Lets what runs end.
  virtual ~Executor() = default;
  // Blocks; not on the request path. Safe beside run().
  virtual absl::Status load(std::shared_ptr<const Variant> variant) = 0;
  // Nothing of it runs or will run.
  virtual void unload(VariantId id) = 0;
  // Returns at once; calls done exactly once, from any thread. One bad item
  // fails its own part, not the batch. Runs one batch at a time, in order. One thread at a time.
  virtual void run(BatchRun batch) = 0;
  // Blocks; `batch.done` is its own. Instead of run(): on the thread that calls, where it can.
  virtual BatchResult run_here(BatchRun batch);
  // Of a worker that loads what it runs: loads it beside what runs, before a batch needs it. In
  // order with run(), and like that from one thread at a time. Calls
  // `done` once, from a thread of its own; not at all when the worker goes first.
  virtual void load_ahead(VariantId, absl::AnyInvocable<void(absl::Status)> /*done*/) {}
  // Calls `there` once, from any thread, when a variant that was away (Absence) may be run again;
  // at once where it may already. Not any more when the executor is gone.
  virtual void when_back(VariantId, absl::AnyInvocable<void()> there) { there(); }
  virtual void let_go(VariantId) {}  // of what it has loaded; a batch may want it again
  // Asks the run under way to stop; it may not heed that. Any thread.
  virtual void terminate() {}
  // Whom to tell of a process that died, when it is known what ended it: any thread, which must not
  // block. Before anything is loaded. One of the executors that share a process tells of it.
  using Deaths = std::function<void(VariantId model, Time at, const std::string& cause)>;
  virtual void tell_deaths(Deaths /*deaths*/) {}
  // The limit of what runs now is at most so far away.
  virtual void end_soon(Duration) {}
  virtual RunHealth health() const { return {}; }
  // A batch runs elsewhere while the thread that called the last one's done() is in that.
  virtual bool runs_apart() const { return false; }
  // Resident, of the processes that run what is loaded, in mebibytes: this one, or the models' own.
  virtual double memory_mb() const;
  // Of a worker of another host, which comes and goes; none is there at first. `told` is called
  // from any thread and must not block: when it has come, with everything that was loaded and what
  // it has measured of that, and when it has gone. When tell_presence() returns, the one before is
  // not called any more.
  struct Presence {
    bool there = false;
    std::vector<std::pair<VariantId, Profile>> profiles;
  };
  using Presences = std::function<void(Presence)>;
  virtual bool comes_and_goes() const { return false; }
  virtual void tell_presence(Presences /*told*/) {}
  virtual std::optional<LinkBound> link() const { return {}; }  // of one that is there
  virtual std::string host() const { return {}; }               // empty: this one, or none
  // When its host was last heard of, which is asked to say something at once. Returns at once.
  virtual Time ask() { return Time::infinite(); }
  // Which processors its threads may use, of those that it has from now on; nothing where it has
  // none of its own. Not beside load().
  virtual void pin(const std::vector<uint32_t>& /*processors*/) {}
};

// Blocks; `batch.done` is its own. On the executor's own thread, as what is served.
BatchResult run_and_wait(Executor& executor, BatchRun batch);

// Makes the executors of a pool's workers of one type, which share what can be shared (sessions,
// timers). Outlives them.
class ExecutorFactory {
 public:
  virtual ~ExecutorFactory() = default;
  virtual std::shared_ptr<Executor> make() = 0;
  // Opens a variant's files before it is complete; what they say, by stage. Executors that
  // are made later share them. Not beside make(). UNIMPLEMENTED where nothing is really loaded.
  virtual absl::StatusOr<std::vector<FileSignature>> open(const Variant& variant);
  // The variant's configuration with what its own code adds to it (Backend::command). Blocks.
  virtual absl::StatusOr<inference::ModelConfig> complete(const Variant& variant);
  virtual std::vector<ProcessStatistics> processes() const { return {}; }
  // Loads that wait for a process that starts fail soon, and so do later ones. Any thread.
  virtual void stop_loading() {}
  // What is loaded from now on gets the time that others leave. Any thread.
  virtual void be_quiet() {}
  // What runs models on this host beside the workers; `this` where they are of this host too.
  virtual ExecutorFactory& here() { return *this; }
  // What code of models calls other models through. Before anything is loaded.
  virtual void serve_calls(std::shared_ptr<ModelCalls> /*calls*/) {}
  // Why a loaded variant does not run, for longer than a restart takes; empty: it does.
  virtual std::string why_away(const Variant& /*variant*/) const { return {}; }
};

// Workers of other hosts. Outlives their executors.
class RemoteWorkers {
 public:
  virtual ~RemoteWorkers() = default;
  // For the types that are WorkerType::remote, once each. `here`: what executors of the same type
  // on this host would be.
  virtual std::unique_ptr<ExecutorFactory> executors(const WorkerType& type,
                                                     std::unique_ptr<ExecutorFactory> here) = 0;
  virtual ClusterStatistics statistics() const = 0;
};

// For workers of one type. INVALID_ARGUMENT where its provider is not available.
absl::StatusOr<std::unique_ptr<ExecutorFactory>> make_executors(const WorkerOptions& options,
                                                                uint32_t type = 0);

}  // namespace fermata::engine
