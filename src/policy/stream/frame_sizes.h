#pragma once

#include <cstdint>
#include <vector>

namespace fermata::policy {

// How large one client's frames are on the wire, as they came; its own only, so that nobody's
// frames change what is believed of others'. Sizes are in 1000 bytes.
class FrameSizes {
 public:
  // Of an input size (pixels a side). O(sizes).
  void measure(uint32_t input_size, uint64_t bytes);
  bool known() const { return !sizes_.empty(); }
  // As measured, or as the area tells from the nearest size; 0 where nothing is known. O(sizes).
  double kb(uint32_t input_size) const;
  // Of the size that came last; only where something is known.
  uint32_t last() const { return last_; }

 private:
  struct Size {
    uint32_t input_size = 0;
    double kb = 0;
  };
  std::vector<Size> sizes_;
  uint32_t last_ = 0;
};

}  // namespace fermata::policy
