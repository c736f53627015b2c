#pragma once

#include <condition_variable>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "base/time.h"
#include "engine/catalog.h"

namespace fermata::engine {

// The memory of each worker of one sub-cluster, all of which hold the same variants:
// static parts add up, of the dynamic parts the largest counts, since a worker runs one
// batch at a time (Symphony, equation 6). Thread-safe.
class Room {
 public:
  explicit Room(double limit_mb) : limit_mb_(limit_mb) {}

  // Where it does not fit yet but will when what is leaving has gone, waits for that, at
  // most `patience`. False: there is no room, or it is in the room already.
  bool take(VariantId id, Memory memory, Duration patience);
  void leaving(VariantId id);  // will leave once what runs has ended
  void left(VariantId id);
  void close();  // no take() succeeds or waits any more

  double limit_mb() const { return limit_mb_; }
  double used_mb() const;

 private:
  struct Tenant {
    Memory memory;
    bool leaving = false;
  };
  // With `memory` beside those that are there, or those of them that stay.
  double sum(Memory memory, bool staying_only) const;
  bool fits(VariantId id, Memory memory, bool staying_only) const;

  const double limit_mb_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  absl::flat_hash_map<VariantId, Tenant> tenants_;
};

}  // namespace fermata::engine
