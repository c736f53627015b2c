#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace fermata::serve {

// How much of one connection is read before others have their turn. gRPC reads a connection until
// it is told that nothing is left, and has two threads that read where there are few processors, so
// that some clients that bring small frames without end would keep others waiting for as long. So a
// read brings about as many bytes as kWork frames of the last one had, and after as many frames the
// connection seems to be empty for once: gRPC waits until the system tells it anew that there is
// more, as it tells of others that have some. Of the thread that reads.
class ReadTurn {
 public:
  static constexpr uint64_t kWork = 256;  // FrameWatch::work()
  static constexpr size_t kFirstRead = 16 << 10, kLeastRead = 4 << 10, kMostRead = 4 << 20;

  // Bytes that the next read may bring; 0: others are first, and the reader has to be told again.
  size_t next() {
    if (seems_empty_ == 0) return most_;
    --seems_empty_;
    return 0;
  }
  // A read has brought so much; `left`: bytes that are there still.
  void brought(size_t bytes, uint64_t work, size_t left) {
    if (work > 0) most_ = std::clamp<uint64_t>(kWork * bytes / work, kLeastRead, kMostRead);
    work_ += work;
    if (left <= kMarkOfEnd) {
      if (!is_unsure_) work_ = 0;
    } else if (work_ >= kWork) {
      work_ = 0;
      seems_empty_ = kReads;
      is_unsure_ = true;
    }
  }
  void found_nothing() {
    work_ = 0;
    is_unsure_ = false;
  }
  // Whether the reader may have been told already, on a read that seemed to find nothing, that the
  // connection is at its end. The system tells that once, so the reader must not wait before it has
  // found that nothing is left.
  bool is_unsure() const { return is_unsure_; }

 private:
  // After one that brought something gRPC reads again at once, and waits if that finds nothing.
  static constexpr int kReads = 2;
  static constexpr size_t kMarkOfEnd = 1;  // what the system says is left where the client closed

  size_t most_ = kFirstRead;
  uint64_t work_ = 0;  // of this turn
  int seems_empty_ = 0;
  bool is_unsure_ = false;
};

}  // namespace fermata::serve
