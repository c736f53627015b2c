#include "serve/call/infer_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/document.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "model/request_limits.h"
#include "serve/call/shared_memory.h"
#include "serve/call/stream_parameters.h"

namespace fermata::serve {
namespace {

constexpr size_t kMostUnknown = 256;  // bytes of the names of unknown parameters
constexpr uint64_t kLongestTimeoutUs = 1'000'000'000'000'000;  // some thirty years

std::string shown(const ParameterValue& value) {
  return std::visit(
      [](const auto& v) {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string_view>) {
          return fmt::format("\"{}\"", v.substr(0, 80));
        } else {
          return fmt::format("{}", v);
        }
      },
      value);
}

absl::Status unexpected(std::string_view owner, std::string_view name, const ParameterValue& value,
                        std::string_view expected) {
  return invalid("{}: parameter {} is {}, expected {}", owner, name, shown(value), expected);
}

absl::Status read(std::string_view owner, std::string_view name, const ParameterValue& value,
                  uint64_t& out) {
  if (const auto* u = std::get_if<uint64_t>(&value)) {
    out = *u;
  } else if (const auto* i = std::get_if<int64_t>(&value); i != nullptr && *i >= 0) {
    out = static_cast<uint64_t>(*i);
  } else {
    return unexpected(owner, name, value, "a whole number that is not negative");
  }
  return absl::OkStatus();
}

absl::Status read(std::string_view owner, std::string_view name, const ParameterValue& value,
                  bool& out) {
  const auto* b = std::get_if<bool>(&value);
  if (b == nullptr) return unexpected(owner, name, value, "true or false");
  out = *b;
  return absl::OkStatus();
}

absl::Status read(std::string_view owner, std::string_view name, const ParameterValue& value,
                  std::string& out) {
  const auto* s = std::get_if<std::string_view>(&value);
  if (s == nullptr || s->empty()) return unexpected(owner, name, value, "a name");
  out = *s;
  return absl::OkStatus();
}

// A request's own: zero leaves the service's SLO in place, as the protocol's default does.
absl::Status set_timeout(const ParameterValue& value, engine::InferRequest& request) {
  uint64_t us = 0;
  RETURN_IF_ERROR(read("request", "timeout", value, us));
  if (us > kLongestTimeoutUs) {
    return unexpected("request", "timeout", value, "microseconds, at most 1e15");
  }
  if (us > 0) request.timeout = Duration::micros(static_cast<int64_t>(us));
  return absl::OkStatus();
}

bool asks_for_sequence(const ParameterValue& value) {
  return std::visit(
      [](const auto& v) {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string_view>) {
          return !v.empty();
        } else {
          return v != 0;
        }
      },
      value);
}

// One more field of a JSON object.
absl::Status keep_for_model(std::string_view name, const ParameterValue& value,
                            std::string& parameters) {
  const auto* const said = std::get_if<std::string_view>(&value);
  const size_t size = name.size() + (said != nullptr ? said->size() : 0);
  const auto too_long = [&] {
    return invalid("request: the model's own parameters are too long as JSON, expected at most {}",
                   kMostSaid);
  };
  if (parameters.size() + size > kMostSaid) return too_long();
  if (parameters.empty()) {
    parameters = "{";
  } else {
    parameters.back() = ',';
  }
  const auto text = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  parameters += text(std::string(name)) + ":";
  std::visit([&](const auto& v) { parameters += text(v); }, value);
  parameters += '}';
  return parameters.size() > kMostSaid ? too_long() : absl::OkStatus();
}

// Its first bytes, and no character of UTF-8 in part.
std::string_view begin_of(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

void note_unknown(std::string_view name, std::string& unknown) {
  static const std::vector<std::string_view> kKnown = {
      "timeout", "explain", "priority", "binary_data_output", "network_time", "sequence_id"};
  if (unknown.size() >= kMostUnknown) return;
  if (!unknown.empty()) unknown += ", ";
  unknown += begin_of(name, kMostUnknown / 4);
  if (const auto meant = nearest_name(name, kKnown)) {
    unknown += fmt::format(" (did you mean {}?)", *meant);
  }
}

RegionPlace& place(TensorParameters& parameters) {
  if (!parameters.shared_memory) parameters.shared_memory.emplace();
  return *parameters.shared_memory;
}

}  // namespace

bool ReplyWishes::classifies() const {
  return std::any_of(outputs.begin(), outputs.end(),
                     [](const WantedOutput& o) { return o.parameters.classification > 0; });
}

absl::Status set_id(std::string_view id, InferCall& call) {
  if (id.size() > kLongestId) {
    return invalid("the id has {} bytes, expected at most {}", id.size(), kLongestId);
  }
  call.request.id = id;
  return absl::OkStatus();
}

absl::Status set_request_parameter(std::string_view name, const ParameterValue& value,
                                   InferCall& call) {
  if (name == "timeout") return set_timeout(value, call.request);
  if (is_stream_parameter(name)) return set_stream_parameter(name, value, call.request);
  if (name == "explain") {
    RETURN_IF_ERROR(read("request", name, value, call.wishes.explain));
    call.request.explain = call.wishes.explain;
    return absl::OkStatus();
  }
  if (name == "binary_data_output") {
    return read("request", name, value, call.wishes.binary_data_output);
  }
  if (name == "triton_enable_empty_final_response") {
    return read("request", name, value, call.wishes.empty_final_response);
  }
  if (name == "priority") {
    uint64_t checked = 0;  // the order is by deadline
    return read("request", name, value, checked);
  }
  const bool is_of_sequence =
      name == "sequence_id" || name == "sequence_start" || name == "sequence_end";
  if (is_of_sequence && asks_for_sequence(value)) {
    return unimplemented("request: parameter {} is {}, but sequences are not served", name,
                         shown(value));
  }
  RETURN_IF_ERROR(keep_for_model(name, value, call.request.parameters));
  if (!is_of_sequence) note_unknown(name, call.wishes.unknown);
  return absl::OkStatus();
}

absl::Status set_tensor_parameter(std::string_view tensor, std::string_view name,
                                  const ParameterValue& value, TensorParameters& parameters) {
  if (name == "binary_data_size") {
    return read(tensor, name, value, parameters.binary_data_size.emplace());
  }
  if (name == "binary_data") return read(tensor, name, value, parameters.binary_data.emplace());
  if (name == "classification") {
    uint64_t classes = 0;
    RETURN_IF_ERROR(read(tensor, name, value, classes));
    parameters.classification = static_cast<uint32_t>(std::min<uint64_t>(classes, UINT32_MAX));
    return absl::OkStatus();
  }
  if (name == "shared_memory_region") return read(tensor, name, value, place(parameters).region);
  if (name == "shared_memory_offset") return read(tensor, name, value, place(parameters).offset);
  if (name == "shared_memory_byte_size") {
    return read(tensor, name, value, place(parameters).byte_size.emplace());
  }
  return absl::OkStatus();
}

absl::Status check_tensor_parameters(std::string_view tensor, const TensorParameters& parameters) {
  if (!parameters.shared_memory) return absl::OkStatus();
  if (parameters.shared_memory->region.empty()) {
    return invalid("{}: parameter shared_memory_region is missing beside the others", tensor);
  }
  if (!parameters.shared_memory->byte_size) {
    return invalid(
        "{}: parameter shared_memory_byte_size is missing, expected the bytes in region {}", tensor,
        parameters.shared_memory->region);
  }
  if (parameters.classification > 0) {
    return invalid("{}: a classification cannot go to shared memory", tensor);
  }
  return absl::OkStatus();
}

absl::Status add_output(std::string name, TensorParameters parameters, const SharedMemory& regions,
                        InferCall& call) {
  if (name.empty()) return invalid("an output has no name");
  RETURN_IF_ERROR(check_tensor_parameters(name, parameters));
  if (parameters.shared_memory) RETURN_IF_ERROR(regions.hold(*parameters.shared_memory));
  call.request.outputs.push_back(name);
  call.wishes.outputs.push_back({std::move(name), std::move(parameters)});
  return absl::OkStatus();
}

absl::Status check_outputs(const InferCall& call) {
  if (call.request.outputs.size() < 2) return absl::OkStatus();
  std::vector<std::string_view> names(call.request.outputs.begin(), call.request.outputs.end());
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) return invalid("output {} is asked for twice", *twice);
  return absl::OkStatus();
}

}  // namespace fermata::serve
