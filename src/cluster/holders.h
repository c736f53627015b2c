#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/channel.h"
#include "cluster/lookout.h"
#include "cluster/messages.h"
#include "cluster/options.h"
#include "engine/catalog.h"

namespace fermata::cluster {

// The frontends that have inputs of a worker's batches: it fetches the inputs there and brings the
// outputs back, so that neither passes the scheduler. One thread at a time, but for end().
class Holders {
 public:
  Holders(TlsFiles tls, Lookout& lookout) : tls_(std::move(tls)), lookout_(lookout) {}

  // A batch as far as its inputs have come: `batch.run` has those parts, in order.
  struct Fetched {
    struct Part {
      absl::Status status;   // not OK: it is not in the batch
      uint32_t numbers = 0;  // as Given has it
    };
    ReceivedBatch batch;
    std::vector<Part> parts;  // of the message, each
    uint64_t bytes = 0;
  };
  // Blocks for at most some seconds. INVALID_ARGUMENT where the message makes no sense.
  absl::StatusOr<Fetched> fetch(const Batch& batch, const engine::Variant& variant, Time now);
  // The outputs of a batch whose results are those of all parts of the message go to the holders,
  // and leave `result`. A part whose outputs cannot be brought fails. Their bytes.
  uint64_t bring(const Batch& batch, const engine::Variant& variant, engine::BatchResult& result);
  // No more inputs are fetched; outputs of what runs are brought still, soon. Any thread.
  void end();

 private:
  struct Asked {
    std::shared_ptr<Channel> channel;
    absl::Status failed;
    std::vector<int> parts;
  };
  absl::StatusOr<std::shared_ptr<Channel>> link(const std::string& address);
  absl::StatusOr<std::shared_ptr<Channel>> connect(const std::string& address);
  void lose(const std::string& address);
  bool fetching(bool is_so);  // false: no more
  void ask(const Batch& batch, const engine::Variant& variant, const std::string& address,
           Asked& asked);
  void receive(const Batch& batch, const Signature& signature, const Asked& asked, Fetched& to,
               std::vector<engine::InferRequest>& requests);

  const TlsFiles tls_;
  Lookout& lookout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false, fetching_ = false;
  std::map<std::string, std::shared_ptr<Channel>> links_;  // by address
  std::string unreached_;                                  // whose way was looked for last, in vain
};

}  // namespace fermata::cluster
