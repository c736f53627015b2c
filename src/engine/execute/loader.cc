#include "engine/execute/loader.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "base/status.h"
#include "engine/execute/first_runs.h"
#include "engine/execute/machine.h"
#include "engine/execute/probe.h"
#include "model/dynamic_network.h"
#include "model/model_config.h"
#include "model/model_files.h"
#include "model/unserved.h"

namespace fermata::engine {
namespace {

constexpr Duration kProbeLimit = Duration::seconds(60);
constexpr Duration kFirstRunsLimit = Duration::seconds(120);
// What a model may take when it is tried: libraries, weights as they are read, prepared and copied,
// and what its largest batches have between their layers.
constexpr double kTrialMemoryMb = 4096, kTrialMemoryOfFiles = 8;

// What an emulated model would have in its file.
FileSignature declared_signature(const inference::ModelConfig& config) {
  FileSignature file;
  const auto declare = [&config](const auto& tensor) {
    Shape shape(tensor.dims().begin(), tensor.dims().end());
    if (tensor.has_reshape()) {
      shape.assign(tensor.reshape().shape().begin(), tensor.reshape().shape().end());
    }
    if (config.max_batch_size() > 0) shape.insert(shape.begin(), -1);
    const DataType type = from_proto(tensor.data_type()).value_or(DataType::kFp32);
    return FileTensor{tensor.name(), type, shape, std::vector<std::string>(shape.size())};
  };
  for (const auto& input : config.input()) file.inputs.push_back(declare(input));
  for (const auto& output : config.output()) file.outputs.push_back(declare(output));
  return file;
}

double size_mb(const std::filesystem::path& folder) {
  double bytes = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored)) bytes += static_cast<double>(entry.file_size(ignored));
  }
  return bytes / (1 << 20);
}

// A library needs the weights, wherever the profile was measured.
Memory memory_of(const Variant& variant) {
  Memory most{size_mb(std::filesystem::path(variant.file).parent_path()), 0};
  double all = 0;
  const auto add = [&](const Profile& profile) {
    most.static_mb = std::max(most.static_mb, profile.static_mb);
    all = std::max(all, profile.memory_mb);
  };
  add(variant.profile);
  for (const Profile& profile : variant.profile_by_type) add(profile);
  most.dynamic_mb = std::max(0.0, all - most.static_mb);
  return most;
}

absl::StatusOr<std::optional<Profile>> read_if_there(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  RETURN_IF_ERROR(check_not_pointer(file));
  return read_profile(file);
}

absl::Status in_file(const ModelFolder& folder, const absl::Status& status) {
  return invalid("{}: {}", (folder.path / "config.pbtxt").string(), message(status));
}

}  // namespace

uint32_t Loader::batch_limit(std::string_view model) const {
  uint32_t limit = std::numeric_limits<int32_t>::max();
  for (const ServiceOptions& service : options_.services) {
    const std::string& served = service.model_name();
    if (served == model && service.max_batch) limit = std::min(limit, *service.max_batch);
  }
  return limit;
}

TrialLimits Loader::trial_limits(const Variant& variant, Duration time) const {
  if (options_.workers.trial_memory_mb) return {time, *options_.workers.trial_memory_mb};
  const double files_mb = size_mb(std::filesystem::path(variant.file).parent_path());
  return {time, std::min(machine_mb(), kTrialMemoryMb + kTrialMemoryOfFiles * files_mb)};
}

absl::StatusOr<FileSignature> Loader::probe(const Variant& variant,
                                            const inference::ModelConfig& config) const {
  ASSIGN_OR_RETURN(const auto network, dynamic_network(config));
  if (!network)
    return probe_model(options_.probe_program, variant.file, trial_limits(variant, kProbeLimit));
  std::vector<FileSignature> stages;
  for (const std::filesystem::path& file : stage_files(variant.file)) {
    ASSIGN_OR_RETURN(FileSignature stage, probe_model(options_.probe_program, file.string(),
                                                      trial_limits(variant, kProbeLimit)));
    stages.push_back(std::move(stage));
  }
  absl::StatusOr<FileSignature> face = face_of_stages(*network, stages);
  if (!face.ok()) return invalid("{}: {}", variant.file, message(face.status()));
  return face;
}

VariantId Loader::weights_for(const Variant& variant, const inference::ModelConfig& config) {
  if (const auto network = dynamic_network(config); !network.ok() || !*network) return variant.id;
  std::string files;
  for (const std::filesystem::path& file : stage_files(variant.file)) {
    std::error_code ignored;
    const auto written = std::filesystem::last_write_time(file, ignored).time_since_epoch().count();
    files += fmt::format("{}\n{}\n", file.string(), written);
  }
  const std::lock_guard lock(mutex_);
  return by_files_.emplace(std::move(files), variant.id).first->second;
}

absl::StatusOr<Variant> Loader::open(const ModelFolder& folder, int64_t version) {
  Variant variant;
  if (absl::Status known = check_kind(folder.config, folder.name); !known.ok()) {
    return in_file(folder, known);
  }
  variant.id = VariantId(next_id_++);
  variant.model = folder.name;
  variant.version = std::to_string(version);
  variant.file = folder.file(version).string();
  const auto network = dynamic_network(folder.config);
  if (!network.ok()) return in_file(folder, network.status());
  const bool dynamic = network->has_value();
  variant.weights = weights_for(variant, folder.config);
  std::error_code ignored;
  FileSignature file;
  if (std::filesystem::is_regular_file(variant.file, ignored)) {
    ASSIGN_OR_RETURN(file, probe(variant, folder.config));
  } else if (options_.workers.executor == ExecutorKind::kEmulated &&
             folder.config.output_size() > 0) {
    file = declared_signature(folder.config);
  } else {
    return invalid("{}: no such file", variant.file);
  }
  auto config = complete_model_config(folder.config, file, folder.name, options_.default_max_batch);
  if (!config.ok()) return in_file(folder, config.status());
  variant.config = *std::move(config);
  if (variant.config.max_batch_size() > 0) {
    const auto limit = static_cast<int32_t>(batch_limit(folder.name));
    variant.config.set_max_batch_size(std::min(variant.config.max_batch_size(), limit));
  }
  variant.notes = unserved_settings(folder.config, options_.workers.types.front().provider);
  for (const std::string& note : variant.notes) {
    spdlog::warn("model '{}': {}", folder.name, note);
  }
  for (auto& input : *variant.config.mutable_input()) input.set_optional(false);
  variant.signature = signature_of(variant.config);
  if (dynamic && !variant.signature.batches) {
    return in_file(folder, invalid("max_batch_size is 0: a dynamic network has to batch"));
  }
  auto labels = read_labels(folder);
  if (!labels.ok()) return in_file(folder, labels.status());
  variant.labels = *std::move(labels);
  return variant;
}

absl::StatusOr<std::optional<Profile>> Loader::written(const ModelFolder& folder,
                                                       const std::optional<Profile>& common,
                                                       uint32_t type) const {
  const WorkerType& worker = options_.workers.types[type];
  const bool emulated = options_.workers.executor != ExecutorKind::kOnnxRuntime;
  const auto fits = [&](const Profile& profile, const std::filesystem::path& file) {
    if (emulated || (profile.provider == worker.provider && profile.threads == worker.threads)) {
      return true;
    }
    spdlog::info("{}: measured with provider {} and {} threads, so it is measured again",
                 file.string(), profile.provider, profile.threads);
    return false;
  };
  ASSIGN_OR_RETURN(std::optional<Profile> own, read_if_there(folder.profile_on(worker.name)));
  if (own && fits(*own, folder.profile_on(worker.name))) return own;
  const std::filesystem::path by_threads = folder.profile_with(worker.threads);
  ASSIGN_OR_RETURN(own, read_if_there(by_threads));
  if (own && fits(*own, by_threads)) return own;
  if (common && fits(*common, folder.profile())) return common;
  return std::nullopt;
}

absl::StatusOr<Profile> Loader::measured(const Variant& variant, const ModelFolder& folder,
                                         uint32_t type) const {
  const WorkerType& worker = options_.workers.types[type];
  const bool emulated = options_.workers.executor == ExecutorKind::kEmulated;
  absl::StatusOr<Profile> profile =
      emulated ? make_first_runs(*executors_[type], variant)
               : make_first_runs_apart(options_.probe_program, variant, worker,
                                       trial_limits(variant, kFirstRunsLimit));
  if (profile.status().code() == absl::StatusCode::kFailedPrecondition) {
    spdlog::warn(
        "model '{}' has no profile and cannot be measured with zeros ({}); its first "
        "requests will teach it. Try: fermata profile {} --shape INPUT=DIMS",
        variant.model, message(profile.status()), folder.path.string());
    return Profile{};
  }
  RETURN_IF_ERROR(profile.status());
  profile->provider = worker.provider;
  profile->threads = worker.threads;
  return profile;
}

// How often it is right does not depend on the worker: profile.json says it for all types.
absl::Status Loader::take_profiles(Variant& variant, const ModelFolder& folder) {
  ASSIGN_OR_RETURN(const std::optional<Profile> common, read_if_there(folder.profile()));
  std::vector<Profile> profiles;
  for (uint32_t type = 0; type < options_.workers.types.size(); ++type) {
    ASSIGN_OR_RETURN(std::optional<Profile> profile, written(folder, common, type));
    if (!profile) {
      ASSIGN_OR_RETURN(profile, measured(variant, folder, type));
    }
    profile->answers = common ? common->answers : AnswerProfile{};
    profiles.push_back(*std::move(profile));
  }
  variant.profile = profiles.front();
  if (profiles.size() > 1) variant.profile_by_type = std::move(profiles);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::shared_ptr<const Variant>>> Loader::load(
    std::string_view model, const std::optional<std::string>& config) {
  ASSIGN_OR_RETURN(const ModelFolder folder, read_model_folder(options_.repository, model, config));
  std::vector<std::shared_ptr<const Variant>> variants;
  for (int64_t version : folder.versions) {
    ASSIGN_OR_RETURN(Variant variant, open(folder, version));
    RETURN_IF_ERROR(take_profiles(variant, folder));
    variant.memory = memory_of(variant);
    variants.push_back(std::make_shared<const Variant>(std::move(variant)));
  }
  return variants;
}

}  // namespace fermata::engine
