#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/random.h"
#include "load/transport.h"
#include "model/tensor.h"

namespace fermata::load {

// What the right answer is: a class or a number, or a text.
using Label = std::variant<int64_t, std::string>;

// The inputs of one request.
struct Record {
  std::vector<Tensor> inputs;
  std::optional<Label> label;
};

// JSON Lines, one record each:
//   {"inputs": [{"name", "shape", "datatype", "data"}], "label": 7}
// `label` may be missing; lines without anything are skipped. Errors name the
// line and the path in it.
absl::StatusOr<std::vector<Record>> parse_records(std::string_view text);
absl::StatusOr<std::vector<Record>> load_records(const std::string& file);

// Whether inputs are the names of arrays, for npy_records().
bool is_npy(std::string_view inputs);
// A record of one item for each row of a NumPy array: "FILE.npy" for a model with one input, else
// "INPUT=FILE.npy,INPUT=FILE.npy". INVALID_ARGUMENT where they are not what these inputs take, or
// have different numbers of rows. Reads files: blocks.
absl::StatusOr<std::vector<Record>> npy_records(std::string_view text,
                                                const std::vector<InputInfo>& inputs);

// `count` records of one item each for a model with these inputs: floats in
// [0, 1), small whole numbers, short words. INVALID_ARGUMENT where a dimension
// other than the first is variable.
absl::StatusOr<std::vector<Record>> random_records(const std::vector<InputInfo>& inputs,
                                                   size_t count, Random random);

}  // namespace fermata::load
