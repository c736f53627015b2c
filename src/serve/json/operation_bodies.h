#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "grpc_service.pb.h"

namespace fermata::serve {

// The JSON bodies of the operations, as the messages they stand for; names in the
// path are the caller's. An empty body is an empty object, null stands for an
// absent member, unknown members are ignored. INVALID_ARGUMENT names the path in
// the body, what stands there and what was expected. O(n log n); the limits of a
// document hold (base/document.h).
absl::StatusOr<inference::RepositoryIndexRequest> read_index_body(std::string_view body);
absl::StatusOr<inference::RepositoryModelLoadRequest> read_load_body(std::string_view body);
absl::StatusOr<inference::RepositoryModelUnloadRequest> read_unload_body(std::string_view body);
absl::StatusOr<inference::SystemSharedMemoryRegisterRequest> read_register_body(
    std::string_view body);
// Settings by name, without their values.
absl::StatusOr<inference::TraceSettingRequest> read_trace_body(std::string_view body);
absl::StatusOr<inference::LogSettingsRequest> read_log_body(std::string_view body);

}  // namespace fermata::serve
