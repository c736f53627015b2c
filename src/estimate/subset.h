#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace fermata::estimate {

// Some of an ensemble's base models: bit k is set where model k is one of them, in the order in
// which the ensemble names them. Vectors by subset have 2^m entries; [0] is the empty one's.
using Subset = uint32_t;

// Utilities by subset are part of documents and of every decision.
inline constexpr uint32_t kMostBaseModels = 8;

inline Subset all_models(uint32_t models) { return (Subset{1} << models) - 1; }
inline Subset only(uint32_t model) { return Subset{1} << model; }
inline bool contains(Subset subset, uint32_t model) { return ((subset >> model) & 1) != 0; }
inline uint32_t size_of(Subset subset) { return static_cast<uint32_t>(std::popcount(subset)); }

// How documents name it: "a+c", models in the ensemble's order. Of the empty one: "".
std::string name(Subset subset, absl::Span<const std::string> models);

}  // namespace fermata::estimate
