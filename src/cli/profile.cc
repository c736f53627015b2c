#include "model/profile.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "engine/loader.h"
#include "engine/machine.h"
#include "engine/profiler.h"

namespace fermata::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  fermata profile models/digits-cnn
  fermata profile models/ocr-detect --shape x=3,640,640 --max-batch 4
  fermata profile models/digits-cnn --threads 2 --runs 500 | jq .linear_ms)";

struct Arguments {
  std::string folder;
  int64_t version = 0;  // 0: the newest that is served
  engine::WorkerOptions workers;
  engine::MeasureOptions measure;
  std::vector<std::string> shapes;
  bool keep = true;
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

uint64_t next_version(const std::filesystem::path& file) {
  const absl::StatusOr<Profile> known = read_profile(file.string());
  return known.ok() ? known->version + 1 : 1;
}

absl::StatusOr<Profile> measure_folder(const Arguments& arguments, const ModelFolder& folder) {
  engine::EngineOptions options;
  options.repository = folder.path.parent_path().string();
  options.workers = arguments.workers;
  ASSIGN_OR_RETURN(const auto executors, engine::make_executors(options.workers));
  engine::Loader loader(options, *executors);
  const int64_t version = arguments.version == 0 ? folder.versions.back() : arguments.version;
  ASSIGN_OR_RETURN(engine::Variant opened, loader.open(folder, version));
  const auto variant = std::make_shared<const engine::Variant>(std::move(opened));
  const std::unique_ptr<engine::Executor> executor = executors->make();
  const double memory_before = engine::resident_mb();
  const Time start = monotonic_now();
  RETURN_IF_ERROR(executor->load(variant));
  const double load_ms = (monotonic_now() - start).millis();
  const double memory_loaded = engine::resident_mb();
  Progress progress(fmt::format("profiling {} version {}", folder.name, version));
  ASSIGN_OR_RETURN(Profile profile,
                   engine::measure(*executor, *variant, arguments.measure,
                                   [&progress](double share) { progress.update(share); }));
  profile.version = next_version(folder.profile());
  profile.machine = engine::describe_machine();
  profile.provider = arguments.workers.provider;
  profile.threads = arguments.workers.threads;
  profile.load_ms = load_ms;
  profile.memory_mb = std::max(0.0, engine::resident_mb() - memory_before);
  profile.static_mb = std::clamp(memory_loaded - memory_before, 0.0, profile.memory_mb);
  return profile;
}

absl::Status run(Arguments arguments) {
  for (const std::string& shape : arguments.shapes) {
    RETURN_IF_ERROR(read_shape(shape, arguments.measure.shapes));
  }
  const auto path = std::filesystem::absolute(arguments.folder).lexically_normal();
  const auto model = path.has_filename() ? path : path.parent_path();
  ASSIGN_OR_RETURN(const ModelFolder folder,
                   read_model_folder(model.parent_path(), model.filename().string()));
  ASSIGN_OR_RETURN(const Profile profile, measure_folder(arguments, folder));
  if (arguments.keep) {
    RETURN_IF_ERROR(write_profile(profile, folder.profile()));
    std::cerr << "written to " << folder.profile().string() << "\n";
  }
  std::cout << to_json(profile);
  return absl::OkStatus();
}

}  // namespace

void add_profile(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "profile", "Measure a model by batch size; the server reads what this writes beside it.");
  command->footer(kExamples);
  auto arguments = std::make_shared<Arguments>();
  auto& workers = arguments->workers;
  auto& measure = arguments->measure;
  measure.runs = 200;
  command->add_option("MODEL", arguments->folder, "Folder of the model: REPOSITORY/NAME")
      ->required();
  command->add_option("--model-version", arguments->version, "Version (default: the newest)")
      ->check(CLI::PositiveNumber);
  command->add_option("--provider", workers.provider, "Execution provider: cpu, cuda, tensorrt")
      ->capture_default_str();
  command->add_option("--threads", workers.threads, "Threads of a worker")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--max-batch", measure.max_batch, "Largest batch (default: the model's)")
      ->check(CLI::PositiveNumber);
  command->add_option("--runs", measure.runs, "Runs of each batch size, at most 2 s of them")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--shape", arguments->shapes,
                      "INPUT=DIM,DIM,...: one item of an input with free dimensions");
  command->add_flag("!--no-write", arguments->keep, "Only print, write nothing");
  command->callback([arguments, &exit_code] {
    if (absl::Status done = run(*arguments); !done.ok()) {
      std::cerr << "fermata profile: " << message(done) << "\n";
      exit_code = kBadInput;
    }
  });
}

}  // namespace fermata::cli
