#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace fermata::engine {

// What processes that run or try models see of this process's environment: what programs, libraries
// and Python are found and set by, and the variables that are named (workers.environment). Keys and
// passwords that the server was given are not for models to read.
class ModelEnvironment {
 public:
  explicit ModelEnvironment(absl::Span<const std::string> also = {});
  void set(std::string_view name, std::string_view value);
  // As exec has it; until the next set().
  char* const* get() const;

 private:
  std::vector<std::string> words_;  // NAME=value
  mutable std::vector<char*> pointers_;
};

// Letters, digits and '_', and no digit first.
bool is_variable_name(std::string_view name);

}  // namespace fermata::engine
