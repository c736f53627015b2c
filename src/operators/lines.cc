#include "operators/lines.h"

#include <fstream>

namespace fermata::operators {

std::vector<std::string> lines_of(const std::string& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> lines_of(Reader file, Resolve resolve) {
  const std::string name = file.string();
  if (file.failed()) return {};
  std::vector<std::string> lines = lines_of(resolve(name));
  if (lines.empty()) file.fail("a text file with one entry a line");
  return lines;
}

}  // namespace fermata::operators
