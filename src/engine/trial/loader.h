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
#include "engine/confine/child.h"
#include "engine/execute/executor.h"
#include "engine/options.h"
#include "engine/trial/trial.h"
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

  // From now on models are tried and measured with what processors' time is left beside others.
  void be_quiet() { quietly_ = true; }

  // One version, its profile left empty.
  absl::StatusOr<Variant> open(const ModelFolder& folder, int64_t version);

 private:
  // The profiles that lie beside a model, by type of worker, and what there is for all types.
  struct Profiles {
    std::optional<Profile> common;
    std::vector<std::optional<Profile>> by_type;
    // The first type of which there is none; the first of all where there are all.
    uint32_t type_to_try() const;
  };
  absl::StatusOr<Profiles> written(const ModelFolder& folder) const;
  absl::StatusOr<Variant> open(const ModelFolder& folder, int64_t version, Profiles& profiles,
                               bool measure);
  absl::StatusOr<Variant> opened(const ModelFolder& folder, int64_t version);
  absl::Status take_profiles(Variant& variant, const ModelFolder& folder, Profiles profiles);
  // Measured on workers of this type, or nothing where that is left to the first requests.
  // `common`: profile.json, if there is one.
  absl::StatusOr<std::optional<Profile>> written(const ModelFolder& folder,
                                                 const std::optional<Profile>& common,
                                                 uint32_t type) const;
  // One with code of its own, which says what its configuration leaves open.
  absl::StatusOr<Variant> open_python(const ModelFolder& folder, int64_t version, uint32_t type);
  void finish(Variant& variant, const ModelFolder& folder, const FileSignature& face) const;
  absl::StatusOr<Profile> measure(const Variant& variant, const ModelFolder& folder,
                                  uint32_t type) const;
  // Empty where the trial could not measure.
  Profile measured(const Variant& variant, const ModelFolder& folder, uint32_t type,
                   const Trial& trial) const;
  TrialOptions trial_of(const Variant& variant, const inference::ModelConfig& config,
                        uint32_t type) const;
  TrialLimits trial_limits(const Variant& variant, Duration time) const;
  absl::StatusOr<Trial> try_apart(const Variant& variant, const TrialOptions& asked) const;
  uint32_t batch_limit(std::string_view model) const;
  // The variant that first had the same files, if it is a width of a dynamic network.
  VariantId weights_for(const Variant& variant, const inference::ModelConfig& config);

  const EngineOptions& options_;
  const std::span<const std::unique_ptr<ExecutorFactory>> executors_;
  std::atomic<uint32_t> next_id_{0};
  std::atomic<bool> quietly_{false};
  std::mutex mutex_;
  std::map<std::string, VariantId>
      by_files_;  // of dynamic networks, by their stages' paths and times
};

}  // namespace fermata::engine
