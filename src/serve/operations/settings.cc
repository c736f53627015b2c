#include "serve/operations/settings.h"

#include <spdlog/spdlog.h>

#include <initializer_list>
#include <mutex>
#include <string>
#include <utility>

#include "base/status.h"

namespace fermata::serve {
namespace {

// Clients send them with every run, so one line says it.
void say_once(std::once_flag& said, const char* what, const char* where) {
  std::call_once(said, [&] {
    spdlog::warn("a client changes {} settings: they are accepted and change nothing ({})", what,
                 where);
  });
}

}  // namespace

absl::Status trace_setting(const Operations& operations,
                           const inference::TraceSettingRequest& request,
                           inference::TraceSettingResponse& response) {
  static std::once_flag said;
  if (!request.model_name().empty()) {
    inference::ModelMetadataRequest model;
    inference::ModelMetadataResponse ignored;
    model.set_name(request.model_name());
    RETURN_IF_ERROR(operations.model_metadata(model, ignored));
  }
  if (!request.settings().empty()) say_once(said, "trace", "no traces are written");
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"trace_level", "OFF"},
                                                                  {"trace_rate", "1000"},
                                                                  {"trace_count", "-1"},
                                                                  {"log_frequency", "0"},
                                                                  {"trace_file", ""},
                                                                  {"trace_mode", "triton"}}) {
    (*response.mutable_settings())[name].add_value(value);
  }
  return absl::OkStatus();
}

absl::Status log_settings(const Operations&, const inference::LogSettingsRequest& request,
                          inference::LogSettingsResponse& response) {
  static std::once_flag said;
  if (!request.settings().empty()) say_once(said, "log", "log_level in fermata.yaml does");
  auto& settings = *response.mutable_settings();
  for (const auto& [name, level] :
       std::initializer_list<std::pair<const char*, spdlog::level::level_enum>>{
           {"log_info", spdlog::level::info},
           {"log_warning", spdlog::level::warn},
           {"log_error", spdlog::level::err}}) {
    settings[name].set_bool_param(spdlog::should_log(level));
  }
  settings["log_verbose_level"].set_uint32_param(spdlog::should_log(spdlog::level::debug) ? 1 : 0);
  settings["log_file"].set_string_param("");
  settings["log_format"].set_string_param("default");
  return absl::OkStatus();
}

}  // namespace fermata::serve
