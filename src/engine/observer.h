#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/time.h"
#include "engine/snapshot.h"
#include "policy/types.h"

namespace fermata::engine {

// Is told what happens, as it happens: what came, what ran with whom, how it ended. Events come
// from the threads that serve, several at once, and some overtake others of another thread: they
// must not block, take a lock or throw. What they refer to is theirs for the call only. Times are
// those of Engine::now().
class Observer {
 public:
  virtual ~Observer() = default;

  // The number that events use for a service, the same for the same name; and the name of a model
  // that batches run. Called when these are loaded, never for a request; may lock.
  virtual uint32_t service(std::string_view name) = 0;
  virtual void model(VariantId id, std::string_view name) = 0;

  // A request for a service that is there, valid or not; it ends once.
  struct Came {
    JobId id;
    JobId parent = JobId::none();  // the request of a client that it is a part of
    uint32_t service = 0, items = 0;
    Time arrival, submitted;  // its last byte; when the engine had it
    Time deadline;            // infinite: none
    Duration network;         // on its way here, as the client told
    std::string_view client_id;
  };
  virtual void came(const Came& event) = 0;

  struct Member {
    JobId request;
    Time nominated;  // when the scheduler had it
  };
  struct Bound {
    uint64_t batch = 0;
    uint32_t worker = 0;
    VariantId model;
    uint32_t service = 0, items = 0;
    Time at, wanted;     // when it was bound; as policy::Batch has it
    Time start, finish;  // as expected
    policy::StartRule rule = policy::StartRule::kAtOnce;
    bool load = false;
    std::span<const Member> members;  // one for each part of a request
  };
  virtual void bound(const Bound& event) = 0;

  struct BatchEnded {
    uint64_t batch = 0;
    Time started, ended;
    bool failed = false;  // for some request
  };
  virtual void ended(const BatchEnded& event) = 0;

  struct Ended {
    JobId request;
    uint32_t service = 0;
    Outcome outcome = Outcome::kOnTime;
    Time at;
    Duration queueing, run;  // of one rejected for its deadline: what it would have met
    VariantId model;         // that answered alone; else none
    uint32_t subset = 0;     // of an ensemble's base models that answered together
    float accuracy = 0;      // that is expected of the answer; 0: unknown
  };
  virtual void ended(const Ended& event) = 0;

  // An operator of a pipeline ran for a request, or was taken back: then it ran for no time.
  struct OperatorRan {
    JobId request;
    uint32_t service = 0;
    Time from;
    Duration waited, ran;
  };
  virtual void ran(const OperatorRan& event) = 0;

  struct Loaded {
    uint32_t worker = 0;
    VariantId model;
    Time from, to;
  };
  virtual void loaded(const Loaded& event) = 0;

  // The process that ran a model for a worker ended unasked; told when it is known of what.
  struct Died {
    uint32_t worker = 0;
    VariantId model;
    Time at;
    std::string_view cause;  // "SIGSEGV", "exit"
  };
  virtual void died(const Died& /*event*/) {}
};

}  // namespace fermata::engine
