#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/wire/channel.h"
#include "cluster/wire/messages.h"
#include "cluster/worker/keeper.h"
#include "cluster/worker/ways.h"
#include "engine/catalog.h"

namespace fermata::cluster {

// The frontends that have inputs of a worker's batches: it fetches the inputs there and brings the
// outputs back, so that neither passes the scheduler. One thread at a time, but for end().
class Holders {
 public:
  Holders(Ways& ways, Keeper& keeper) : ways_(ways), keeper_(keeper) {}

  // A batch as far as its inputs have come: `batch.run` has those parts, in order.
  struct Fetched {
    struct Part {
      absl::Status status;                // not OK: it is not in the batch
      uint32_t numbers = 0, readers = 0;  // as Given has them
    };
    ReceivedBatch batch;
    std::vector<Part> parts;  // of the message, each
    uint64_t bytes = 0;
  };
  // Blocks for at most some seconds, and where nothing comes from a frontend for half of what the
  // tightest part has left; from all other workers that keep inputs half as long again, of which
  // each has some time. DATA_LOSS of a part whose inputs such a one has no more, or does not give
  // in time. INVALID_ARGUMENT where the message makes no sense.
  absl::StatusOr<Fetched> fetch(const Batch& batch, const engine::Variant& variant, Time now);
  // The outputs of a batch whose results are those of all parts of the message go to the holders,
  // but for those that are kept here for others, and leave `result`. A part whose outputs cannot be
  // brought fails. The bytes that went.
  uint64_t bring(const Batch& batch, const engine::Variant& variant, const Fetched& fetched,
                 engine::BatchResult& result);
  // No more inputs are fetched; outputs of what runs are brought still, soon. Any thread.
  void end();

 private:
  struct Asked {
    std::string address;
    Message text;
    std::vector<int> parts;
    std::shared_ptr<Channel> channel;
    bool kept = false;  // it was there already
    absl::Status failed;
    bool late = false;  // since something took too long
  };
  // What another worker keeps, which is to get its place here.
  struct FromKeeper {
    std::vector<Payload*> wanted;
    Asked asked;
  };
  struct Link {
    std::shared_ptr<Channel> channel;
    bool kept = false;
  };
  struct KeptLink {
    std::shared_ptr<Channel> channel;
    Time used;
  };
  void forget_unused(Time now);
  absl::StatusOr<Link> link(const std::string& address, Duration patience);
  bool drop(const std::string& address);  // its connection; false: no more is fetched
  void lost(const std::string& address, const absl::Status& why);
  bool fetching(bool is_so);  // false: no more
  void ask(Duration limit, Asked& asked);
  static absl::StatusOr<Frame> answer_once(Asked& asked, Duration limit);
  absl::StatusOr<Frame> answer(Asked& asked, Duration limit, int given);
  void receive(const Batch& batch, const Signature& signature, Asked& asked, Fetched& to,
               std::vector<engine::InferRequest>& requests);
  // What of it other workers keep.
  void fetch_kept(Duration limit, Fetched& to, std::vector<engine::InferRequest>& requests);
  absl::Status receive_kept(Duration limit, FromKeeper& from, uint64_t& bytes);
  bool keep(const Part& part, uint32_t readers, const Tensor& tensor, TensorHead& head);

  Ways& ways_;
  Keeper& keeper_;
  std::mutex mutex_;
  bool over_ = false, fetching_ = false;
  std::map<std::string, KeptLink> links_;  // by address
};

}  // namespace fermata::cluster
