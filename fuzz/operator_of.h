#pragma once

#include <memory>
#include <string>

#include "base/check.h"
#include "base/document.h"
#include "operators/operator.h"

namespace fermata {

// The operator that a stage is, by what a configuration says of it.
inline std::shared_ptr<const operators::Operator> operator_of(const std::string& yaml) {
  auto document = Document::parse(yaml, Document::Format::kYaml);
  FERMATA_CHECK(document.ok());
  auto made = document->read([](Reader reader) {
    ObjectReader fields = reader.object();
    const std::string name = fields["operator"].string();
    return operators::read_operator(name, fields, [](const std::string& file) { return file; });
  });
  FERMATA_CHECK(made.ok());
  return *made;
}

}  // namespace fermata
