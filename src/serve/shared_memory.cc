#include "serve/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status.h"

namespace fermata::serve {

struct SharedMemory::Mapping {
  int file = -1;
  std::byte* start = nullptr;  // of the object, so that any offset may be asked for
  size_t length = 0;

  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (start != nullptr) munmap(start, length);
    if (file >= 0) close(file);
  }
  // A client may cut the object at any time; touching what is gone would kill us.
  bool holds(uint64_t end) const {
    struct stat info;
    return fstat(file, &info) == 0 && static_cast<uint64_t>(info.st_size) >= end;
  }
};

namespace {

// offset + size, or none where that overflows.
std::optional<uint64_t> end_of(uint64_t offset, uint64_t size) {
  uint64_t end = 0;
  if (__builtin_add_overflow(offset, size, &end)) return std::nullopt;
  return end;
}

}  // namespace

absl::Status SharedMemory::add(Region region) {
  if (region.name.empty()) return invalid("a shared memory region has no name");
  if (region.byte_size == 0) return invalid("region {}: byte_size is 0", region.name);
  const auto end = end_of(region.offset, region.byte_size);
  auto mapping = std::make_shared<Mapping>();
  mapping->file = shm_open(region.key.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (mapping->file < 0) {
    return invalid("region {}: cannot open shared memory \"{}\": {}", region.name, region.key,
                   std::strerror(errno));
  }
  if (!end || !mapping->holds(*end)) {
    return invalid("region {}: shared memory \"{}\" is shorter than offset {} plus byte_size {}",
                   region.name, region.key, region.offset, region.byte_size);
  }
  void* start = mmap(nullptr, *end, PROT_READ | PROT_WRITE, MAP_SHARED, mapping->file, 0);
  if (start == MAP_FAILED) {
    return internal("region {}: cannot map it: {}", region.name, std::strerror(errno));
  }
  mapping->start = static_cast<std::byte*>(start);
  mapping->length = *end;
  const std::scoped_lock lock(mutex_);
  std::string name = region.name;
  if (!entries_.try_emplace(name, Entry{std::move(region), std::move(mapping)}).second) {
    return error(absl::StatusCode::kAlreadyExists,
                 "region {} is registered already; unregister it first", name);
  }
  return absl::OkStatus();
}

void SharedMemory::remove(std::string_view name) {
  const std::scoped_lock lock(mutex_);
  if (name.empty()) {
    entries_.clear();
  } else if (const auto found = entries_.find(name); found != entries_.end()) {
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

absl::StatusOr<SharedMemory::Window> SharedMemory::window(const RegionPlace& place) const {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(place.region);
  if (found == entries_.end()) {
    return invalid("shared memory region {} is not registered", place.region);
  }
  const auto& [region, mapping] = found->second;
  const auto end = end_of(place.offset, place.byte_size);
  if (!end || *end > region.byte_size) {
    return invalid("{} bytes from {} on are not in shared memory region {} of {} bytes",
                   place.byte_size, place.offset, place.region, region.byte_size);
  }
  if (!mapping->holds(region.offset + *end)) {
    return invalid("shared memory region {} has been cut since it was registered", place.region);
  }
  std::byte* start = mapping->start + region.offset + place.offset;
  return Window{absl::MakeSpan(start, place.byte_size), mapping};
}

absl::StatusOr<Payload> SharedMemory::input(const RegionPlace& place) const {
  ASSIGN_OR_RETURN(const Window found, window(place));
  return Payload{found.bytes, found.owner};
}

}  // namespace fermata::serve
