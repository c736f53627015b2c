#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fermata::serve {

// How much of one connection is read before others have their turn. gRPC reads a connection until
// it is told that nothing is left, and has two threads that read where there are few processors, so
// that some clients that bring small frames without end would keep others waiting for as long. So a
// read brings about as many bytes as a turn's frames of the last one had, and after as many frames
// the connection seems to be empty for once: gRPC waits until the system tells it anew that there
// is more, as it tells of others that have some. The more connections wait so, the shorter turns
// are. Of the thread that reads.
class ReadTurn {
 public:
  // FrameWatch::work() of a turn; of one where many others wait.
  static constexpr uint64_t kWork = 256, kLeastWork = 64;
  static constexpr uint32_t kFew = 8;  // that wait, for turns of kWork
  // Of bytes: of the first read after nothing was left, what follows may be of another kind; and
  // how many times as much the next may bring.
  static constexpr size_t kFirstRead = 4 << 10, kLeastRead = 256, kMostRead = 4 << 20, kGrowth = 4;

  // Bytes that the next read may bring; 0: others are first, and the reader has to be told again.
  size_t next() {
    if (seems_empty_ == 0) return most_;
    --seems_empty_;
    return 0;
  }
  // A read has brought so much; `left`: bytes that are there still.
  void brought(size_t bytes, uint64_t work, size_t left) {
    const uint64_t turn = work_of_turn();
    const uint64_t most = std::min(kMostRead, kGrowth * most_);
    most_ = work > 0 ? std::clamp<uint64_t>(turn * bytes / work, kLeastRead, most) : most;
    work_ += work;
    if (left <= kMarkOfEnd) {
      if (!is_unsure_) work_ = 0;
      most_ = std::min(most_, kFirstRead);
      wait(false);
    } else if (work_ >= turn) {
      work_ = 0;
      seems_empty_ = kReads;
      is_unsure_ = true;
      wait(true);
    }
  }
  void found_nothing() {
    work_ = 0;
    is_unsure_ = false;
    most_ = std::min(most_, kFirstRead);
    wait(false);
  }
  // It is not read for a while: others need not wait for it, nor it for them.
  void pause() {
    seems_empty_ = 0;
    wait(false);
  }
  // The connection is no more; from here on it is another.
  void end() {
    wait(false);
    *this = {};
  }
  // Whether the reader may have been told already, on a read that seemed to find nothing, that the
  // connection is at its end. The system tells that once, so the reader must not wait before it has
  // found that nothing is left.
  bool is_unsure() const { return is_unsure_; }

 private:
  // How many have had a turn and have more.
  static inline std::atomic<uint32_t> waiting{0};
  static uint64_t work_of_turn() {
    const uint32_t others = waiting.load(std::memory_order_relaxed);
    return others <= kFew ? kWork : std::max(kLeastWork, kWork * kFew / others);
  }
  void wait(bool waits) {
    if (waits == waits_) return;
    waits_ = waits;
    waits ? ++waiting : --waiting;
  }

  // After one that brought something gRPC reads again at once, and waits if that finds nothing.
  static constexpr int kReads = 2;
  static constexpr size_t kMarkOfEnd = 1;  // what the system says is left where the client closed

  size_t most_ = kFirstRead;
  uint64_t work_ = 0;  // of this turn
  int seems_empty_ = 0;
  bool is_unsure_ = false;
  bool waits_ = false;
};

}  // namespace fermata::serve
