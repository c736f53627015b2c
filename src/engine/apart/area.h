#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/time.h"
#include "engine/apart/layout.h"
#include "engine/threads/short_wait.h"

namespace fermata::engine::apart {

// The memory that a server and a model process share, mapped; see layout.h. Movable.
class Area {
 public:
  // The server's: a new one. Pages that nobody touches take no memory.
  // `look`: for which its process may look before it sleeps.
  static absl::StatusOr<Area> make(uint32_t slots, uint64_t inputs_each, uint64_t outputs_each,
                                   Duration look = Duration());
  // The process's: what lies behind the file. INVALID_ARGUMENT where it is not of this version.
  static absl::StatusOr<Area> adopt(int fd);
  Area() = default;
  Area(Area&& other) noexcept { *this = std::move(other); }
  Area& operator=(Area&& other) noexcept;
  ~Area();

  int fd() const { return fd_; }
  uint32_t slots() const { return slots_; }
  Duration look() const { return look_; }
  uint32_t* life() const;  // the first word of the mutex
  SlotHead& slot(uint32_t k) const;
  absl::Span<std::byte> request(uint32_t k) const;
  absl::Span<std::byte> reply(uint32_t k) const;
  absl::Span<std::byte> inputs(uint32_t k) const;
  absl::Span<std::byte> outputs(uint32_t k) const;
  uint64_t offset_of(const std::byte* at) const { return static_cast<uint64_t>(at - memory_); }
  // The bytes there; empty where they do not lie within it.
  absl::Span<std::byte> at(uint64_t offset, uint64_t bytes) const;
  // Gives back what a large batch has touched of a slot's data.
  void trim(uint32_t k) const;

 private:
  absl::Status map();

  int fd_ = -1;
  std::byte* memory_ = nullptr;
  // Of the server's own making, and not read again from where a process may write.
  uint64_t size_ = 0, data_ = 0, data_each_ = 0, inputs_each_ = 0;
  uint32_t slots_ = 0;
  Duration look_;
};

// Locks the mutex of the area, for as long as the thread that calls lives.
void show_life(const Area& area);

// A word of shared memory that processes wait on, and the one beside that says that whoever waits
// looks at it.
struct Word {
  uint32_t& value;
  uint32_t& looks;
};
inline Word asked_of(SlotHead& slot) { return {slot.asked, slot.process_looks}; }
inline Word answered_of(SlotHead& slot) { return {slot.answered, slot.server_looks}; }
void tell(Word word, uint32_t value);  // and wakes who sleeps
void rouse(Word word);                 // wakes who sleeps before there is another value
// Whether it is another than that, within the time for which it is looked at.
bool look(Word word, uint32_t not_this, Duration most, ShortWait& wait);
void futex_wake(uint32_t* word);
void futex_wait(uint32_t* word, uint32_t while_it_is, Time until);
uint32_t load_word(const uint32_t* word);
void store_word(uint32_t* word, uint32_t value);

}  // namespace fermata::engine::apart
