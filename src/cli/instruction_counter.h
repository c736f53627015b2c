#pragma once

#include <cstdint>
#include <optional>

namespace fermata::cli {

// Counts the instructions that this thread, and threads it starts from now on,
// run in user mode, by the processor's own counter. Many virtual machines have
// none; then count() is none.
class InstructionCounter {
 public:
  InstructionCounter();
  ~InstructionCounter();
  InstructionCounter(const InstructionCounter&) = delete;
  InstructionCounter& operator=(const InstructionCounter&) = delete;
  // Since construction; threads that have ended are included.
  std::optional<uint64_t> count() const;

 private:
  int fd_;
};

}  // namespace fermata::cli
