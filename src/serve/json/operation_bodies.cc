#include "serve/json/operation_bodies.h"

#include <cstdint>
#include <string>

#include "base/document.h"
#include "base/status.h"

namespace fermata::serve {
namespace {

using inference::RepositoryIndexRequest, inference::RepositoryModelLoadRequest,
    inference::RepositoryModelUnloadRequest, inference::SystemSharedMemoryRegisterRequest;

template <class Message>
absl::StatusOr<Message> read_operation(std::string_view body, Message (*read)(Reader)) {
  ASSIGN_OR_RETURN(Document document,
                   Document::parse(body.empty() ? "{}" : body, Document::Format::kJson));
  return document.read(read);
}

RepositoryIndexRequest index_request(Reader root) {
  RepositoryIndexRequest request;
  for (const auto& [name, value] : root.map()) {
    if (name == "ready" && !value.is_null()) request.set_ready(value.boolean());
  }
  return request;
}

void set_parameter(Reader from, inference::ModelRepositoryParameter& to) {
  if (from.is_string()) {
    to.set_string_param(from.string());
  } else if (from.is_number()) {
    to.set_int64_param(from.integer(INT64_MIN, INT64_MAX));
  } else if (from.is_list() || from.is_object()) {
    from.fail("text, a whole number, true or false");
  } else {
    to.set_bool_param(from.boolean());
  }
}

// Of a load or an unload: {"parameters": {...}}.
template <class Message>
Message repository_request(Reader root) {
  Message request;
  for (const auto& [name, value] : root.map()) {
    if (name != "parameters" || value.is_null()) continue;
    for (const auto& [key, parameter] : value.map()) {
      if (!parameter.is_null()) set_parameter(parameter, (*request.mutable_parameters())[key]);
    }
  }
  return request;
}

// Whatever is to be set; null, which takes a setting back, sets nothing.
template <class Message>
Message settings_request(Reader root) {
  Message request;
  for (const auto& [name, value] : root.map()) {
    if (!value.is_null()) (*request.mutable_settings())[name];
  }
  return request;
}

SystemSharedMemoryRegisterRequest register_request(Reader root) {
  SystemSharedMemoryRegisterRequest request;
  for (const auto& [name, value] : root.map()) {
    if (value.is_null()) continue;
    if (name == "key") request.set_key(value.string());
    if (name == "offset") request.set_offset(static_cast<uint64_t>(value.integer(0, INT64_MAX)));
    if (name == "byte_size") {
      request.set_byte_size(static_cast<uint64_t>(value.integer(1, INT64_MAX)));
    }
  }
  return request;
}

}  // namespace

absl::StatusOr<RepositoryIndexRequest> read_index_body(std::string_view body) {
  return read_operation(body, index_request);
}

absl::StatusOr<RepositoryModelLoadRequest> read_load_body(std::string_view body) {
  return read_operation(body, repository_request<RepositoryModelLoadRequest>);
}

absl::StatusOr<RepositoryModelUnloadRequest> read_unload_body(std::string_view body) {
  return read_operation(body, repository_request<RepositoryModelUnloadRequest>);
}

absl::StatusOr<inference::TraceSettingRequest> read_trace_body(std::string_view body) {
  return read_operation(body, settings_request<inference::TraceSettingRequest>);
}

absl::StatusOr<inference::LogSettingsRequest> read_log_body(std::string_view body) {
  return read_operation(body, settings_request<inference::LogSettingsRequest>);
}

absl::StatusOr<SystemSharedMemoryRegisterRequest> read_register_body(std::string_view body) {
  ASSIGN_OR_RETURN(auto request, read_operation(body, register_request));
  if (request.key().empty()) return invalid("$.key: missing, expected a non-empty string");
  if (request.byte_size() == 0) return invalid("$.byte_size: missing, expected bytes");
  return request;
}

}  // namespace fermata::serve
