#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/config.h"

namespace fermata::serve {

// What a configuration would serve, and what is wrong with it.
struct CheckReport {
  struct Model {
    std::string name;
    std::vector<int64_t> versions;
    std::vector<std::string> services;  // names it is called by
  };
  std::vector<Model> models;
  std::vector<std::string> findings;  // one line each; empty: all is well
};

// Holds a configuration against its model repository: folders, config.pbtxt,
// versions, and that every service names a model that is there. Reads files; does
// not open the models themselves, which the server tries one by one.
CheckReport check(const Config& config);

}  // namespace fermata::serve
