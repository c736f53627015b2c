#include "load/agreement.h"

#include <string_view>

#include "model/answer.h"
#include "model/tensor_values.h"

namespace fermata::load {
namespace {

std::optional<std::string_view> text(const Payload& data) {
  size_t at = 0;
  const auto first = next_string(data.bytes, at);
  if (!first) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(first->data()), first->size());
}

}  // namespace

std::optional<bool> agrees(const Label& label, const std::vector<Tensor>& outputs) {
  if (outputs.empty()) return std::nullopt;
  if (const auto* expected = std::get_if<std::string>(&label)) {
    if (outputs[0].datatype != DataType::kBytes) return std::nullopt;
    const auto said = text(outputs[0].data);
    if (!said) return std::nullopt;
    return *said == *expected;
  }
  const auto said = answered_class(outputs[0]);
  if (!said) return std::nullopt;
  return *said == std::get<int64_t>(label);
}

}  // namespace fermata::load
