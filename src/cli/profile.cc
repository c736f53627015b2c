#include "model/profile.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/clock.h"
#include "base/document.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/labelled_data.h"
#include "cli/progress.h"
#include "engine/apart/apart_executor.h"
#include "engine/confine/machine.h"
#include "engine/execute/evaluate.h"
#include "engine/trial/loader.h"
#include "engine/trial/profiler.h"

namespace fermata::cli {
namespace {

constexpr const char* kProfileExamples = R"(Examples:
  fermata profile zoo/repository/digits-cnn-large
  fermata profile zoo/repository/ocr-detection --shape x=3,640,640 --max-batch 4    # after make fetch
  fermata profile zoo/repository/digits-cnn-large --threads 2 --runs 500 | jq .linear_ms
  fermata profile zoo/repository/digits-cnn-large --threads 4 --worker-type wide
  fermata profile zoo/repository/digits-cnn-large --threads 1,2,4
  fermata profile zoo/repository/handwriting-small --data zoo/data/handwriting/calibration-features.npy \
    --labels zoo/data/handwriting/calibration-labels.npy
  fermata profile zoo/repository/digits-cnn-large --data zoo/data/digits-test.jsonl --output label)";

struct ProfileArguments {
  std::string folder;
  int64_t version = 0;  // 0: the newest that is served
  engine::WorkerType worker;
  std::vector<uint32_t> threads = {1};
  engine::MeasureOptions measure;
  std::vector<std::string> shapes;
  bool keep = true;
  LabelledFiles labelled;
  engine::EvaluateOptions evaluation;
};

// "x=3,640,640"
absl::Status read_shape(std::string_view text, std::map<std::string, Shape>& shapes) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return invalid("--shape is '{}', expected INPUT=DIM,DIM,... such as x=3,640,640", text);
  }
  Shape& shape = shapes[std::string(text.substr(0, equals))];
  const char* at = text.data() + equals + 1;
  const char* const end = text.data() + text.size();
  while (true) {
    int64_t dim = 0;
    const auto [after, error] = std::from_chars(at, end, dim);
    if (error != std::errc() || dim < 1 || (after != end && *after != ',')) {
      return invalid("--shape is '{}', expected positive numbers with commas after '='", text);
    }
    shape.push_back(dim);
    if (after == end) return absl::OkStatus();
    at = after + 1;
  }
}

// A measurement without labelled data keeps what an earlier one of the same version knew.
void succeed(const std::optional<Profile>& earlier, Profile& profile) {
  profile.version = earlier ? earlier->version + 1 : 1;
  if (!earlier || earlier->model_version != profile.model_version) return;
  if (!profile.answers.accuracy && earlier->answers.accuracy) {
    std::cerr << fmt::format("the accuracy stays that of profile version {}: no --data is given\n",
                             earlier->version);
    profile.answers = earlier->answers;
  }
}

void tell_unknown_recalls(const AnswerProfile& answers) {
  for (size_t c = 0; c < answers.recall.size(); ++c) {
    if (answers.recall[c]) continue;
    std::cerr << fmt::format("class {} has no example: its recall stays unknown\n", c);
  }
}

// Nothing is known where no data is given.
absl::StatusOr<AnswerProfile> measure_answers(engine::Executor& executor,
                                              const engine::Variant& variant,
                                              engine::LabelledRequests data,
                                              const ProfileArguments& arguments) {
  if (arguments.labelled.data.empty()) return AnswerProfile{};
  Progress progress(fmt::format("answering {} examples", data.labels.size()));
  absl::StatusOr<Confusion> confusion =
      engine::evaluate(executor, variant, std::move(data), arguments.evaluation,
                       [&progress](double share) { progress.update(share); });
  if (!confusion.ok()) {
    return invalid("{}: {}", arguments.labelled.data.front(), message(confusion.status()));
  }
  return answers_of(*std::move(confusion));
}

// First what the data may spoil, then what takes long.
absl::StatusOr<Profile> measure_variant(const ProfileArguments& arguments,
                                        engine::ExecutorFactory& executors,
                                        std::shared_ptr<const engine::Variant> variant) {
  engine::LabelledRequests data;
  if (!arguments.labelled.data.empty()) {
    ASSIGN_OR_RETURN(data, read_labelled(arguments.labelled, variant->signature));
  }
  const std::shared_ptr<engine::Executor> executor = executors.make();
  const double memory_before = executor->memory_mb();
  const Time start = monotonic_now();
  RETURN_IF_ERROR(executor->load(variant));
  const double load_ms = (monotonic_now() - start).millis();
  const double memory_loaded = executor->memory_mb();
  ASSIGN_OR_RETURN(AnswerProfile answers,
                   measure_answers(*executor, *variant, std::move(data), arguments));
  Progress progress(fmt::format("profiling {} version {}", variant->model, variant->version));
  ASSIGN_OR_RETURN(Profile profile,
                   engine::measure(*executor, *variant, arguments.measure,
                                   [&progress](double share) { progress.update(share); }));
  profile.load_ms = load_ms;
  profile.memory_mb = std::max(0.0, executor->memory_mb() - memory_before);
  profile.static_mb = std::clamp(memory_loaded - memory_before, 0.0, profile.memory_mb);
  profile.answers = std::move(answers);
  return profile;
}

absl::StatusOr<Profile> measure_folder(const ProfileArguments& arguments,
                                       const ModelFolder& folder) {
  engine::EngineOptions options;
  options.repository = folder.path.parent_path().string();
  options.workers.types = {arguments.worker};
  std::vector<std::unique_ptr<engine::ExecutorFactory>> executors(1);
  options.workers.isolation =
      is_python(folder.config) ? engine::Isolation::kProcess : engine::Isolation::kThread;
  ASSIGN_OR_RETURN(executors[0], engine::make_workers(options.workers));
  engine::Loader loader(options, executors);
  const int64_t version = arguments.version == 0 ? folder.versions.back() : arguments.version;
  ASSIGN_OR_RETURN(engine::Variant opened, loader.open(folder, version));
  ASSIGN_OR_RETURN(Profile profile,
                   measure_variant(arguments, *executors[0],
                                   std::make_shared<const engine::Variant>(std::move(opened))));
  profile.machine = engine::describe_machine();
  profile.provider = arguments.worker.provider;
  profile.threads = arguments.worker.threads;
  return profile;
}

// Measures, keeps what an earlier measurement knew, and writes it if it is to.
absl::StatusOr<Profile> measure_into(const ProfileArguments& arguments, const ModelFolder& folder,
                                     const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(Profile profile, measure_folder(arguments, folder));
  const absl::StatusOr<Profile> earlier = read_profile(file);
  succeed(earlier.ok() ? std::optional(*earlier) : std::nullopt, profile);
  tell_unknown_recalls(profile.answers);
  if (!arguments.keep) return profile;
  RETURN_IF_ERROR(write_profile(profile, file));
  std::cerr << "written to " << file.string() << "\n";
  return profile;
}

// Those that the machine has processors for, each into a profile of its own.
absl::Status measure_by_threads(ProfileArguments arguments, const ModelFolder& folder) {
  if (!arguments.labelled.data.empty() || !arguments.worker.name.empty()) {
    return invalid("--threads names several numbers, expected one with --data or --worker-type");
  }
  const auto processors = static_cast<uint32_t>(engine::own_processors().size());
  Json all = Json::object();
  for (const uint32_t threads : std::set(arguments.threads.begin(), arguments.threads.end())) {
    if (threads > processors) {
      std::cerr << fmt::format("{} threads are left out: there are {} processors\n", threads,
                               processors);
      continue;
    }
    arguments.worker.threads = threads;
    ASSIGN_OR_RETURN(const Profile profile,
                     measure_into(arguments, folder, folder.profile_with(threads)));
    all[std::to_string(threads)] = Json::parse(to_json(profile));
  }
  if (all.empty()) return invalid("--threads has no number up to {}", processors);
  std::cout << write_json(all);
  return absl::OkStatus();
}

absl::Status run_profile(ProfileArguments arguments) {
  for (const std::string& shape : arguments.shapes) {
    RETURN_IF_ERROR(read_shape(shape, arguments.measure.shapes));
  }
  const auto path = std::filesystem::absolute(arguments.folder).lexically_normal();
  const auto model = path.has_filename() ? path : path.parent_path();
  ASSIGN_OR_RETURN(const ModelFolder folder,
                   read_model_folder(model.parent_path(), model.filename().string()));
  if (arguments.labelled.data.empty() && !arguments.labelled.labels.empty()) {
    return invalid("--labels is given without --data, the inputs that they are the classes of");
  }
  if (arguments.threads.size() > 1) return measure_by_threads(std::move(arguments), folder);
  arguments.worker.threads = arguments.threads.front();
  ASSIGN_OR_RETURN(
      const Profile profile,
      measure_into(arguments, folder,
                   arguments.worker.name.empty() ? folder.profile()
                                                 : folder.profile_on(arguments.worker.name)));
  std::cout << to_json(profile);
  return absl::OkStatus();
}

}  // namespace

void add_profile(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "profile", "Measure a model by batch size and write profile.json, which the server reads.");
  command->footer(kProfileExamples);
  auto arguments = std::make_shared<ProfileArguments>();
  auto& worker = arguments->worker;
  auto& measure = arguments->measure;
  measure.runs = 200;
  command->add_option("MODEL", arguments->folder, "Folder of the model: REPOSITORY/NAME")
      ->required();
  command->add_option("--model-version", arguments->version, "Version (default: the newest)")
      ->check(CLI::PositiveNumber);
  command->add_option("--provider", worker.provider, "Execution provider: cpu, cuda, tensorrt")
      ->capture_default_str();
  command
      ->add_option("--threads", arguments->threads,
                   "Threads of a worker; several, 1,2,4, write profile.threads-N.json each")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--openvino", worker.openvino,
                      "OpenVINO's library, or a folder with it, for its models");
  worker.name.clear();
  command
      ->add_option("--worker-type", worker.name,
                   "Worker type of this profile: writes profile.TYPE.json")
      ->check([](const std::string& name) {
        return engine::is_worker_type_name(name) ? "" : "letters, digits, '-' and '_' expected";
      });
  command->add_option("--max-batch", measure.max_batch, "Largest batch (default: the model's)")
      ->check(CLI::PositiveNumber);
  command->add_option("--runs", measure.runs, "Runs of each batch size, at most 2 s of them")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--shape", arguments->shapes,
                      "INPUT=DIM,DIM,...: one item of an input with free dimensions");
  command->add_option(
      "--data", arguments->labelled.data,
      "[INPUT=]FILE.npy with an example per row, or FILE.jsonl: measures accuracy too");
  command->add_option("--labels", arguments->labelled.labels,
                      "FILE.npy: the class of each example");
  command->add_option("--output", arguments->evaluation.output,
                      "Output that names the class (default: the first)");
  command
      ->add_option("--classes", arguments->evaluation.classes,
                   "Number of classes (default: by the output and the labels)")
      ->check(CLI::Range(1, static_cast<int>(Confusion::kMostClasses)));
  command->add_flag("!--no-write", arguments->keep, "Only print, write nothing");
  command->callback([arguments, &exit_code] {
    if (absl::Status done = run_profile(*arguments); !done.ok()) {
      std::cerr << "fermata profile: " << message(done) << "\n";
      exit_code = kBadInput;
    }
  });
}

}  // namespace fermata::cli
