#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/document.h"
#include "base/status.h"
#include "operators/operator.h"

namespace fermata::operators {

// The operator that this YAML says; files that it names lie where tests write.
inline absl::StatusOr<std::shared_ptr<const Operator>> try_make(const std::string& text) {
  auto document = Document::parse(text, Document::Format::kYaml);
  if (!document.ok()) return document.status();
  return document->read([](Reader reader) {
    ObjectReader fields = reader.object();
    const std::string name = fields["operator"].string();
    const auto resolve = [](const std::string& file) { return testing::TempDir() + file; };
    return read_operator(name, fields, resolve);
  });
}

inline std::shared_ptr<const Operator> make(const std::string& text) {
  auto made = try_make(text);
  EXPECT_TRUE(made.ok()) << made.status();
  return *made;
}

inline std::vector<float> floats_of(const Tensor& tensor) {
  std::vector<float> values(tensor.data.bytes.size() / sizeof(float));
  if (!values.empty()) {
    std::memcpy(values.data(), tensor.data.bytes.data(), tensor.data.bytes.size());
  }
  return values;
}

}  // namespace fermata::operators
