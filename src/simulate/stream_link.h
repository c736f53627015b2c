#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace fermata::simulate {

// A link that carries one frame after the other, at the bandwidth of the moment.
class Link {
 public:
  Link(const std::vector<double>& mbps, double hold_s, double start_s)
      : mbps_(mbps), hold_s_(hold_s), start_s_(start_s) {}

  double mbps(double at_s) const {
    const auto step = static_cast<size_t>((start_s_ + at_s) / hold_s_);
    return std::max(mbps_[step % mbps_.size()], 1e-3);
  }
  // When the last byte of what is sent now has left.
  double send(double bytes, double now_s) {
    double at = std::max(now_s, free_at_s_), megabits = bytes * 8e-6;
    while (true) {
      const double end = (std::floor((start_s_ + at) / hold_s_ + 1e-9) + 1) * hold_s_ - start_s_;
      const double rate = mbps(at + 1e-9), fits = rate * (end - at);
      if (fits >= megabits) return free_at_s_ = at + megabits / rate;
      megabits -= fits;
      at = end;
    }
  }

 private:
  const std::vector<double>& mbps_;
  double hold_s_, start_s_, free_at_s_ = 0;
};

}  // namespace fermata::simulate
