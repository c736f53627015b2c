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
#include "absl/types/span.h"
#include "base/byte_budget.h"
#include "cluster/frontend/held_answers.h"
#include "engine/admission.h"
#include "engine/catalog.h"
#include "engine/request.h"
#include "engine/services/stream_face.h"

namespace fermata::cluster {

// A frontend's requests under way: what clients sent, what workers have answered of it, and what
// the scheduler has said. Each is replied to once, by whoever ends it; replies come from the call
// that does. Knows no clock and no connection. Thread-safe: calls nobody under a lock.
class HeldRequests {
 public:
  struct Request {
    engine::InferRequest request;
    engine::Reply reply;
    engine::Admitted admitted;
    std::shared_ptr<const engine::Variant> variant;  // that it fits
    // Of whose models several answer each item; null: its service is none.
    std::shared_ptr<const engine::EnsembleService> ensemble;
    // Of a stream's client: its scheduler is asked which variant is to run it, and nothing runs it
    // here. Null: it is a call of a model.
    std::shared_ptr<const engine::StreamFace> stream;
    Time deadline = Time::infinite();
    HeldBytes bytes;
    uint32_t division = 0;  // of models: whose scheduler is asked
    std::string asked_as;   // there; empty: by the name of its service
  };
  // What gives outputs again that a worker keeps (KeptElsewhere::source).
  struct Source {
    engine::InferRequest request;
    HeldBytes bytes;
  };
  // Numbers of requests begin anywhere, so that those of an earlier process are nobody's.
  explicit HeldRequests(uint64_t first) : next_(first) {}

  uint64_t next_key() { return next_.fetch_add(1); }
  // `key`: of no other. `session`: the scheduler's that is asked for it; 0: none yet. One that was
  // cancelled while it was away ends at once.
  using Ask = absl::FunctionRef<void(uint64_t key, const Request&)>;
  void add(uint64_t key, Request request, uint64_t session, Ask ask);
  // Asks for all of a division that this session's scheduler has not been asked for.
  void ask_again(uint32_t division, uint64_t session, Ask ask);
  // The scheduler is gone: who has all outputs is answered.
  void lost(uint64_t session);

  // A worker wants items of a request, to run them.
  struct Wanted {
    std::vector<Tensor> inputs;
    std::string parameters;
    uint32_t numbers = 0, readers = 0;  // as Given has them
  };
  // Of a request, for the model that the worker runs.
  struct Items {
    uint64_t key = 0;
    uint32_t first = 0, items = 0;
    std::string model;
  };
  absl::StatusOr<Wanted> fetch(const Items& of);
  // A worker has run items. `read` reads what it says that the model gave.
  struct Given {
    const std::vector<Tensor>& inputs;  // of the request
    const std::vector<std::string>& outputs;
    const Signature& signature;
  };
  using Read = absl::FunctionRef<absl::StatusOr<std::vector<Tensor>>(const Given&)>;
  // How they ran, and when that was heard.
  struct Ran {
    uint32_t batch_items = 0;
    Duration run;
    Time now;
  };
  // False: nobody waits for them.
  bool take(const Items& of, const Ran& ran, Read read);
  // The scheduler has ended it: with what workers send, of an ensemble those base models by item,
  // or a status.
  struct Word {
    engine::ReplyPart reply;
    HeldAnswers::Subsets answered_by;
  };
  void told(uint64_t key, Word word, Time now);
  // These take out a request, which whoever calls replies to, adds again or gives to others. Until
  // it is added again or let go it is away: then a cancel is noted here. Nothing: it is none such.
  // That its scheduler has ended since inputs of it have gone with the worker that kept them.
  std::optional<Request> lose_inputs(uint64_t key);
  // A stream's, of which its scheduler has said what becomes of it.
  std::optional<Request> take_frame(uint64_t key);
  // Of one that has been replied to, or which others have now: whether it was cancelled while it
  // was away. One that was added again stays.
  bool let_go(uint64_t key);
  // Of which division it was; none: it is away, or has ended.
  std::optional<uint32_t> cancel(uint64_t key);

  // A division's that is active: its session, 0 where there is none, and when it was heard of last.
  struct Scheduler {
    uint64_t session = 0;
    Time heard;
  };

  // Of those whose deadline passed some time ago, ends all but those that a worker has fetched for
  // a scheduler which is heard of: with the outputs, where these are there. Asks again for those
  // whose outputs do not come, or that their division's scheduler has not been asked for.
  // `gave_up`: for each that has ended.
  void look(Time now, absl::Span<const Scheduler> by_division, Ask ask, Ask gave_up);
  // All of them, and all that come: the frontend stops.
  void end_all(const absl::Status& why);
  size_t size() const;

 private:
  struct Held {
    explicit Held(Request request)
        : of(std::move(request)), answers(of.admitted.items, of.ensemble) {}
    Request of;
    uint64_t session = 0;  // of the scheduler that was asked last
    uint32_t asked = 0;    // times
    bool fetched = false, again = false;
    std::optional<Word> told;  // by the scheduler: it has been answered
    Time told_at;
    HeldAnswers answers;

    // Of an ensemble it has to be known whose answers are waited for.
    bool whole() const { return told ? answers.whole(told->answered_by) : answered(); }
    // No scheduler needs to say so.
    bool answered() const { return of.ensemble == nullptr && answers.whole({}); }
    // Nor is there anybody who wants to know what it has to say, or one who can.
    bool ends_itself() const {
      return answered() && (!of.request.explain || again || session == 0);
    }
    void is_asked(uint64_t of_session);
  };
  using Some = std::vector<std::pair<uint64_t, std::shared_ptr<Held>>>;
  struct Shard {
    mutable std::mutex mutex;
    std::optional<absl::Status> over;  // why whatever comes ends at once
    std::unordered_map<uint64_t, std::shared_ptr<Held>> held;
    std::unordered_map<uint64_t, bool> away;  // by key: whether it was cancelled since

    bool let_go(uint64_t key);
  };
  Shard& shard(uint64_t key) { return shards_[key % shards_.size()]; }
  static absl::StatusOr<uint32_t> base_model(const Request& request, const std::string& model);
  // Puts them into what is held; not OK: they are nothing that a worker has to give.
  static absl::Status put(Held& held, const Items& of, std::vector<Tensor> outputs);
  static bool may_stay(const Request& request, const Items& of);
  // Those that `is_it` are away from now on.
  std::optional<Request> leave(uint64_t key, absl::FunctionRef<bool(const Request&)> is_it);
  // What has left the table.
  static void answer(Held& held);
  static void note_source(Request& request, std::vector<Tensor>& outputs);
  static void refuse(Held& held, absl::Status why, engine::Outcome outcome);

  std::atomic<uint64_t> next_;
  std::array<Shard, 16> shards_;
};

}  // namespace fermata::cluster
