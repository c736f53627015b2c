#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "engine/admission.h"
#include "engine/catalog.h"
#include "engine/request.h"

namespace fermata::cluster {

// A frontend's requests under way: what clients sent, what workers have answered of it, and what
// the scheduler has said. Each is replied to once, by whoever ends it; replies come from the call
// that does. Knows no clock and no connection. Thread-safe.
class HeldRequests {
 public:
  struct Request {
    engine::InferRequest request;
    engine::Reply reply;
    engine::Admitted admitted;
    std::shared_ptr<const engine::Variant> variant;  // that it fits
    Time deadline = Time::infinite();
    HeldBytes bytes;
  };
  // Numbers of requests begin anywhere, so that those of an earlier process are nobody's.
  explicit HeldRequests(uint64_t first) : next_(first) {}

  uint64_t next_key() { return next_.fetch_add(1); }
  // `key`: of no other. `session`: the scheduler's that is asked for it; 0: none yet.
  using Ask = absl::FunctionRef<void(uint64_t key, const Request&)>;
  void add(uint64_t key, Request request, uint64_t session, Ask ask);
  // Asks for all that this session's scheduler has not been asked for.
  void ask_again(uint64_t session, Ask ask);
  // The scheduler is gone: who has all outputs is answered.
  void lost(uint64_t session);

  // A worker wants items of a request, to run them.
  struct Wanted {
    std::vector<Tensor> inputs;
    std::string parameters;
  };
  absl::StatusOr<Wanted> fetch(uint64_t key, uint32_t first, uint32_t items);
  // A worker has run items. `read` reads the outputs for the model they are of.
  using Read = absl::FunctionRef<absl::StatusOr<std::vector<Tensor>>(const Request&)>;
  // False: nobody waits for them.
  bool take(uint64_t key, uint32_t first, uint32_t items, Read read);
  // The scheduler has ended it: with what workers send, or a status.
  void told(uint64_t key, engine::ReplyPart reply, Time now);
  // False: it has ended.
  bool cancel(uint64_t key);

  // Ends those whose deadline passed some time ago and that no worker has fetched for a scheduler
  // that is there, and asks again for those whose outputs do not come, or that this session's
  // scheduler has not been asked for. `session`: 0: there is none. `gave_up`: for each that has
  // ended.
  void look(Time now, uint64_t session, Ask ask, absl::FunctionRef<void(uint64_t key)> gave_up);
  // All of them: the frontend stops.
  void end_all(const absl::Status& why);
  size_t size() const;

 private:
  struct Piece {
    uint32_t first = 0, items = 0;
    std::vector<Tensor> outputs;
  };
  struct Held {
    Request of;
    uint64_t session = 0;  // of the scheduler that was asked last
    uint32_t asked = 0;    // times
    bool fetched = false, again = false;
    std::optional<engine::ReplyPart> told;  // by the scheduler: it has been answered
    Time told_at;
    std::vector<Piece> pieces;
    uint32_t items = 0;  // in pieces

    bool whole() const { return items == of.admitted.items; }
    void put(Piece piece);
    void is_asked(uint64_t of_session);
  };
  using Some = std::vector<std::pair<uint64_t, std::shared_ptr<Held>>>;
  struct Shard {
    mutable std::mutex mutex;
    std::unordered_map<uint64_t, std::shared_ptr<Held>> held;
  };
  Shard& shard(uint64_t key) { return shards_[key % shards_.size()]; }
  // What has left the table.
  static void answer(Held& held);
  static void refuse(Held& held, absl::Status why, engine::Outcome outcome);

  std::atomic<uint64_t> next_;
  std::array<Shard, 16> shards_;
};

}  // namespace fermata::cluster
