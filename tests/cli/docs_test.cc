#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>

#include "cli/commands.h"
#include "places/places.h"

namespace fermata::cli {
namespace {

// docs/cli.md by command: the text under each heading "## `fermata COMMAND`".
std::map<std::string, std::string> sections() {
  std::ifstream file(project_folder() + "/docs/cli.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::regex heading("\n## `fermata ([a-z]+)`\n");
  std::map<std::string, std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), heading), end; at != end; ++at) {
    const size_t start = at->position() + at->length();
    found[(*at)[1]] = text.substr(start, text.find("\n## ", start) - start);
  }
  return found;
}

// The help of a command and of those below it.
std::string help_of(const CLI::App& command) {
  std::string help = command.help();
  for (const CLI::App* below : command.get_subcommands({})) help += help_of(*below);
  return help;
}

class CommandLinePage : public testing::Test {
 protected:
  CommandLinePage() {
    for (AddCommand add : kCommands) add(app_, exit_code_);
  }
  CLI::App app_;
  int exit_code_ = 0;
};

TEST_F(CommandLinePage, HasASectionForEveryCommand) {
  const auto documented = sections();
  for (const CLI::App* command : app_.get_subcommands({})) {
    if (command->get_group().empty()) continue;  // hidden
    EXPECT_TRUE(documented.contains(command->get_name())) << command->get_name();
  }
}

TEST_F(CommandLinePage, NamesOnlyCommandsAndOptionsThatExist) {
  const std::regex option("--[a-z][a-z-]*");
  for (const auto& [name, text] : sections()) {
    const auto commands =
        app_.get_subcommands([&name = name](CLI::App* c) { return c->get_name() == name; });
    ASSERT_EQ(commands.size(), 1) << name;
    const std::string help = help_of(*commands[0]);
    for (std::sregex_iterator at(text.begin(), text.end(), option), end; at != end; ++at) {
      const std::regex whole(at->str() + "(?![a-z-])");
      EXPECT_TRUE(std::regex_search(help, whole)) << "fermata " << name << " " << at->str();
    }
  }
}

}  // namespace
}  // namespace fermata::cli
