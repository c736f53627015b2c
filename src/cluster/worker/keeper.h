#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "cluster/wire/worker_listener.h"
#include "model/tensor.h"

namespace fermata::cluster {

// What stages gave on this host and other stages are to read, wherever these run: their workers
// fetch it here. Whoever finds it gone has the stage run again. Thread-safe.
class Keeper {
 public:
  static constexpr uint64_t kMost = uint64_t{256} << 20;   // bytes at a time
  static constexpr size_t kMostTensors = size_t{1} << 16;  // small ones take more than their bytes
  // Each, where all together take more than that part of what they may: whoever was to read it may
  // have gone, and a client says how much time it has.
  static constexpr Duration kLongest = Duration::seconds(30);
  static constexpr uint64_t kLittle = 32;

  explicit Keeper(TlsFiles tls, uint64_t most = kMost);
  // As Listener::listen(). Without it nothing is kept.
  absl::Status listen(const std::string& host, uint16_t port);
  const std::string& address() const { return address_; }  // as Attach::keeps

  // A copy, until it was given `readers` times, that moment has come, or after
  // kLongest. Its key; none: there is no room.
  std::optional<uint64_t> keep(absl::Span<const std::byte> bytes, uint32_t readers, Time until);
  // NOT_FOUND: it has gone.
  absl::StatusOr<Payload> give(const Kept& what);
  // What nobody fetched in time goes: to be called now and then.
  void forget(Time now);
  uint64_t held() const;  // bytes

 private:
  struct One {
    std::shared_ptr<const std::vector<std::byte>> bytes;
    uint64_t to_give = 0;  // bytes, to all readers
    Time since, until;
  };
  void drop_late(Time now);
  void drop(uint64_t key);
  absl::Status serve(Channel& channel);

  const uint64_t most_;
  std::string address_;
  mutable std::mutex mutex_;
  uint64_t next_, held_ = 0;
  std::map<uint64_t, One> all_;  // by key
  std::set<std::pair<Time, uint64_t>> by_end_;
  WorkerListener listener_;
};

}  // namespace fermata::cluster
