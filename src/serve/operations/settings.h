#pragma once

#include "absl/status/status.h"
#include "grpc_service.pb.h"
#include "serve/operations/operations.h"

namespace fermata::serve {

// Settings that Triton's clients send by habit. They are accepted and change nothing, which the log
// says once; the answer is what holds. NOT_FOUND: there is no such model.
absl::Status trace_setting(const Operations& operations,
                           const inference::TraceSettingRequest& request,
                           inference::TraceSettingResponse& response);
absl::Status log_settings(const Operations& operations,
                          const inference::LogSettingsRequest& request,
                          inference::LogSettingsResponse& response);

}  // namespace fermata::serve
