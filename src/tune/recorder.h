#pragma once

#include <concurrentqueue.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/histogram.h"
#include "base/time.h"
#include "engine/observer.h"
#include "tune/recorder_options.h"
#include "tune/recording.h"
#include "tune/rows.h"

namespace fermata::tune {

// What answered the requests of a service since it was last asked.
struct Answers {
  Histogram latency;
  std::map<std::pair<VariantId, uint32_t>, uint64_t> by;  // a model, or a subset of an ensemble
  std::map<std::string, uint64_t> by_name;                // the same, once they are named
  double accuracy = 0;                                    // sum over `judged` answers
  uint64_t judged = 0;
};

// Keeps what the engine did lately, in a bounded memory. Events go through a lock-free queue that
// never grows, and are lost and counted where it is full; a thread of the lowest priority but one
// takes them out. Nothing here is slower for a larger recording but copy(). Thread-safe.
class Recorder : public engine::Observer {
 public:
  explicit Recorder(RecorderOptions options);
  ~Recorder() override;

  const RecorderOptions& options() const { return options_; }
  // Takes in what has been observed so far; else that happens within a twentieth of a second.
  void collect();
  // What began within the last `most` before `now`. O(what it returns).
  Recording copy(Duration most, Time now) const;
  // What was answered since the last call, by service.
  std::map<std::string, Answers> take_answers();

  // For someone who shows what happens: batches that were bound or ended, loads and deaths,
  // since the last call, at most kMostChanges; and requests that wait for a batch, the first to be
  // late first, at most `most_waiting`.
  struct Changes {
    std::vector<RecordedBatch> batches;
    std::vector<std::vector<RecordedRequest>> requests;  // of each batch, at most kMostShown
    std::vector<RecordedRequest> waiting;
    std::vector<RecordedLoad> loads;
    std::vector<RecordedDeath> deaths;
    uint64_t left_out = 0;  // batches
  };
  static constexpr size_t kMostChanges = 512, kMostShown = 32;
  void watch(bool on);  // changes are kept while somebody watches
  Changes take_changes(size_t most_waiting);
  // The last batches, and what waits, for someone who begins to look. Takes nothing.
  Changes latest(size_t most_batches, size_t most_waiting) const;

  std::string service_name(uint32_t number) const;
  std::string model_name(VariantId id) const;
  uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }
  double memory_mb() const;  // that is taken

  // Of engine::Observer.
  uint32_t service(std::string_view name) override;
  void model(VariantId id, std::string_view name) override;
  void came(const Came& event) override;
  void bound(const Bound& event) override;
  void ended(const BatchEnded& event) override;
  void ended(const Ended& event) override;
  void ran(const OperatorRan& event) override;
  void loaded(const Loaded& event) override;
  void died(const Died& event) override;

 private:
  struct CameEvent {
    Came event;  // without its text
    ShortText client_id;
  };
  static constexpr size_t kFirstMembers = 2, kMembersAtOnce = 6;
  struct BoundEvent {
    Bound event;                                // without its members
    std::array<Member, kFirstMembers> first{};  // the first ones, or none(); more follow
  };
  struct Members {
    uint64_t batch = 0;
    std::array<Member, kMembersAtOnce> members;
    uint32_t count = 0;
  };
  using Event = std::variant<std::monostate, CameEvent, BoundEvent, Members, BatchEnded, Ended,
                             OperatorRan, Loaded, RecordedDeath>;

  size_t room_of_queue() const;  // events
  void put(const Event& event);
  void run();
  // The rest is under the lock.
  void collect_locked();
  bool take(const Event& event);  // false: what it is about is not there (yet)
  void take_coming(const CameEvent& event);
  void take_bound(const BoundEvent& event);
  bool take_end(const Ended& event);
  void forget_the_old(Time now);
  void forget_batch();
  void add_to(Changes& changes, const RecordedBatch& batch) const;
  void add_waiting(Changes& changes, size_t most) const;
  size_t bytes() const;
  void changed(uint64_t batch);
  void joined(RecordedBatch& batch, const Member& member);

  // What a thread may put in before the next collect(): its index does not grow in try_enqueue().
  struct QueueTraits : moodycamel::ConcurrentQueueDefaultTraits {
    static const size_t BLOCK_SIZE = 64;
    static const size_t IMPLICIT_INITIAL_INDEX_SIZE = 1024;  // blocks
  };

  const RecorderOptions options_;
  moodycamel::ConcurrentQueue<Event, QueueTraits> queue_;
  std::atomic<uint64_t> lost_{0};

  mutable std::mutex mutex_;
  std::vector<Event> taken_, early_;  // early_: events that overtook what they are about
  std::array<std::vector<uint32_t>, std::variant_size_v<Event>> by_kind_;  // of taken_
  std::vector<std::string> services_;
  absl::flat_hash_map<std::string, uint32_t> numbers_;
  absl::flat_hash_map<VariantId, std::string> models_;
  Rows<RecordedRequest> requests_;
  Rows<RecordedBatch> batches_;
  std::deque<RecordedOperator> operators_;
  std::deque<RecordedLoad> loads_;
  std::deque<RecordedDeath> deaths_;
  size_t members_ = 0;            // of all batches
  std::vector<Answers> answers_;  // by service
  bool watched_ = false;
  std::vector<uint64_t> changed_;  // batches
  std::vector<RecordedLoad> new_loads_;
  std::vector<RecordedDeath> new_deaths_;
  uint64_t left_out_ = 0;

  std::condition_variable stopping_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace fermata::tune
