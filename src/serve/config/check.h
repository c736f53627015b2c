#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/config/config.h"

namespace fermata::serve {

// What a configuration would serve, and what is wrong with it.
struct CheckReport {
  struct Model {
    std::string name;
    std::vector<std::string> versions;
    std::vector<std::string> services;  // names it is called by
  };
  std::vector<Model> models;
  std::vector<std::string> findings;  // one line each; empty: all is well
  std::vector<std::string> notes;     // settings that are read and not followed
};

// Holds a configuration against its model repository by starting the engine that `serve` would
// start, and ending it again: what one refuses the other does. No port is opened. Blocks for as
// long as the models take to load; `opening` is told which is opened, and the share that is.
CheckReport check(const Config& config,
                  std::function<void(std::string_view model, double share)> opening = {});

}  // namespace fermata::serve
