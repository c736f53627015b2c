#pragma once

#include <set>
#include <string>

namespace fermata::engine {

// The inputs and outputs of an ONNX file's graph whose type has no shape: they may have any rank,
// where ONNX Runtime's interface shows a scalar. Empty where the file is none. Reads over weights.
std::set<std::string> tensors_without_shape(const std::string& file);

}  // namespace fermata::engine
