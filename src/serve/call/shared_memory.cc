#include "serve/call/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/status.h"

namespace fermata::serve {

// Open for as long as a region or a request under way needs it.
struct SharedObject {
  int file = -1;

  SharedObject() = default;
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;
  ~SharedObject() {
    if (file >= 0) close(file);
  }
  bool holds(uint64_t end) const {
    struct stat info;
    return fstat(file, &info) == 0 && static_cast<uint64_t>(info.st_size) >= end;
  }
  // All bytes from `offset` on, or false. `transfer` is pread or pwrite.
  template <class Byte, class Transfer>
  bool move(Transfer transfer, absl::Span<Byte> bytes, uint64_t offset) const {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t moved = transfer(file, bytes.data() + done, bytes.size() - done,
                                     static_cast<off_t>(offset + done));
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0) return false;
      done += static_cast<size_t>(moved);
    }
    return true;
  }
};

namespace {

// offset + size, or none where that overflows what a file can hold.
std::optional<uint64_t> end_of(uint64_t offset, uint64_t size) {
  uint64_t end = 0;
  if (__builtin_add_overflow(offset, size, &end) || end > INT64_MAX) return std::nullopt;
  return end;
}

absl::Status cut(const RegionPlace& place) {
  return invalid("shared memory region {} has been cut since it was registered", place.region);
}

// Memory that counts among the copies for as long as it is there.
struct CountedCopy {
  HeldBytes held;
  std::unique_ptr<std::byte[]> bytes;
};

constexpr uint64_t kCopiedAtOnce = 64 * 1024;

// Of texts only the data say how long they are.
absl::Status check_size(const Tensor& tensor, const RegionPlace& place) {
  if (tensor.datatype == DataType::kBytes) return absl::OkStatus();
  uint64_t bytes = element_size(tensor.datatype);
  bool fits = true;
  for (const int64_t dim : tensor.shape) {
    fits = fits && dim >= 0 && !__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes);
  }
  if (fits && bytes == place.byte_size) return absl::OkStatus();
  if (!fits)
    return invalid("input {}: shape {} is too large", tensor.name, to_string(tensor.shape));
  return invalid("input {}: shared_memory_byte_size is {}, but shape {} of {} needs {}",
                 tensor.name, *place.byte_size, to_string(tensor.shape), name(tensor.datatype),
                 bytes);
}

}  // namespace

SharedMemory::SharedMemory(SharedMemoryOptions options, std::shared_ptr<ByteBudget> whole)
    : options_(std::move(options)),
      copies_(std::make_shared<ByteBudget>(options_.bytes, std::move(whole))) {}

absl::Status SharedMemory::check_names(const Region& region) const {
  if (region.name.empty()) return invalid("a shared memory region has no name");
  for (const std::string& name : {region.name, region.key}) {
    if (name.find('\0') != std::string::npos) {
      return invalid("region {}: a name has a NUL in it", region.name.c_str());
    }
  }
  if (!options_.prefix) {
    return invalid(
        "region {}: no shared memory may be registered from other machines; "
        "shared_memory.prefix in the server's configuration says which objects may",
        region.name);
  }
  const std::string& prefix = *options_.prefix;
  const std::string key = region.key.starts_with('/') ? region.key : "/" + region.key;
  if (key.starts_with(prefix)) return absl::OkStatus();
  return invalid("region {}: shared memory \"{}\" may not be registered, expected \"{}...\"",
                 region.name, region.key, prefix);
}

absl::Status SharedMemory::add(Region region) {
  RETURN_IF_ERROR(check_names(region));
  if (region.byte_size == 0) return invalid("region {}: byte_size is 0", region.name);
  const auto end = end_of(region.offset, region.byte_size);
  const std::scoped_lock lock(mutex_);
  if (entries_.contains(region.name)) {
    return error(absl::StatusCode::kAlreadyExists,
                 "region {} is registered already; unregister it first", region.name);
  }
  if (entries_.size() >= options_.regions) {
    return error(absl::StatusCode::kResourceExhausted,
                 "region {}: {} regions are registered already (shared_memory.regions)",
                 region.name, entries_.size());
  }
  auto object = std::make_shared<SharedObject>();
  object->file = shm_open(region.key.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (object->file < 0) {
    return invalid("region {}: cannot open shared memory \"{}\": {}", region.name, region.key,
                   std::strerror(errno));
  }
  if (!end || !object->holds(*end)) {
    return invalid("region {}: shared memory \"{}\" is shorter than offset {} plus byte_size {}",
                   region.name, region.key, region.offset, region.byte_size);
  }
  if (region.byte_size > options_.bytes - bytes_) {
    return error(absl::StatusCode::kResourceExhausted,
                 "region {}: its {} bytes and the {} registered already are more than {} "
                 "(shared_memory.mb)",
                 region.name, region.byte_size, bytes_, options_.bytes);
  }
  bytes_ += region.byte_size;
  std::string name = region.name;
  entries_.emplace(std::move(name), Entry{std::move(region), std::move(object)});
  return absl::OkStatus();
}

void SharedMemory::remove(std::string_view name) {
  const std::scoped_lock lock(mutex_);
  if (name.empty()) {
    entries_.clear();
    bytes_ = 0;
  } else if (const auto found = entries_.find(name); found != entries_.end()) {
    bytes_ -= found->second.region.byte_size;
    entries_.erase(found);
  }
}

absl::StatusOr<std::vector<SharedMemory::Region>> SharedMemory::list(std::string_view name) const {
  const std::scoped_lock lock(mutex_);
  std::vector<Region> result;
  for (const auto& [known, entry] : entries_) {
    if (name.empty() || name == known) result.push_back(entry.region);
  }
  if (!name.empty() && result.empty()) return not_found("region {} is not registered", name);
  return result;
}

absl::Status SharedMemory::hold(RegionPlace& place) const {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(place.region);
  if (found == entries_.end()) {
    return invalid("shared memory region {} is not registered", place.region);
  }
  const auto& [region, object] = found->second;
  const uint64_t size = place.byte_size.value_or(0);
  const auto end = end_of(place.offset, size);
  if (!end || *end > region.byte_size) {
    return invalid("{} bytes from {} on are not in shared memory region {} of {} bytes", size,
                   place.offset, place.region, region.byte_size);
  }
  place.object = object;
  place.object_offset = region.offset + place.offset;
  return absl::OkStatus();
}

absl::StatusOr<RegionPlace> SharedMemory::held(const RegionPlace& place) const {
  RegionPlace held = place;
  if (held.object == nullptr) RETURN_IF_ERROR(hold(held));
  return held;
}

absl::StatusOr<Payload> SharedMemory::input(const RegionPlace& wanted) const {
  ASSIGN_OR_RETURN(const RegionPlace place, held(wanted));
  const uint64_t size = place.byte_size.value_or(0);
  if (!place.object->holds(place.object_offset + size)) return cut(place);
  auto copy = std::make_shared<CountedCopy>();
  copy->held = HeldBytes(copies_);
  if (copy->held.grow_to(size)) copy->bytes.reset(new (std::nothrow) std::byte[size]);
  if (copy->bytes == nullptr) {
    return error(
        absl::StatusCode::kResourceExhausted,
        "memory limit reached (shared_memory.mb, listen.memory_mb): no room for {} bytes of "
        "shared memory region {}; retry later",
        size, place.region);
  }
  const absl::Span<std::byte> bytes = absl::MakeSpan(copy->bytes.get(), size);
  if (!place.object->move(pread, bytes, place.object_offset)) return cut(place);
  return Payload{bytes, std::move(copy)};
}

absl::StatusOr<Payload> SharedMemory::input_of(const Tensor& tensor, const RegionPlace& wanted,
                                               InferCall& call) const {
  RETURN_IF_ERROR(check_size(tensor, wanted));
  ASSIGN_OR_RETURN(RegionPlace place, held(wanted));
  if (*place.byte_size <= kCopiedAtOnce) return input(place);
  call.distant.push_back({call.request.inputs.size(), std::move(place)});
  return Payload{};
}

absl::Status SharedMemory::fetch(InferCall& call) const {
  for (const auto& [input_at, place] : std::exchange(call.distant, {})) {
    ASSIGN_OR_RETURN(call.request.inputs[input_at].data, input(place));
  }
  return absl::OkStatus();
}

absl::Status SharedMemory::write(const RegionPlace& wanted,
                                 absl::Span<const std::byte> bytes) const {
  ASSIGN_OR_RETURN(const RegionPlace place, held(wanted));
  const uint64_t size = place.byte_size.value_or(0);
  const absl::Span<const std::byte> fitting = bytes.first(std::min<size_t>(bytes.size(), size));
  // Beyond its end a write would make the object longer again.
  if (!place.object->holds(place.object_offset + size)) return cut(place);
  if (!place.object->move(pwrite, fitting, place.object_offset)) return cut(place);
  return absl::OkStatus();
}

}  // namespace fermata::serve
