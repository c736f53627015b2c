#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/catalog.h"
#include "engine/executor.h"
#include "engine/options.h"
#include "model/repository.h"

namespace fermata::engine {

// Turns folders of the repository into variants: each file is tried in a child process,
// its configuration completed, its profile read, or measured for a moment where there
// is none for this provider. Not for several threads at once.
class Loader {
 public:
  Loader(const EngineOptions& options, ExecutorFactory& executors)
      : options_(options), executors_(executors) {}

  // All versions that are to be served, ascending. Blocks. Errors name the file.
  absl::StatusOr<std::vector<std::shared_ptr<const Variant>>> load(
      std::string_view model, const std::optional<std::string>& config);

  // One version, its profile left empty.
  absl::StatusOr<Variant> open(const ModelFolder& folder, int64_t version);

 private:
  absl::Status take_profile(Variant& variant, const ModelFolder& folder);
  uint32_t batch_limit(std::string_view model) const;

  const EngineOptions& options_;
  ExecutorFactory& executors_;
  uint32_t next_id_ = 0;
};

}  // namespace fermata::engine
