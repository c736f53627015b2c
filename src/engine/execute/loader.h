#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/catalog.h"
#include "engine/execute/child.h"
#include "engine/execute/executor.h"
#include "engine/options.h"
#include "model/model_config.h"
#include "model/repository.h"

namespace fermata::engine {

// Turns folders of the repository into variants: each file is tried in a child process,
// its configuration completed, its profile read, or measured for a moment where there
// is none for this type of worker. Thread-safe.
class Loader {
 public:
  // `executors` by type of worker; both outlive this.
  Loader(const EngineOptions& options, std::span<const std::unique_ptr<ExecutorFactory>> executors)
      : options_(options), executors_(executors) {}

  // All versions that are to be served, ascending. Blocks. Errors name the file.
  absl::StatusOr<std::vector<std::shared_ptr<const Variant>>> load(
      std::string_view model, const std::optional<std::string>& config);

  // One version, its profile left empty.
  absl::StatusOr<Variant> open(const ModelFolder& folder, int64_t version);

 private:
  absl::Status take_profiles(Variant& variant, const ModelFolder& folder);
  // Measured on workers of this type, or nothing where that is left to the first requests.
  // `common`: profile.json, if there is one.
  absl::StatusOr<std::optional<Profile>> written(const ModelFolder& folder,
                                                 const std::optional<Profile>& common,
                                                 uint32_t type) const;
  absl::StatusOr<Profile> measured(const Variant& variant, const ModelFolder& folder,
                                   uint32_t type) const;
  TrialLimits trial_limits(const Variant& variant, Duration time) const;
  uint32_t batch_limit(std::string_view model) const;
  // What the files of all its stages take and give, the width and what goes between them left out.
  absl::StatusOr<FileSignature> probe(const Variant& variant,
                                      const inference::ModelConfig& config) const;
  // The variant that first had the same files, if it is a width of a dynamic network.
  VariantId weights_for(const Variant& variant, const inference::ModelConfig& config);

  const EngineOptions& options_;
  const std::span<const std::unique_ptr<ExecutorFactory>> executors_;
  std::atomic<uint32_t> next_id_{0};
  std::mutex mutex_;
  std::map<std::string, VariantId>
      by_files_;  // of dynamic networks, by their stages' paths and times
};

}  // namespace fermata::engine
