#pragma once

#include <cstdint>

namespace fermata::engine {

// On x86 an integer division by zero, or of the least number by -1, is a signal that ends the
// process; elsewhere it gives some number. From now on, in the library that holds the code at
// `inside`, it gives some number here too, and is counted. Anywhere else it stays a crash.
void catch_integer_divisions_of(const void* inside);

// Whether there were any since it was made: on this thread, or in the whole process.
class DivideTraps {
 public:
  explicit DivideTraps(bool whole_process);
  bool any() const { return count() != before_; }

 private:
  uint64_t count() const;
  const bool whole_process_;
  const uint64_t before_;
};

}  // namespace fermata::engine
