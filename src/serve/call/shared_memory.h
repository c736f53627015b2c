#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/byte_budget.h"
#include "model/tensor.h"
#include "serve/call/infer_call.h"

namespace fermata::serve {

// What clients may register.
struct SharedMemoryOptions {
  // What names of objects start with; "/" is all of them. None: no object may be registered.
  std::optional<std::string> prefix = "/";
  uint32_t regions = 256;
  uint64_t bytes = uint64_t{4} << 30;  // of all regions; and of all inputs that are copies of them
};

// The POSIX shared memory regions that clients registered (the protocol's
// system shared memory extension). Objects are read and written by system calls and never
// mapped: a client may cut one at any time, and touching what is gone would end the server.
// A region that is removed takes no new request; those under way keep the object that they hold.
// Thread-safe.
class SharedMemory {
 public:
  struct Region {
    std::string name, key;
    uint64_t offset = 0, byte_size = 0;
  };

  // Copies of inputs count against `whole` too; none: they have their own limit only.
  explicit SharedMemory(SharedMemoryOptions options = {},
                        std::shared_ptr<ByteBudget> whole = nullptr);

  // `key` is the name for shm_open. ALREADY_EXISTS; INVALID_ARGUMENT where the
  // object is missing, shorter than offset + byte_size, or has a name that is not allowed;
  // RESOURCE_EXHAUSTED where there are as many regions, or bytes, as there may be.
  absl::Status add(Region region);
  // Empty: all of them. An unknown name is no error, as clients clear before they register.
  void remove(std::string_view name);
  // Empty: all of them, by name. NOT_FOUND.
  absl::StatusOr<std::vector<Region>> list(std::string_view name) const;

  // From here on the place is in the object that its region is registered with now.
  // INVALID_ARGUMENT where there is no such region, or the place is outside it.
  absl::Status hold(RegionPlace& place) const;
  // A copy of the place, which stays as it is. One that is not held is looked up. INVALID_ARGUMENT
  // where the place is outside its region or the object has been cut since; RESOURCE_EXHAUSTED
  // where too many copies are alive.
  absl::StatusOr<Payload> input(const RegionPlace& place) const;
  // The data of `tensor`, the next input of `call`: the copy; where that takes long, no bytes yet
  // and an entry in call.distant. INVALID_ARGUMENT too where the place is not as long as the
  // tensor's shape and datatype say.
  absl::StatusOr<Payload> input_of(const Tensor& tensor, const RegionPlace& place,
                                   InferCall& call) const;
  // Copies what input_of() left. Blocks for as long as it takes. Errors as input().
  absl::Status fetch(InferCall& call) const;
  // Writes to the start of the place, which is at least as long; looked up as by input(), whose
  // errors it has.
  absl::Status write(const RegionPlace& place, absl::Span<const std::byte> bytes) const;

 private:
  struct Entry {
    Region region;
    std::shared_ptr<const SharedObject> object;
  };
  absl::Status check_names(const Region& region) const;
  absl::StatusOr<RegionPlace> held(const RegionPlace& place) const;

  const SharedMemoryOptions options_;
  const std::shared_ptr<ByteBudget> copies_;  // of inputs that are alive
  mutable std::mutex mutex_;
  uint64_t bytes_ = 0;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace fermata::serve
