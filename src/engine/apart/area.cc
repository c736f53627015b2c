#include "engine/apart/area.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace fermata::engine::apart {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint32_t kMostSlots = 4096;

uint64_t whole_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

static_assert(sizeof(pthread_mutex_t) <= sizeof(Head::life));

void make_life(Head& head) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(reinterpret_cast<pthread_mutex_t*>(head.life), &attributes);
  pthread_mutexattr_destroy(&attributes);
}

}  // namespace

Area& Area::operator=(Area&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  std::swap(data_, other.data_);
  std::swap(data_each_, other.data_each_);
  std::swap(inputs_each_, other.inputs_each_);
  std::swap(slots_, other.slots_);
  std::swap(look_, other.look_);
  return *this;
}

Area::~Area() {
  if (memory_ != nullptr) munmap(memory_, size_);
  if (fd_ >= 0) close(fd_);
}

absl::Status Area::map() {
  void* const memory =
      mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (memory == MAP_FAILED) {
    return internal("cannot map the {} MiB shared with a model process: {}", size_ >> 20,
                    strerror(errno));
  }
  memory_ = static_cast<std::byte*>(memory);
  return absl::OkStatus();
}

absl::StatusOr<Area> Area::make(uint32_t slots, uint64_t inputs_each, uint64_t outputs_each,
                                Duration look) {
  Area area;
  area.look_ = look;
  area.slots_ = slots;
  area.inputs_each_ = whole_pages(inputs_each);
  area.data_each_ = area.inputs_each_ + whole_pages(outputs_each);
  area.data_ = kSlots + slots * kSlotSize;
  area.size_ = area.data_ + slots * area.data_each_;
  area.fd_ = memfd_create("fermata-model", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (area.fd_ < 0 || ftruncate(area.fd_, static_cast<off_t>(area.size_)) != 0 ||
      fcntl(area.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return internal("cannot make {} MiB to share with a model process: {}", area.size_ >> 20,
                    strerror(errno));
  }
  RETURN_IF_ERROR(area.map());
  auto& head = *reinterpret_cast<Head*>(area.memory_);
  head = {.magic = kMagic,
          .version = kVersion,
          .slots = slots,
          .look_nanos = static_cast<uint32_t>(look.nanos()),
          .size = area.size_,
          .data = area.data_,
          .data_each = area.data_each_,
          .inputs_each = area.inputs_each_};
  make_life(head);
  return area;
}

absl::StatusOr<Area> Area::adopt(int fd) {
  struct stat about = {};
  if (fstat(fd, &about) != 0 || about.st_size < static_cast<off_t>(kSlots)) {
    return invalid("file descriptor {} is not the memory shared with a server", fd);
  }
  Area area;
  area.fd_ = fd;
  area.size_ = static_cast<uint64_t>(about.st_size);
  RETURN_IF_ERROR(area.map());
  const auto& head = *reinterpret_cast<const Head*>(area.memory_);
  if (head.magic != kMagic || head.version != kVersion || head.size != area.size_ ||
      head.slots > kMostSlots || head.inputs_each > head.data_each ||
      head.data + head.slots * head.data_each != head.size) {
    return invalid("the server speaks version {} of what model processes share, expected {}",
                   head.version, kVersion);
  }
  area.slots_ = head.slots;
  area.look_ = Duration::nanos(head.look_nanos);
  area.data_ = head.data;
  area.data_each_ = head.data_each;
  area.inputs_each_ = head.inputs_each;
  return area;
}

uint32_t* Area::life() const {
  return reinterpret_cast<uint32_t*>(reinterpret_cast<Head*>(memory_)->life);
}
SlotHead& Area::slot(uint32_t k) const {
  return *reinterpret_cast<SlotHead*>(memory_ + kSlots + k * kSlotSize);
}
absl::Span<std::byte> Area::request(uint32_t k) const {
  return {memory_ + kSlots + k * kSlotSize + kRequest, kRequestSize};
}
absl::Span<std::byte> Area::reply(uint32_t k) const {
  return {memory_ + kSlots + k * kSlotSize + kReply, kReplySize};
}
absl::Span<std::byte> Area::inputs(uint32_t k) const {
  return {memory_ + data_ + k * data_each_, inputs_each_};
}
absl::Span<std::byte> Area::outputs(uint32_t k) const {
  return {memory_ + data_ + k * data_each_ + inputs_each_, data_each_ - inputs_each_};
}
absl::Span<std::byte> Area::at(uint64_t offset, uint64_t bytes) const {
  if (offset > size_ || bytes > size_ - offset) return {};
  return {memory_ + offset, bytes};
}

void Area::trim(uint32_t k) const {
  (void)fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(data_ + k * data_each_), static_cast<off_t>(data_each_));
}

void show_life(const Area& area) {
  pthread_mutex_lock(reinterpret_cast<pthread_mutex_t*>(area.life()));
}

void futex_wake(uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void futex_wait(uint32_t* word, uint32_t while_it_is, Time until) {
  const int64_t nanos = std::max<int64_t>(until.nanos(), 0);
  const timespec at{.tv_sec = nanos / 1'000'000'000, .tv_nsec = nanos % 1'000'000'000};
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET, while_it_is, until.is_infinite() ? nullptr : &at,
          nullptr, FUTEX_BITSET_MATCH_ANY);
}

// Whoever stops to look says so before it looks once more and sleeps, so that one of both sees what
// the other has written.
void tell(Word word, uint32_t value) {
  store_word(&word.value, value);
  if (load_word(&word.looks) == 0) futex_wake(&word.value);
}

void rouse(Word word) {
  if (load_word(&word.looks) == 0) futex_wake(&word.value);
}

bool look(Word word, uint32_t not_this, Duration most, ShortWait& wait) {
  if (most <= Duration()) return false;
  store_word(&word.looks, 1);
  const bool there = wait.look(most, [&] { return load_word(&word.value) != not_this; });
  store_word(&word.looks, 0);
  return there;
}

uint32_t load_word(const uint32_t* word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }
void store_word(uint32_t* word, uint32_t value) { __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }

}  // namespace fermata::engine::apart
