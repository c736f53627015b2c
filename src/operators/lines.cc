#include "operators/lines.h"

#include <fstream>

namespace fermata::operators {

std::vector<std::string> lines_of(Reader file, Resolve resolve) {
  std::vector<std::string> lines;
  const std::string name = file.string();
  if (file.failed()) return lines;
  std::ifstream in(resolve(name));
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(std::move(line));
  }
  if (lines.empty()) file.fail("a text file with one entry a line");
  return lines;
}

}  // namespace fermata::operators
