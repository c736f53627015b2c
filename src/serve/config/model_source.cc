#include "serve/config/model_source.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <memory>

#include "base/status.h"
#include "model/repository.h"
#include "store/mirror.h"

namespace fermata::serve {

absl::Status bring_models(Config& config) {
  const std::string place = config.engine.repository;
  if (!store::is_s3_url(place)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const store::S3Url url, store::parse_s3_url(place));
  const std::filesystem::path folder = config.models_mirror.empty()
                                           ? store::default_mirror(place)
                                           : std::filesystem::path(config.models_mirror);
  auto mirror = std::make_shared<store::Mirror>(
      store::make_s3_store(url, store::S3Access::from_environment()), url.prefix, folder);
  config.engine.repository = folder.string();
  config.engine.refresh = [mirror](std::string_view model) { return mirror->refresh(model); };
  spdlog::info("bringing models from {} to {}", place, folder.string());
  const absl::Status brought = mirror->refresh("");
  if (brought.ok()) return brought;
  const auto there = model_names(folder);
  if (brought.code() != absl::StatusCode::kUnavailable || !there.ok() || there->empty()) {
    return brought;
  }
  spdlog::warn("{}; serving the {} models that an earlier run brought to {}", message(brought),
               there->size(), folder.string());
  return absl::OkStatus();
}

}  // namespace fermata::serve
