#pragma once

#include <cmath>
#include <cstddef>

#include "base/check.h"
#include "base/document.h"

namespace fermata {

// Looks at every value of a document, and counts them.
inline size_t walk(Reader value) {
  size_t n = 1;
  if (value.is_list()) {
    for (Reader item : value.list()) n += walk(item);
  } else if (value.is_object()) {
    for (const auto& [name, item] : value.map()) n += walk(item);
  } else if (value.is_number()) {
    FERMATA_CHECK(std::isfinite(value.number()));
  }
  return n;
}

}  // namespace fermata
