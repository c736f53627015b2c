#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/document.h"
#include "engine/options.h"
#include "operators/operator.h"

namespace fermata::serve {

// As bytes, from 1 MiB on.
inline uint64_t mebibytes(Reader reader, uint64_t fallback) {
  return static_cast<uint64_t>(reader.integer(1, 1 << 24, static_cast<int64_t>(fallback >> 20)))
         << 20;
}

// One entry of `services:` in fermata.yaml; errors are recorded where they stand. Files that
// operators name are read: blocks. Other files keep the names that they have in the text. `inner`
// gets the services that it is made of and that nobody else names.
engine::ServiceOptions service_options(const std::string& name, Reader reader,
                                       operators::Resolve resolve,
                                       std::vector<engine::ServiceOptions>& inner);

// That none of the entries has a name that requests inside another service go under: those of
// stages and of members that are services. `options` are theirs.
void check_names(const std::vector<std::pair<std::string, Reader>>& services,
                 const std::vector<engine::ServiceOptions>& options);

}  // namespace fermata::serve
