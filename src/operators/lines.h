#pragma once

#include <string>
#include <vector>

#include "operators/operator.h"

namespace fermata::operators {

// The lines of the text file that an option names; an error is recorded where it cannot be read
// or is empty. Blocks.
std::vector<std::string> lines_of(Reader file, Resolve resolve);
// The same of a file's name; empty where it cannot be read.
std::vector<std::string> lines_of(const std::string& file);

}  // namespace fermata::operators
