#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

namespace fermata::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class Completion : public testing::Test {
 protected:
  Completion() {
    app_.name("fermata");
    CLI::App* load = app_.add_subcommand("load", "Don't wait");
    load->add_option("--service", "what to call");
    load->add_flag("--json");
    CLI::App* plan = app_.add_subcommand("plan", "Solve");
    plan->add_subcommand("placement", "Where")->add_flag("--steps");
    app_.add_subcommand("probe", "internal")->group("");
  }

  // What bash offers after these words, the last of which is being typed.
  std::string offered(const std::string& words) {
    const std::string file = testing::TempDir() + "/completion.bash";
    std::ofstream(file) << completion_script(app_, Shell::kBash);
    const std::string command = "bash -c 'source " + file + "; COMP_WORDS=(fermata " + words +
                                "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _fermata; "
                                "echo -n \"${COMPREPLY[@]}\"'";
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    std::string out;
    std::array<char, 256> block;
    while (fgets(block.data(), block.size(), pipe.get()) != nullptr) out += block.data();
    return out;
  }

  CLI::App app_{"test"};
};

TEST_F(Completion, BashCompletesCommandsAndTheirOptions) {
  EXPECT_EQ(offered("l"), "load");
  EXPECT_EQ(offered("p"), "plan");
  EXPECT_EQ(offered("load --s"), "--service");
  EXPECT_EQ(offered("load --service x --j"), "--json");
  EXPECT_EQ(offered("plan pl"), "placement");
  EXPECT_EQ(offered("plan placement --st"), "--steps");
  EXPECT_EQ(offered("load nothing"), "");
}

TEST_F(Completion, HiddenCommandsStayHidden) {
  for (const Shell shell : {Shell::kBash, Shell::kZsh, Shell::kFish}) {
    EXPECT_THAT(completion_script(app_, shell), Not(HasSubstr("probe")));
  }
}

TEST_F(Completion, QuotesAreEscapedAsTheShellWantsIt) {
  EXPECT_THAT(completion_script(app_, Shell::kZsh), HasSubstr(R"('load:Don'\''t wait')"));
  EXPECT_THAT(completion_script(app_, Shell::kFish),
              HasSubstr(R"('__fermata_at ""' -f -a load -d 'Don\'t wait')"));
  EXPECT_THAT(completion_script(app_, Shell::kFish),
              HasSubstr(R"('__fermata_at "/plan/placement"' -l steps)"));
}

}  // namespace
}  // namespace fermata::cli
