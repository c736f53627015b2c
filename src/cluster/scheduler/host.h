#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/wire/channel.h"
#include "cluster/wire/clock_offset.h"
#include "cluster/wire/link_delay.h"
#include "engine/catalog.h"
#include "engine/snapshot.h"

namespace fermata::cluster {

class RemoteExecutor;

// Another host whose workers take part, from its Hello to its end: its connections live and end
// together. Thread-safe.
class Host : public std::enable_shared_from_this<Host> {
 public:
  using Slots = std::vector<std::shared_ptr<RemoteExecutor>>;
  Host(std::string name, std::string address, uint64_t session, Duration silence, Slots slots);

  // A connection for loads, or of a slot; true with the last of them. INVALID_ARGUMENT where it is
  // one too many.
  absl::StatusOr<bool> attach(const Attach& attach, std::shared_ptr<Channel> channel);
  // Loads what its workers need, then they serve. Blocks.
  void join();
  // Beats until its end. Blocks.
  void beat(const std::shared_ptr<Channel>& channel);
  // Beats at once, and says when it was last heard of.
  Time ask();
  // Blocks. What it has measured, if anything.
  absl::StatusOr<Profile> load(const engine::Variant& variant, uint32_t slot);

  // Its workers are gone, and its connections. The first call tells why: `cause` as
  // HostStatistics::ends_by has them.
  void end(std::string_view cause, std::string_view why);
  // A connection has ended, and so it does: "died", unless that host may have left since it did not
  // hear of this scheduler, which may have stood still.
  void lost(std::string_view why);
  std::string cause() const;  // empty: it is there

  void ended_batch() { ++batches_; }
  void crossed(Duration took, uint64_t bytes);  // of one whose inputs and outputs all came
  void lost_batch() { ++lost_; }
  engine::LinkBound bound() const;
  const std::string& name() const { return name_; }
  uint64_t session() const { return session_; }
  uint32_t slots() const { return static_cast<uint32_t>(slots_.size()); }
  engine::HostStatistics statistics() const;  // of this session

 private:
  bool is_whole() const;
  bool idle() const;

  const std::string name_, address_;
  const uint64_t session_;
  const Duration silence_;
  const Slots slots_;
  std::mutex loading_;
  std::atomic<uint64_t> batches_{0}, lost_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Channel> control_, loads_;
  std::vector<std::shared_ptr<Channel>> channels_;  // by slot
  size_t attached_ = 0;
  bool joined_ = false, asked_ = false;
  Time heard_;
  std::string cause_;
  const Time began_ = monotonic_now();
  Time reached_ = began_;  // it has heard what was sent then
  LinkDelay link_;
  ClockOffset clock_;
};

}  // namespace fermata::cluster
