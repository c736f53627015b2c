#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "model/tensor.h"
#include "serve/infer_call.h"

namespace fermata::serve {

// The POSIX shared memory regions that clients registered (the protocol's
// system shared memory extension). A region that is unregistered stays mapped
// until the last payload that shares it is gone. Thread-safe.
class SharedMemory {
 public:
  struct Region {
    std::string name, key;
    uint64_t offset = 0, byte_size = 0;
  };
  struct Mapping;
  // Bytes of a region that an output is written to.
  struct Window {
    absl::Span<std::byte> bytes;
    std::shared_ptr<Mapping> owner;
  };

  // `key` is the name for shm_open. ALREADY_EXISTS, INVALID_ARGUMENT where the
  // object is missing or shorter than offset + byte_size.
  absl::Status add(Region region);
  // Empty: all of them. An unknown name is no error, as clients clear before they register.
  void remove(std::string_view name);
  // Empty: all of them, by name. NOT_FOUND.
  absl::StatusOr<std::vector<Region>> list(std::string_view name) const;

  // Zero-copy views. INVALID_ARGUMENT where the place is outside its region or
  // the object has been cut since.
  absl::StatusOr<Payload> input(const RegionPlace& place) const;
  absl::StatusOr<Window> window(const RegionPlace& place) const;

 private:
  struct Entry {
    Region region;
    std::shared_ptr<Mapping> mapping;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace fermata::serve
