#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/ids.h"
#include "base/time.h"
#include "engine/snapshot.h"
#include "model/tensor.h"
#include "policy/stream/stream_sessions.h"

namespace fermata::engine {

// Inputs that another process keeps until a worker fetches them there, and what decisions need to
// know of them. The outputs go there too: replies have none.
struct InputsElsewhere {
  std::shared_ptr<const std::string> holder;  // HOST:PORT, where workers find it
  uint64_t key = 0;                           // of the request there
  uint32_t items = 1;                         // these two as admit() found them there
  Shape shape;
};

// One call of a service, as a front end hands it over. The payloads stay where
// they were received until an executor copies them into a batch, once.
struct InferRequest {
  std::string service;
  std::string version;      // empty: the newest that is ready
  std::string id;           // echoed
  std::string parameters;   // those that are the model's own, as a JSON object; empty: none
  uint64_t connection = 0;  // that it came on, by a number of its own; 0: none
  std::vector<Tensor> inputs;
  std::shared_ptr<const InputsElsewhere> elsewhere;  // instead of inputs; else null
  std::vector<std::string> outputs;                  // empty: all
  Time arrival;                                      // of its last byte, on Engine::now()'s clock
  std::optional<Duration> timeout;                   // from arrival; absent: the service's SLO
  Time cutoff = Time::infinite();                    // a transport's own deadline: may only tighten
  // What the client says of its way here: taken off the deadline, whatever the service. Of a
  // stream's client the service takes off more where its link is believed to be slower.
  Duration network_time;
  std::shared_ptr<policy::StreamFrame> frame;  // of a stream's client; else null
  Time start_from = Time::infinite();          // as policy::Task has it
  bool begun = false;                          // the same
  bool explain = false;                        // of a pipeline: Explanation::stages
  JobId parent = JobId::none();                // the client's request that it is a part of
  // Of a stage: so many others read what it gives, all of it, and nobody here does, so that it may
  // stay where it ran (KeptElsewhere); 0: it has to come.
  uint32_t readers = 0;
};

// Why the reply is what it is.
struct Explanation {
  Outcome outcome = Outcome::kOnTime;
  std::string variant, version;
  uint32_t worker = 0, batch_items = 0;
  Duration budget;         // deadline minus arrival; infinite without a deadline
  Duration queueing, run;  // before its batch started; of the batch. Of a deadline
                           // refusal: the expected wait and run time it would have met
  Duration remaining;      // budget left when the reply was made; infinite without a deadline
  Duration items_queueing, items_run;  // of items that ran apart, the sums; 0: they did not
  // Of a service of several variants, else empty. Lists are JSON. Of an ensemble, `variant` are the
  // base models that answered, joined by +.
  std::string reason;        // why this variant
  std::string alternatives;  // of each variant: accuracy by the posterior, run_ms as profiled; of
                             // each subset of an ensemble: accuracy by the difficulty
  std::string posterior;     // by class; empty: the data was not known in time
  double expected_accuracy = 0;
  std::optional<double> difficulty;  // predicted, of an ensemble's query
  // JSON: of a pipeline, each stage that the request got to, with its wait, run and budget and how
  // it ended there, where that was asked.
  std::string stages;
};

// What a stream's client is told, whatever became of its frame.
struct StreamReply {
  policy::StreamAdvice advice;
  Duration in_server;  // from the frame's last byte to this reply
};

// A refusal or failure has a status and no outputs:
//   DEADLINE_EXCEEDED   cannot make it (message: budget, expected wait, run time)
//   RESOURCE_EXHAUSTED  the queue is full        CANCELLED  cancel() won
//   OUT_OF_RANGE  more items than limits.request_parts allows, at some stage
//   NOT_FOUND, INVALID_ARGUMENT, UNAVAILABLE, INTERNAL as the protocol has them
struct ReplyPart {
  absl::Status status;
  std::vector<Tensor> outputs;
  std::string model, version, id;  // model: the service that was called
  Explanation why;
  std::shared_ptr<const StreamReply> stream;  // to a stream's client; else null
};

// Called exactly once, from the thread that submits, an engine or a worker thread;
// must not block.
using Reply = absl::AnyInvocable<void(ReplyPart)>;

}  // namespace fermata::engine
