#include "cli/cli.h"

#include <fmt/ranges.h>

#include <iostream>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "cli/commands.h"

namespace fermata::cli {

namespace {

// A word that stands where a command is expected and is none; empty: there is none.
std::string unknown_command(CLI::App& app, absl::Span<char* const> words) {
  CLI::App* at = &app;
  for (const char* word : words) {
    const bool wants_command = at->get_require_subcommand_min() > 0;
    if (!wants_command || word[0] == '-') return {};
    CLI::App* next = nullptr;
    std::vector<std::string> names;
    for (CLI::App* each : at->get_subcommands([](const CLI::App*) { return true; })) {
      if (each->check_name(word)) next = each;
      if (!each->get_group().empty()) names.push_back(each->get_name());
    }
    if (next == nullptr) {
      return fmt::format("'{}' is no command, expected one of {}", word, fmt::join(names, ", "));
    }
    at = next;
  }
  return {};
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app{"Fermata: an inference server that keeps its deadlines."};
  app.name("fermata");
  app.require_subcommand(1);
  app.set_version_flag("--version", "fermata " FERMATA_VERSION);
  int exit_code = kDone;
  for (AddCommand add : kCommands) add(app, exit_code);
  if (argc < 2) {
    std::cerr << app.help();
    return kBadInput;
  }
  const absl::Span<char* const> words(argv + 1, static_cast<size_t>(argc - 1));
  if (const std::string wrong = unknown_command(app, words); !wrong.empty()) {
    std::cerr << "fermata: " << wrong << "\n";
    return kBadInput;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& e) {
    app.exit(e);
    return kBadInput;
  }
  return exit_code;
}

}  // namespace fermata::cli
