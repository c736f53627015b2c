#pragma once

#include <cstddef>

namespace fermata {

// Of a client's tensor. Shapes are told to other processes, and are keys of what is measured.
inline constexpr size_t kMostDimensions = 64;

}  // namespace fermata
