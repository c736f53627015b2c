#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/document.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "estimate/cross_validation.h"
#include "model/confusion_document.h"
#include "model/npy.h"

namespace fermata::cli {
namespace {

constexpr const char* kEvidenceExamples = R"(Examples:
  fermata evidence zoo/data/exercise/calibration-features.npy \
    zoo/data/exercise/calibration-labels.npy | jq '{k, accuracy}'
  fermata evidence zoo/data/exercise/calibration-features.npy \
    zoo/data/exercise/calibration-labels.npy --k-max 64 --folds 10 --criterion log-loss

FEATURES: [n, ...], a row for each training example; LABELS: [n], its class from 0.)";

constexpr uint32_t kUsualMost = 32;  // k is tried up to it, unless --k-max says otherwise

struct EvidenceArguments {
  std::string features, labels, criterion = "accuracy";
  std::optional<uint32_t> k_max;
  uint32_t classes = 0;
  uint64_t seed = 1;
  estimate::CrossValidationOptions options;
};

Json to_json(const EvidenceArguments& arguments, const estimate::LabelledPoints& points,
             const estimate::CrossValidation& result) {
  const estimate::NeighborScore& best = result.by_k[result.k - 1];
  Json by_k = Json::array();
  for (const estimate::NeighborScore& score : result.by_k) {
    by_k.push_back({{"k", score.k}, {"accuracy", score.accuracy}, {"log_loss", score.log_loss}});
  }
  Json json = {{"k", result.k},
               {"accuracy", best.accuracy},
               {"log_loss", best.log_loss},
               {"points", points.size()},
               {"dimensions", points.dimensions},
               {"folds", arguments.options.folds},
               {"seed", arguments.seed},
               {"by_k", by_k}};
  json.update(confusion_json(result.confusion));
  return json;
}

absl::Status run_evidence(EvidenceArguments arguments) {
  arguments.options.criterion = arguments.criterion == "accuracy" ? estimate::Criterion::kAccuracy
                                                                  : estimate::Criterion::kLogLoss;
  ASSIGN_OR_RETURN(const Tensor features, read_npy(arguments.features));
  ASSIGN_OR_RETURN(const Tensor labels, read_npy(arguments.labels));
  ASSIGN_OR_RETURN(const estimate::LabelledPoints points,
                   estimate::labelled_points(features, labels, arguments.classes));
  const uint32_t most = estimate::largest_k(points.size(), arguments.options.folds);
  arguments.options.k_max = arguments.k_max.value_or(std::clamp(most, uint32_t{1}, kUsualMost));
  Progress progress(fmt::format("{} folds of {} points", arguments.options.folds, points.size()));
  ASSIGN_OR_RETURN(const estimate::CrossValidation result,
                   estimate::cross_validate(points, arguments.options, Random(arguments.seed),
                                            [&](double share) { progress.update(share); }));
  progress.finish();
  std::cout << write_json(to_json(arguments, points, result));
  return absl::OkStatus();
}

}  // namespace

void add_evidence(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "evidence", "Choose k of the nearest-neighbour evidence by cross-validation.");
  command->footer(kEvidenceExamples);
  auto arguments = std::make_shared<EvidenceArguments>();
  auto& options = arguments->options;
  command->add_option("FEATURES", arguments->features, "Training features, .npy")->required();
  command->add_option("LABELS", arguments->labels, "Their classes, .npy")->required();
  command
      ->add_option("--k-max", arguments->k_max,
                   fmt::format("Largest k to try (default: {}, or all examples)", kUsualMost))
      ->check(CLI::Range(1, 1024));
  command->add_option("--folds", options.folds, "Folds of the cross-validation")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  command->add_option("--criterion", arguments->criterion, "Criterion for the best k")
      ->check(CLI::IsMember({"accuracy", "log-loss"}))
      ->capture_default_str();
  command
      ->add_option("--classes", arguments->classes,
                   "Number of classes (default: by the highest label)")
      ->check(CLI::Range(1, static_cast<int>(Confusion::kMostClasses)));
  command->add_option("--seed", arguments->seed, "Seed of the folds")->capture_default_str();
  command->callback([arguments, &exit_code] {
    if (absl::Status done = run_evidence(*arguments); !done.ok()) {
      std::cerr << "fermata evidence: " << message(done) << "\n";
      exit_code = kBadInput;
    }
  });
}

}  // namespace fermata::cli
