#include "serve/config/check.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "serve/log.h"

namespace fermata::cli {
namespace {

int check_file(const std::string& file) {
  const absl::StatusOr<serve::Config> config = serve::load_config(file);
  if (!config.ok()) {
    for (const absl::string_view line : absl::StrSplit(config.status().message(), '\n')) {
      std::cerr << file << ": " << view(line) << "\n";
    }
    return kBadInput;
  }
  serve::log_as_json("off");  // what it would say stands in the report
  std::optional<Progress> progress;
  if (isatty(STDERR_FILENO) != 0)
    progress.emplace("opening models");  // scripts read findings there
  const auto opening = [&progress](std::string_view model, double share) {
    if (progress) progress->update(share, model);
  };
  const serve::CheckReport report = serve::check(*config, opening);
  progress.reset();
  for (const std::string& note : report.notes) std::cerr << "note: " << note << "\n";
  for (const std::string& finding : report.findings) std::cerr << finding << "\n";
  for (const serve::CheckReport::Model& model : report.models) {
    std::cout << fmt::format("{:<24} version {:<8} served as {}\n", model.name,
                             fmt::format("{}", fmt::join(model.versions, ",")),
                             fmt::join(model.services, ", "));
  }
  return report.findings.empty() ? kDone : kBadInput;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "check", "Check a configuration and its model repository as serve reads them.");
  auto file = std::make_shared<std::string>();
  command->add_option("file", *file, "The configuration, fermata.yaml")->required();
  command->footer("Example:\n  fermata check zoo/fermata.yaml");
  command->callback([file, &exit_code] { exit_code = check_file(*file); });
}

}  // namespace fermata::cli
