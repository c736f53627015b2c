#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/tensor.h"

namespace fermata::engine {

// How far one answer is from another that should be the same.
struct RowDistance {
  std::string output;
  double part = 0;  // of its largest number; infinite where that says nothing
  std::string how;  // for people: "differs by 3.1 % of its largest value"
};

// The outputs of one item, and those of the same item in another batch: the first output that is
// further away than float arithmetic explains, or nothing. `same_place`: the batches have one size,
// and the item one place in them, so that the same sums are made in the same order. Whole numbers
// and texts are to be equal; what is no number in both is. O(elements).
std::optional<RowDistance> row_distance(const std::vector<Tensor>& expected,
                                        const std::vector<Tensor>& seen, bool same_place);

}  // namespace fermata::engine
