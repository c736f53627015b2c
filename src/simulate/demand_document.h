#pragma once

#include <optional>
#include <vector>

#include "base/document.h"
#include "simulate/scenario.h"

namespace fermata::simulate {

// The forms of `slo_ms` that every source may have: a number, null for no deadline, or {"mix":
// [{"share", "slo_ms"}, ...]}, which goes into `demand`. The longest deadline that there is;
// infinite: there is none.
Duration read_slo(Reader value, Demand& demand);
// Whether it is one of those; others belong to one kind of source.
bool is_common_slo(Reader value);

// Of what there is of several: against the sum of theirs.
double read_share(Reader value, std::optional<double> fallback = {});

// `items` or `makes`: a number, or a map from numbers to shares. `least` 0 or 1.
std::vector<Demand::Items> read_items(Reader value, uint32_t least);

}  // namespace fermata::simulate
