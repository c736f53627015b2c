#pragma once

#include <functional>
#include <string>

namespace fermata::simulated {

// What a function says in a process of its own, which ends with it: a simulation of which nothing
// is left. A line of its own says how it ended where it did not return.
class Apart {
 public:
  explicit Apart(const std::function<std::string()>& work);
  std::string wait();  // once; blocks

 private:
  int child_ = 0, pipe_ = -1;
};

}  // namespace fermata::simulated
