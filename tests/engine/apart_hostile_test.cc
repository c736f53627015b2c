#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <string>
#include <vector>

#include "engine/apart/supervised.h"
#include "engine/apart_fixture.h"
#include "places/places.h"

namespace fermata::engine {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// Processes that break the rules, in another language: each is a row of hostile_process.py.
class Hostile : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  // A command that is the script, whatever it is called with.
  std::string program(const std::string& how) const {
    folder_.write("program.sh", "#!/bin/sh\nexec python3 " + project_folder() +
                                    "/tests/engine/hostile_process.py " + how + "\n");
    const std::filesystem::path file = folder_.path() / "program.sh";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file.string();
  }
  TemporaryFolder folder_;
};

TEST_P(Hostile, IsFoundOutAndTheServerLives) {
  const auto [how, says] = GetParam();
  OneApart model(models(), "gather", program(how));
  ASSERT_TRUE(model.load().ok());
  const Duration limit = std::string_view(how) == "hang" ? Duration::millis(300) : kBound;
  EXPECT_THAT(model.error({rows_at({2})}, limit), HasSubstr(says)) << how;
}

INSTANTIATE_TEST_SUITE_P(
    All, Hostile,
    ::testing::Values(std::pair("offset", "lies at"), std::pair("bytes", "has 8 bytes"),
                      std::pair("shape", "has shape"), std::pair("datatype", "has datatype"),
                      std::pair("number", "of batch"), std::pair("records", "cut off"),
                      std::pair("noise", "wrong answer"), std::pair("life", "died"),
                      std::pair("unlock", "died"), std::pair("exit", "died"),
                      std::pair("segv", "died"), std::pair("fpe", "died"),
                      std::pair("abort", "died"), std::pair("hang", "was stopped after"),
                      std::pair("shrink", "sealed"), std::pair("code", "no such model")),
    [](const auto& info) { return std::string(info.param.first); });

// The server itself, of which one model's processes die whenever they run something.
class Dying : public Hostile {
 protected:
  // What tries models is the command itself.
  std::unique_ptr<Engine> engine() {
    (void)program("segv");
    folder_.write("either.sh", "#!/bin/sh\ncase \"$1\" in try-model) exec " + fermata_command() +
                                   " \"$@\";; esac\nexec " +
                                   (folder_.path() / "program.sh").string() + "\n");
    const std::filesystem::path file = folder_.path() / "either.sh";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    repository_.copy_model("gather", "gather");
    EngineOptions options = apart_options(repository_.path());
    options.probe_program = file.string();
    options.workers.nursery = nullptr;
    return *make_engine(std::move(options));
  }
  TemporaryFolder repository_;
};

// Whatever comes first: it ends once, and the server goes on.
TEST_F(Dying, ARequestWhoseProcessIsNotBackInTimeIsRejected) {
  const auto engine = this->engine();
  for (int i = 0; i < 3; ++i) {
    const ReplyPart part = call(
        *engine, {.service = "gather", .inputs = {rows_at({2})}, .timeout = Duration::millis(20)});
    EXPECT_FALSE(part.status.ok());
    EXPECT_THAT(part.why.outcome, AnyOf(Outcome::kRejectedDeadline, Outcome::kFailed));
  }
}

TEST_F(Dying, AModelThatKeepsDyingIsNotServed) {
  const auto engine = this->engine();
  EXPECT_TRUE(engine->unserved().empty());
  const Time bound = monotonic_now() + kBound;
  while (engine->unserved().empty()) {
    ASSERT_LT(monotonic_now(), bound);
    (void)call(*engine, {.service = "gather", .inputs = {rows_at({2})}});
  }
  EXPECT_THAT(engine->unserved().front().reason, HasSubstr("died"));
}

TEST_F(Hostile, WhatKeepsDyingIsInQuarantine) {
  OneApart model(models(), "gather", program("segv"));
  ASSERT_TRUE(model.load().ok());
  std::string why;
  bool counted = false;  // while it lasts, which is a second at first
  for (uint32_t i = 0; i < 100 && !counted; ++i) {
    model.await_process();
    why = model.error({rows_at({2})});
    counted = why.find("quarantine") != std::string::npos && model.process().quarantined;
  }
  EXPECT_THAT(why, HasSubstr("in quarantine"));
  EXPECT_TRUE(counted);
}

// Though it lives.
TEST_F(Hostile, WhatKeepsFailingIsSaidTo) {
  OneApart model(models(), "gather", program("shrink"));
  ASSERT_TRUE(model.load().ok());
  for (uint32_t i = 0; i < apart::Supervised::kMostFailures; ++i) {
    EXPECT_EQ(model.executors().why_away(model.variant()), "");
    EXPECT_THAT(model.error({rows_at({2})}), HasSubstr("sealed"));
  }
  EXPECT_THAT(model.executors().why_away(model.variant()), HasSubstr("its last 32 runs failed"));
}

// It may be right: nobody has seen it run.
TEST(Apart, AModelThatHasNeverRunIsNotBlamedForInputs) {
  OneApart model(models(), "gather");
  const auto untried = std::make_shared<Variant>(model.variant());
  untried->id = VariantId(7);
  untried->tried = false;
  untried->profile = {};
  ASSERT_TRUE(model.executor().load(untried).ok());
  for (uint32_t i = 0; i < apart::Supervised::kMostFailures; ++i) {
    const BatchResult result = model.run(untried->id, {{rows_at({99})}});
    EXPECT_EQ(result.parts[0].status().code(), absl::StatusCode::kUnknown);
  }
  EXPECT_EQ(model.executors().why_away(*untried), "");
}

// One that does not end in time as its last model goes is killed, and not started again.
TEST_F(Hostile, WhatLingersIsNotStartedAgain) {
  const std::filesystem::path starts = folder_.path() / "starts";
  {
    OneApart model(models(), "gather", program("lingers " + starts.string()));
    ASSERT_TRUE(model.load().ok());
  }
  EXPECT_EQ(std::filesystem::file_size(starts), 1u);
}

// Processes that this one has started for models, by /proc/PID/stat: "PID (NAME) STATE PARENT ...".
std::vector<int64_t> children() {
  std::vector<int64_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    char state = 0;
    int parent = 0;
    const size_t after = stat.rfind(')');
    // npos: it is gone
    if (after == stat.npos || stat.find("(model-process)") == stat.npos) continue;
    std::istringstream(stat.substr(after + 1)) >> state >> parent;
    if (parent == getpid()) found.push_back(std::stoll(name));
  }
  return found;
}

// Its next process cannot be started any more, and need not be.
TEST_F(Hostile, AStandbyTakesThePlaceOfAProcessThatDies) {
  const std::string file = program("unused");
  folder_.write("program.sh", "#!/bin/sh\nexec " + fermata_command() + " \"$@\"\n");
  OneApart model(models(), "gather", file, 1, true);
  ASSERT_TRUE(model.load().ok());
  const Time bound = monotonic_now() + kBound;
  while (!model.process().standby) ASSERT_LT(monotonic_now(), bound);
  folder_.write("program.sh", "#!/bin/sh\nexit 1\n");
  const int64_t first = model.process().pid;
  ::kill(static_cast<pid_t>(first), SIGKILL);
  while (model.process().pid == first) ASSERT_LT(monotonic_now(), bound);
  EXPECT_TRUE(model.run({{rows_at({2})}}).parts[0].ok());
  EXPECT_EQ(model.process().starts, 2u);
}

// The first run of a process takes longer than others: a standby has had it.
TEST_F(Hostile, AStandbyRunsOnceBeforeItIsNeeded) {
  const std::filesystem::path loads = folder_.path() / "loads";
  OneApart model(models(), "gather", program("warmth " + loads.string()), 1, true);
  ASSERT_TRUE(model.load().ok());
  const Time bound = monotonic_now() + kBound;
  while (!model.process().standby) ASSERT_LT(monotonic_now(), bound);
  std::stringstream text;
  text << std::ifstream(loads).rdbuf();
  EXPECT_EQ(text.str(), "coldwarm");
}

// It is seen and replaced, though nobody asks it for anything.
TEST_F(Hostile, AStandbyThatDiesIsReplaced) {
  OneApart model(models(), "gather", fermata_command(), 1, true);
  ASSERT_TRUE(model.load().ok());
  const Time bound = monotonic_now() + kBound;
  while (!model.process().standby) ASSERT_LT(monotonic_now(), bound);
  const auto standby = [&model] {
    for (const int64_t pid : children()) {
      if (pid != model.process().pid) return pid;
    }
    return int64_t{0};
  };
  const int64_t first = standby();
  ASSERT_NE(first, 0);
  ::kill(static_cast<pid_t>(first), SIGKILL);
  while (standby() == first || !model.process().standby) ASSERT_LT(monotonic_now(), bound);
  EXPECT_EQ(model.process().starts, 1u);
}

// It would wait for half a minute.
TEST_F(Hostile, AProcessThatNeverStartsKeepsNobodyWhenTheServerStops) {
  OneApart model(models(), "gather", program("silent"));
  std::future<absl::Status> loading = std::async(std::launch::async, [&] { return model.load(); });
  model.stop_loading();
  EXPECT_THAT(std::string(loading.get().message()), HasSubstr("the server stops"));
}

// What opens a model for its processes may hang, here as a standby is to be had: who unloads the
// model does not wait for it.
TEST_F(Hostile, WhatHangsAsItOpensAModelKeepsNobodyWhenTheModelGoes) {
  if (!limits_memory()) GTEST_SKIP() << "sanitizers do not survive a copy";
  const std::filesystem::path hanging = folder_.path() / "hanging";
  folder_.write("nursery.sh", "#!/bin/sh\nexec python3 " + project_folder() +
                                  "/tests/engine/hanging_nursery.py " + fermata_command() + " " +
                                  hanging.string() + "\n");
  const std::filesystem::path program = folder_.path() / "nursery.sh";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  EngineOptions options = apart_options(models());
  options.workers.standby = true;
  options.workers.nursery = std::make_shared<Nursery>(
      program, Nursery::Options{.prepare = Duration::seconds(3600), .again = Duration()});
  OneApart model(std::move(options), "gather");
  ASSERT_TRUE(model.load().ok());
  const Time bound = monotonic_now() + kBound;
  while (!std::filesystem::exists(hanging)) ASSERT_LT(monotonic_now(), bound);
}

}  // namespace
}  // namespace fermata::engine
