#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/document.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/labelled_data.h"
#include "cli/progress.h"
#include "engine/composite/ensemble_history.h"
#include "estimate/difficulty_document.h"
#include "model/npy.h"

namespace fermata::cli {
namespace {

constexpr const char* kDifficultyExamples = R"(Examples:
  fermata difficulty fit zoo/data/digits-test.jsonl --repository zoo/repository \
    --models digits-linear,digits-mlp,digits-cnn-small --out digits-difficulty
  fermata difficulty fit zoo/data/scans/history-features.npy --labels zoo/data/scans/history-labels.npy \
    --repository zoo/repository --models scans-dense,scans-recurrent,scans-convolutional \
    --output probabilities --out scans-difficulty | jq .utility
  fermata difficulty fit zoo/data/scans/history-features.npy --labels zoo/data/scans/history-labels.npy \
    --repository zoo/repository --models scans-dense,scans-glance,scans-recurrent,scans-convolutional \
    --output probabilities --aggregation stacking --meta scans-stacking --meta-output probabilities \
    --out scans-stacked
  fermata difficulty fit zoo/data/count/history-features.npy --repository zoo/repository \
    --models count-rows,count-recurrent,count-convolutional --output value --task regression \
    --within 0.5 --out count-difficulty)";

constexpr size_t kMostRows = 31;  // of subsets in the table for people

struct DifficultyArguments {
  LabelledFiles files;
  std::string folder, task = "classification", aggregation = "average";
  std::vector<std::string> outputs;  // "OUTPUT" or "MODEL=OUTPUT"
  engine::EnsembleSpec spec{.name = "ensemble"};
  engine::EngineOptions engine;
  estimate::DifficultyOptions options;
};

absl::Status read_outputs(const DifficultyArguments& arguments, engine::EnsembleSpec& spec) {
  spec.outputs.assign(spec.models.size(), "");
  for (const std::string& text : arguments.outputs) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      for (std::string& output : spec.outputs) output = output.empty() ? text : output;
      continue;
    }
    const auto model = std::find(spec.models.begin(), spec.models.end(), text.substr(0, equals));
    if (model == spec.models.end()) {
      return invalid("--output is '{}', but '{}' is none of --models", text,
                     text.substr(0, equals));
    }
    spec.outputs[static_cast<size_t>(model - spec.models.begin())] = text.substr(equals + 1);
  }
  return absl::OkStatus();
}

absl::StatusOr<engine::EnsembleSpec> ensemble_of(const DifficultyArguments& arguments) {
  engine::EnsembleSpec spec = arguments.spec;
  spec.aggregator.prediction = *estimate::parse_prediction(arguments.task);
  spec.aggregator.aggregation = *estimate::parse_aggregation(arguments.aggregation);
  RETURN_IF_ERROR(read_outputs(arguments, spec));
  return spec;
}

// The files that hold inputs of one model; one without a name is for all.
LabelledFiles files_for(const LabelledFiles& files, const Signature& signature) {
  LabelledFiles some{.labels = files.labels};
  for (const std::string& text : files.data) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || signature.input(text.substr(0, equals)) != nullptr) {
      some.data.push_back(text);
    }
  }
  return some;
}

absl::Status check_inputs(const LabelledFiles& files, const engine::EnsembleRecorder& recorder) {
  for (const std::string& text : files.data) {
    const size_t equals = text.find('=');
    bool known = equals == std::string::npos;
    for (size_t k = 0; !known && k < recorder.spec().models.size(); ++k) {
      known = recorder.signature(k).input(text.substr(0, equals)) != nullptr;
    }
    if (!known) return invalid("DATA is '{}', but no base model has such an input", text);
  }
  return absl::OkStatus();
}

absl::StatusOr<engine::RecordedDifficulty> fit(const DifficultyArguments& arguments) {
  ASSIGN_OR_RETURN(engine::EnsembleSpec spec, ensemble_of(arguments));
  const bool classes = spec.aggregator.prediction == estimate::Prediction::kClassification;
  if (!classes && !arguments.files.labels.empty()) {
    return invalid("--labels is given, but --task is regression, which has no classes");
  }
  ASSIGN_OR_RETURN(engine::EnsembleRecorder recorder,
                   engine::EnsembleRecorder::open(std::move(spec), arguments.engine));
  RETURN_IF_ERROR(check_inputs(arguments.files, recorder));
  std::vector<std::vector<std::vector<Tensor>>> requests;
  std::vector<uint32_t> labels;
  for (size_t k = 0; k < recorder.spec().models.size(); ++k) {
    const Signature& signature = recorder.signature(k);
    ASSIGN_OR_RETURN(engine::LabelledRequests data,
                     read_labelled(files_for(arguments.files, signature), signature,
                                   classes ? Labels::kTaken : Labels::kLeftOut));
    requests.push_back(std::move(data.inputs));
    labels = std::move(data.labels);
  }
  Progress progress(fmt::format("recording {} base models", requests.size()));
  return engine::record_difficulty(
      recorder, std::move(requests), std::move(labels), arguments.options,
      [&](double share, std::string_view note) { progress.update(share, note); });
}

template <class T>
absl::Status write_array(const std::filesystem::path& file, DataType type, Shape shape,
                         const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  const Tensor tensor{file.filename().string(),
                      type,
                      std::move(shape),
                      {{bytes, values.size() * sizeof(T)}, nullptr}};
  return write_npy(tensor, file.string());
}

absl::Status write_table(const std::filesystem::path& file, const estimate::OutputTable& table) {
  return write_array(file, DataType::kFp32, {static_cast<int64_t>(table.size()), table.width},
                     table.values);
}

// profile.json comes last: where it is, the arrays are there.
absl::Status write_folder(const engine::RecordedDifficulty& result,
                          const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return invalid("{}: {}", folder.string(), failed.message());
  const estimate::DifficultyFit& fit = result.fit;
  const auto n = static_cast<int64_t>(fit.answers.queries());
  RETURN_IF_ERROR(write_array(folder / "scores.npy", DataType::kFp32, {n}, fit.discrepancy));
  RETURN_IF_ERROR(write_array(folder / "agreement.npy", DataType::kFp32, {n}, fit.agreement));
  RETURN_IF_ERROR(write_table(folder / "ensemble.npy", result.history.ensemble));
  for (size_t k = 0; k < fit.profile.models.size(); ++k) {
    RETURN_IF_ERROR(write_table(folder / fmt::format("outputs-{}.npy", fit.profile.models[k]),
                                result.history.by_model[k]));
  }
  RETURN_IF_ERROR(write_array(folder / "subsets.npy", DataType::kUint8,
                              {n, static_cast<int64_t>(fit.answers.subsets())},
                              fit.answers.values()));
  std::ofstream out(folder / "profile.json", std::ios::trunc);
  out << write_json(estimate::difficulty_json(fit.profile));
  out.close();
  return out ? absl::OkStatus()
             : invalid("{}: cannot be written", (folder / "profile.json").string());
}

// Accuracy by subset and bin of the discrepancy score, for people.
void tell(const estimate::DifficultyProfile& profile) {
  const estimate::SubsetProfile& table = profile.discrepancy.profile;
  std::vector<estimate::Subset> rows;
  const auto models = static_cast<uint32_t>(profile.models.size());
  for (estimate::Subset s = 1; s <= estimate::all_models(models); ++s) {
    if (estimate::all_models(models) <= kMostRows || estimate::size_of(s) <= 2) rows.push_back(s);
  }
  std::stable_sort(rows.begin(), rows.end(), [](estimate::Subset a, estimate::Subset b) {
    return estimate::size_of(a) < estimate::size_of(b);
  });
  size_t width = 7;
  for (const auto s : rows) width = std::max(width, estimate::name(s, profile.models).size());
  std::string text = fmt::format("{:<{}}", "score from", width);
  text += fmt::format("{:>8}", "0");
  for (const double edge : table.edges) text += fmt::format("{:>8.3f}", edge);
  text += fmt::format("{:>8}\n{:<{}}", "any", "queries", width);
  for (const uint64_t count : table.counts) text += fmt::format("{:>8}", count);
  text += fmt::format("{:>8}\n", profile.queries);
  const std::vector<double> expected = table.expected();
  for (const auto s : rows) {
    text += fmt::format("{:<{}}", estimate::name(s, profile.models), width);
    for (const std::vector<double>& bin : table.utilities) text += fmt::format("{:>8.3f}", bin[s]);
    text += fmt::format("{:>8.3f}\n", expected[s]);
  }
  std::cerr << "how often a subset answers as the whole ensemble:\n" << text;
}

double accuracy(const estimate::OutputTable& table, const std::vector<uint32_t>& labels) {
  double right = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    right += estimate::class_of(table.row(i)) == labels[i] ? 1 : 0;
  }
  return right / static_cast<double>(labels.size());
}

Json summary(const engine::RecordedDifficulty& result, const std::string& folder) {
  const estimate::DifficultyProfile& profile = result.fit.profile;
  Json json = {{"name", profile.name},
               {"task", name(profile.aggregator.prediction)},
               {"aggregation", name(profile.aggregator.aggregation)},
               {"models", profile.models},
               {"queries", profile.queries},
               {"bins", profile.discrepancy.profile.bins()},
               {"out", folder}};
  if (profile.aggregator.prediction == estimate::Prediction::kRegression) {
    json["tolerance"] = profile.tolerance;
  }
  for (size_t k = 0; k < profile.temperatures.size(); ++k) {
    json["temperatures"][profile.models[k]] = profile.temperatures[k];
  }
  const std::vector<double> expected = profile.discrepancy.profile.expected();
  for (estimate::Subset s = 1; s < expected.size(); ++s) {
    json["utility"][estimate::name(s, profile.models)] = expected[s];
  }
  if (result.history.labels.empty()) return json;
  json["accuracy"] = {{"ensemble", accuracy(result.history.ensemble, result.history.labels)}};
  Json& by_model = json["accuracy"]["models"];
  for (size_t k = 0; k < profile.models.size(); ++k) {
    by_model[profile.models[k]] = accuracy(result.history.by_model[k], result.history.labels);
  }
  return json;
}

absl::Status run_difficulty(const DifficultyArguments& arguments) {
  ASSIGN_OR_RETURN(const engine::RecordedDifficulty result, fit(arguments));
  RETURN_IF_ERROR(write_folder(result, arguments.folder));
  tell(result.fit.profile);
  std::cout << write_json(summary(result, arguments.folder));
  return absl::OkStatus();
}

void add_ensemble_options(CLI::App& command, DifficultyArguments& arguments) {
  engine::EnsembleSpec& spec = arguments.spec;
  command.add_option("--repository", arguments.engine.repository, "Folder of the models")
      ->required();
  command.add_option("--models", spec.models, "Base models: A,B,...")->required()->delimiter(',');
  command.add_option("--name", spec.name, "Name of the ensemble")->capture_default_str();
  command.add_option("--task", arguments.task, "classification: outputs are scores by class")
      ->check(CLI::IsMember({"classification", "regression"}))
      ->capture_default_str();
  command.add_option("--aggregation", arguments.aggregation, "How outputs are combined")
      ->check(CLI::IsMember({"vote", "weighted-vote", "average", "weighted-average", "stacking"}))
      ->capture_default_str();
  command
      .add_option("--weights", spec.aggregator.weights,
                  "Weights by model, for weighted aggregations")
      ->delimiter(',');
  command.add_option("--output", arguments.outputs,
                     "[MODEL=]OUTPUT of the base models (default: their first)");
  command.add_option("--meta", spec.meta, "Model that gets all outputs in a row, for stacking");
  command.add_option("--meta-output", spec.meta_output, "Its output (default: the first)");
  command
      .add_option("--neighbors", spec.neighbors,
                  "Recorded queries that fill missing outputs, for stacking")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--provider", arguments.engine.workers.types[0].provider,
                  "Execution provider: cpu, cuda, tensorrt")
      ->capture_default_str();
  command.add_option("--threads", arguments.engine.workers.types[0].threads, "Threads of a model")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

void add_fit(CLI::App& difficulty, int& exit_code) {
  CLI::App* command = difficulty.add_subcommand(
      "fit", "Score a history's queries and profile accuracy by score and subset of models.");
  command->footer(kDifficultyExamples);
  auto arguments = std::make_shared<DifficultyArguments>();
  auto& options = arguments->options;
  command
      ->add_option("DATA", arguments->files.data,
                   "The history: [INPUT=]FILE.npy with a query per row, or FILE.jsonl")
      ->required();
  command->add_option("--labels", arguments->files.labels,
                      "FILE.npy: the true class of each query, for the temperatures");
  command->add_option("--out", arguments->folder, "Folder to write")->required();
  add_ensemble_options(*command, *arguments);
  command
      ->add_option("--bins", options.bins,
                   "Bins of equal count (default: one per 50 queries, at most 10)")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--exact-up-to", options.exact_up_to,
                   "Models up to which every subset is tried; with more, larger ones are estimated")
      ->check(CLI::Range(2, static_cast<int>(estimate::kMostBaseModels)))
      ->capture_default_str();
  CLI::Option* tolerance =
      command
          ->add_option("--tolerance", options.tolerance,
                       "Regression: an answer is right within this many standard deviations")
          ->check(CLI::NonNegativeNumber)
          ->capture_default_str();
  command
      ->add_option("--within", options.within,
                   "Regression: an answer is right this close to the ensemble's")
      ->check(CLI::NonNegativeNumber)
      ->excludes(tolerance);
  command->add_option("--seed", options.seed, "Seed of the larger subsets that are tried")
      ->capture_default_str();
  command->callback([arguments, &exit_code] {
    if (absl::Status done = run_difficulty(*arguments); !done.ok()) {
      std::cerr << "fermata difficulty: " << message(done) << "\n";
      exit_code = kBadInput;
    }
  });
}

}  // namespace

void add_difficulty(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "difficulty", "How difficult an ensemble's queries are, and what its subsets are worth.");
  command->require_subcommand(1);
  add_fit(*command, exit_code);
}

}  // namespace fermata::cli
