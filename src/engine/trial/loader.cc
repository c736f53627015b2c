#include "engine/trial/loader.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "engine/confine/machine.h"
#include "engine/execute/backend.h"
#include "engine/trial/first_runs.h"
#include "model/dynamic_network.h"
#include "model/model_config.h"
#include "model/model_files.h"
#include "model/unserved.h"

namespace fermata::engine {
namespace {

constexpr Duration kTrialLimit = Duration::seconds(120);
// What an emulated model would have in its file.
absl::StatusOr<FileSignature> declared_signature(const inference::ModelConfig& config) {
  FileSignature file;
  const auto untyped = [](const auto& tensor) { return !from_proto(tensor.data_type()); };
  if (absl::c_any_of(config.input(), untyped) || absl::c_any_of(config.output(), untyped)) {
    return invalid("a tensor has no data_type, and there is no model file that has it");
  }
  const auto declare = [&config](const auto& tensor) {
    Shape shape(tensor.dims().begin(), tensor.dims().end());
    if (tensor.has_reshape()) {
      shape.assign(tensor.reshape().shape().begin(), tensor.reshape().shape().end());
    }
    if (config.max_batch_size() > 0) shape.insert(shape.begin(), -1);
    return FileTensor{tensor.name(), *from_proto(tensor.data_type()), shape,
                      std::vector<std::string>(shape.size())};
  };
  for (const auto& input : config.input()) file.inputs.push_back(declare(input));
  for (const auto& output : config.output()) file.outputs.push_back(declare(output));
  return file;
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

// Whether what the trial has shown goes with what the configuration says; and what is to be told.
absl::Status judge_rows(const inference::ModelConfig& written, const RowTrial& rows,
                        std::vector<std::string>& notes) {
  const bool says = written.has_max_batch_size();
  switch (rows.verdict) {
    case RowTrial::Verdict::kNotAsked:
    case RowTrial::Verdict::kApart:
      return absl::OkStatus();
    case RowTrial::Verdict::kTogether:
      if (says) {
        return invalid(
            "max_batch_size is {}, but the model's rows depend on each other: {}; expected 0",
            written.max_batch_size(), rows.seen);
      }
      notes.push_back(
          fmt::format("it does not batch, since its rows depend on each other: {}", rows.seen));
      return absl::OkStatus();
    case RowTrial::Verdict::kSlightly:
      notes.push_back(fmt::format("{}, since its rows depend slightly on each other: {}{}",
                                  says ? "batches change its answers" : "it does not batch",
                                  rows.seen, says ? "" : "; max_batch_size lets it batch"));
      return absl::OkStatus();
    case RowTrial::Verdict::kUntried:
      notes.push_back(
          fmt::format("{}, since it could not be tried whether its rows depend on each other: {}{}",
                      says ? "it batches as max_batch_size says" : "it does not batch", rows.seen,
                      says ? "" : "; max_batch_size lets it batch"));
  }
  return absl::OkStatus();
}

void tell_notes(const Variant& variant) {
  for (const std::string& note : variant.notes) {
    spdlog::warn("model '{}': {}", variant.model, note);
  }
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

absl::StatusOr<Trial> Loader::try_apart(const Variant& variant, const TrialOptions& asked) const {
  return try_model(options_.probe_program, asked, trial_limits(variant, kTrialLimit),
                   options_.workers.nursery.get());
}

TrialLimits Loader::trial_limits(const Variant& variant, Duration time) const {
  const std::optional<double> own = options_.workers.trial_memory_mb;
  const std::filesystem::path folder = std::filesystem::path(variant.file).parent_path();
  return {time, own ? *own : usual_limit_mb(folder), quietly_};
}

TrialOptions Loader::trial_of(const Variant& variant, const inference::ModelConfig& config,
                              uint32_t type) const {
  return {
      .file = variant.file,
      .model = variant.model,
      .version = variant.version,
      .config = config,
      .default_max_batch = options_.default_max_batch,
      .max_batch = batch_limit(variant.model),
      .worker = options_.workers.types[type].remote ? WorkerType{} : options_.workers.types[type]};
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

// Its names and files, with the configuration as written.
absl::StatusOr<Variant> Loader::opened(const ModelFolder& folder, int64_t version) {
  Variant variant;
  variant.id = VariantId(next_id_++);
  variant.model = folder.name;
  variant.version = std::to_string(version);
  variant.file = folder.file(version).string();
  const auto network = dynamic_network(folder.config);
  if (!network.ok()) return folder.in_config(network.status());
  variant.weights = weights_for(variant, folder.config);
  auto labels = read_labels(folder);
  if (!labels.ok()) return folder.in_config(labels.status());
  variant.labels = *std::move(labels);
  return variant;
}

absl::StatusOr<Variant> Loader::open(const ModelFolder& folder, int64_t version) {
  ASSIGN_OR_RETURN(Profiles profiles, written(folder));
  return open(folder, version, profiles, false);
}

absl::StatusOr<Variant> Loader::open_python(const ModelFolder& folder, int64_t version,
                                            uint32_t type) {
  ASSIGN_OR_RETURN(Variant variant, opened(folder, version));
  variant.config = folder.config;
  if (options_.workers.executor != ExecutorKind::kEmulated) {
    RETURN_IF_ERROR(check_model_file(variant.file));
    const auto command =
        backend_of(variant.config).command(variant, options_.workers.types[type], options_.workers);
    RETURN_IF_ERROR(folder.in_config(command.status()));
    ASSIGN_OR_RETURN(variant.config, executors_[type]->complete(variant));
  }
  auto config = complete_python_config(variant.config, folder.name);
  if (!config.ok()) return folder.in_config(config.status());
  variant.config = *std::move(config);
  finish(variant, folder, {});
  tell_notes(variant);
  return variant;
}

// Of a complete configuration.
void Loader::finish(Variant& variant, const ModelFolder& folder, const FileSignature& face) const {
  lower_max_batch(variant.config, batch_limit(folder.name));
  variant.signature = signature_of(variant.config, face);
  variant.notes =
      unserved_settings(folder.config, variant.signature, options_.workers.types.front().provider);
}

absl::StatusOr<Variant> Loader::open(const ModelFolder& folder, int64_t version, Profiles& profiles,
                                     bool measure) {
  if (is_python(folder.config)) return open_python(folder, version, profiles.type_to_try());
  ASSIGN_OR_RETURN(Variant variant, opened(folder, version));
  const bool emulated = options_.workers.executor == ExecutorKind::kEmulated;
  std::error_code ignored;
  Trial trial;
  if (emulated && folder.config.output_size() > 0 &&
      !std::filesystem::exists(variant.file, ignored)) {
    auto declared = declared_signature(folder.config);
    if (!declared.ok()) return folder.in_config(declared.status());
    trial.face = *std::move(declared);
  } else {
    RETURN_IF_ERROR(check_model_file(variant.file));
    const uint32_t type = profiles.type_to_try();
    TrialOptions asked = trial_of(variant, folder.config, type);
    asked.run = !emulated;
    asked.measure = measure && !emulated && !profiles.by_type[type];
    if (profiles.common) asked.shapes = profiles.common->shapes;
    ASSIGN_OR_RETURN(trial, try_apart(variant, asked));
    if (asked.measure) profiles.by_type[type] = measured(variant, folder, type, trial);
  }
  auto config = complete_model_config(tried_config(folder.config, trial.rows), trial.face,
                                      folder.name, options_.default_max_batch);
  if (!config.ok()) return folder.in_config(config.status());
  variant.config = *std::move(config);
  finish(variant, folder, trial.face);
  variant.tried = trial.rows.ran;
  if (absl::Status apart = judge_rows(folder.config, trial.rows, variant.notes); !apart.ok()) {
    return folder.in_config(apart);
  }
  if (const std::string why = why_not_batching(folder.config, trial.face); !why.empty()) {
    variant.notes.push_back(fmt::format("it does not batch, since {}", why));
  }
  if (!variant.signature.batches && dynamic_network(folder.config)->has_value()) {
    return folder.in_config(invalid("max_batch_size is 0: a dynamic network has to batch"));
  }
  tell_notes(variant);
  return variant;
}

uint32_t Loader::Profiles::type_to_try() const {
  for (uint32_t type = 0; type < by_type.size(); ++type) {
    if (!by_type[type]) return type;
  }
  return 0;
}

absl::StatusOr<Loader::Profiles> Loader::written(const ModelFolder& folder) const {
  Profiles profiles;
  ASSIGN_OR_RETURN(profiles.common, read_if_there(folder.profile()));
  for (uint32_t type = 0; type < options_.workers.types.size(); ++type) {
    ASSIGN_OR_RETURN(profiles.by_type.emplace_back(), written(folder, profiles.common, type));
  }
  return profiles;
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
  if (worker.remote) return Profile{};  // its host says when it comes
  return std::nullopt;
}

Profile Loader::measured(const Variant& variant, const ModelFolder& folder, uint32_t type,
                         const Trial& trial) const {
  if (!trial.profile) {
    if (!trial.unmeasured.empty()) {
      spdlog::warn(
          "model '{}' has no profile and cannot be measured with zeros ({}); its first "
          "requests will teach it. Try: fermata profile {} --shape INPUT=DIMS",
          variant.model, trial.unmeasured, folder.path.string());
    }
    return {};
  }
  Profile profile = *trial.profile;
  profile.provider = options_.workers.types[type].provider;
  profile.threads = options_.workers.types[type].threads;
  return profile;
}

absl::StatusOr<Profile> Loader::measure(const Variant& variant, const ModelFolder& folder,
                                        uint32_t type) const {
  Trial trial;
  if (options_.workers.executor == ExecutorKind::kEmulated || is_python(variant.config)) {
    absl::StatusOr<Profile> profile = make_first_runs(*executors_[type], variant);
    if (profile.ok()) {
      trial.profile = *std::move(profile);
    } else if (absl::IsFailedPrecondition(profile.status())) {
      trial.unmeasured = message(profile.status());
    } else {
      return profile.status();
    }
  } else {
    TrialOptions asked = trial_of(variant, variant.config, type);
    asked.measure = true;
    ASSIGN_OR_RETURN(trial, try_apart(variant, asked));
  }
  return measured(variant, folder, type, trial);
}

// How often it is right does not depend on the worker: profile.json says it for all types.
absl::Status Loader::take_profiles(Variant& variant, const ModelFolder& folder, Profiles profiles) {
  std::vector<Profile> taken;
  for (uint32_t type = 0; type < profiles.by_type.size(); ++type) {
    std::optional<Profile>& profile = profiles.by_type[type];
    if (!profile) {
      ASSIGN_OR_RETURN(profile, measure(variant, folder, type));
    }
    profile->answers = profiles.common ? profiles.common->answers : AnswerProfile{};
    taken.push_back(*std::move(profile));
  }
  variant.profile = taken.front();
  if (taken.size() > 1) variant.profile_by_type = std::move(taken);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::shared_ptr<const Variant>>> Loader::load(
    std::string_view model, const std::optional<std::string>& config) {
  ASSIGN_OR_RETURN(const ModelFolder folder, read_model_folder(options_.repository, model, config));
  std::vector<std::shared_ptr<const Variant>> variants;
  for (int64_t version : folder.versions) {
    ASSIGN_OR_RETURN(Profiles profiles, written(folder));
    ASSIGN_OR_RETURN(Variant variant, open(folder, version, profiles, true));
    RETURN_IF_ERROR(take_profiles(variant, folder, std::move(profiles)));
    variant.memory = memory_of(variant);
    variants.push_back(std::make_shared<const Variant>(std::move(variant)));
  }
  return variants;
}

}  // namespace fermata::engine
