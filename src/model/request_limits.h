#pragma once

#include <cstddef>

namespace fermata {

// Of an input's shape. Shapes are told to other processes, and are keys of what is measured.
inline constexpr size_t kMostDimensions = 64;
// Of what a request says beside its inputs, in bytes: its id, parameters that are the model's own,
// and the names of outputs. It goes to other hosts with the rest of its batch, and a model's
// process takes no more.
inline constexpr size_t kMostSaid = 64 << 10;

}  // namespace fermata
