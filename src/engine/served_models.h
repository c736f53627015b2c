#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fermata::engine {

struct Variant;  // engine/catalog.h

// What is loaded of one model: its versions, ascending, all in one sub-cluster of the pool.
struct ServedModel {
  std::vector<std::shared_ptr<const Variant>> variants;
  uint32_t subcluster = 0;
};
using ServedModels = std::map<std::string, ServedModel>;  // by model

}  // namespace fermata::engine
