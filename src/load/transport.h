#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "model/tensor.h"

namespace fermata::load {

// What a server is given to describe a model.
constexpr auto kMetadataTimeout = std::chrono::seconds(5);

// One request on its way: handed to send() and given back with its answer.
struct Sending {
  Time scheduled;        // when it was to be sent; latency counts from here
  Time sent;             // when it was; the server's budget counts from here
  uint32_t service = 0;  // index in the load's services
  uint32_t record = 0;   // index in that service's inputs
};

// What a server says about a reply when asked with `explain`.
struct Why {
  uint32_t batch_items = 0;
  Duration queueing, run;
};

// How a request ended. Status codes are gRPC's; over HTTP they are mapped back
// from the protocol's status numbers.
struct Answer {
  absl::Status status;
  std::vector<Tensor> outputs;  // where the question wanted them
  std::optional<Why> why;       // where the question asked to explain
};

// What every request that is made from one input record says.
struct Question {
  std::string service, version;  // version empty: the server's choice
  std::vector<Tensor> inputs;
  std::optional<Duration> timeout;  // the protocol's `timeout` parameter
  bool explain = false;
  bool want_outputs = false;
};

// An input as a server's metadata describes it; -1 in the shape is variable.
struct InputInfo {
  std::string name;
  DataType datatype = DataType::kFp32;
  Shape shape;
};

// Is told how each request ended, exactly once, from one thread of the transport.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void ended(const Sending& sending, Answer answer) = 0;
};

// Sends inference requests over one protocol. As many are in flight as were
// sent: connections are opened as needed, none ever waits for another's answer.
class Transport {
 public:
  // Ends whatever is in flight, and joins its thread.
  virtual ~Transport() = default;

  // The inputs of a ready model. Blocks; UNAVAILABLE where no server answers.
  virtual absl::StatusOr<std::vector<InputInfo>> inputs_of(const std::string& service,
                                                           const std::string& version) = 0;
  // Encodes a question once; send() takes the index it gives. Not beside send().
  virtual uint32_t prepare(const Question& question) = 0;
  // Does not block. One thread at a time.
  virtual void send(uint32_t question, const Sending& sending) = 0;
  // Ends all that is in flight as CANCELLED, soon; nothing may be sent after it.
  virtual void abandon() = 0;
  // The most connections open at one time so far.
  virtual size_t connections() const = 0;
};

enum class Protocol { kGrpc, kHttp };
// address: HOST:PORT. Connects when first used. `listener` outlives the transport.
absl::StatusOr<std::unique_ptr<Transport>> make_transport(Protocol protocol,
                                                          const std::string& address,
                                                          Listener& listener);

}  // namespace fermata::load
