#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "engine/apart/apart_executor.h"
#include "engine/apart/supervised.h"
#include "engine/execute/confine.h"
#include "engine/execute/loader.h"
#include "engine/fixture.h"

namespace fermata::engine {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

EngineOptions apart_options(const std::filesystem::path& repository) {
  EngineOptions options = options_for(repository);
  options.workers.isolation = Isolation::kProcess;
  options.workers.program = fermata_command();
  return options;
}

// Workers of one model in processes of `program`.
class OneApart {
 public:
  OneApart(const std::string& folder, const std::string& model,
           const std::string& program = fermata_command(), uint32_t workers = 1)
      : options_(apart_options(folder)) {
    options_.workers.program = program;
    options_.workers.types[0].count = workers;
    executors_ = *make_workers(options_.workers);
    Loader loader(options_, {&executors_, 1});
    variant_ = std::make_shared<const Variant>(
        *loader.open(*read_model_folder(options_.repository, model), 1));
    for (uint32_t i = 0; i < workers; ++i) made_.push_back(executors_->make());
  }
  absl::Status load() {
    for (const auto& executor : made_) {
      if (absl::Status loaded = executor->load(variant_); !loaded.ok()) return loaded;
    }
    return absl::OkStatus();
  }
  BatchResult run(const std::vector<std::vector<Tensor>>& requests, Duration limit) {
    BatchRun batch{.variant = variant_->id, .limit = limit};
    for (const std::vector<Tensor>& inputs : requests) {
      batch.parts.push_back({&inputs, &outputs_, 0, static_cast<uint32_t>(inputs[0].shape[0])});
    }
    return run_and_wait(*made_.front(), std::move(batch));
  }
  BatchResult run(const std::vector<std::vector<Tensor>>& requests) {
    return run(requests, Duration::seconds(600));
  }
  std::string error(const std::vector<Tensor>& request, Duration limit = Duration::seconds(600)) {
    return std::string(run({request}, limit).parts[0].status().message());
  }
  Executor& executor() { return *made_.front(); }
  const Variant& variant() const { return *variant_; }
  ProcessStatistics process() const { return executors_->processes().front(); }

 private:
  EngineOptions options_;
  std::unique_ptr<ExecutorFactory> executors_;
  std::vector<std::shared_ptr<Executor>> made_;
  std::shared_ptr<const Variant> variant_;
  const std::vector<std::string> outputs_;
};

std::string models() { return data_folder() + "/repository"; }

Tensor rows_at(std::vector<int64_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  return tensor<int64_t>("index", DataType::kInt64, {count, 1}, std::move(rows));
}

TEST(Apart, ABatchIsPutTogetherAndTakenApart) {
  OneApart model(models(), "gather");
  ASSERT_TRUE(model.load().ok());
  const BatchResult result = model.run({{rows_at({1})}, {rows_at({2, 3})}, {rows_at({4})}});
  ASSERT_EQ(result.parts.size(), 3u);
  ASSERT_TRUE(result.parts[0].ok()) << result.parts[0].status();
  EXPECT_THAT(values<float>((*result.parts[0])[0]), ElementsAre(10));
  EXPECT_THAT(values<float>((*result.parts[1])[0]), ElementsAre(20, 30));
  EXPECT_THAT((*result.parts[1])[0].shape, ElementsAre(2, 1));
}

TEST(Apart, OneBadItemFailsItsOwnPart) {
  OneApart model(models(), "gather");
  ASSERT_TRUE(model.load().ok());
  const BatchResult result = model.run({{rows_at({1})}, {rows_at({99})}, {rows_at({4})}});
  ASSERT_EQ(result.parts.size(), 3u);
  EXPECT_TRUE(result.parts[0].ok());
  EXPECT_FALSE(result.parts[1].ok());
  EXPECT_THAT(values<float>((*result.parts[2])[0]), ElementsAre(40));
}

TEST(Apart, TextsGoThereAndBack) {
  OneApart model(models(), "identity-bytes");
  ASSERT_TRUE(model.load().ok());
  const std::vector<Tensor> request = {
      text(model.variant().signature.inputs[0].name, {1, 3}, {"a", "", "xyz"})};
  const BatchResult result = model.run({request});
  ASSERT_TRUE(result.parts[0].ok()) << result.parts[0].status();
  EXPECT_EQ(values<uint8_t>((*result.parts[0])[0]), values<uint8_t>(request[0]));
}

// What a death leaves: nothing but its count.
TEST(Apart, AProcessThatWasKilledIsStartedAgain) {
  OneApart model(models(), "gather");
  ASSERT_TRUE(model.load().ok());
  for (uint64_t i = 0; i < 3; ++i) {
    ::kill(static_cast<pid_t>(model.process().pid), SIGSEGV);
    while (true) {
      const bool dead = model.process().deaths_by["SIGSEGV"] > i;
      const BatchResult result = model.run({{rows_at({2})}});
      if (result.parts[0].ok()) {
        if (!dead) continue;  // it answered before it died
        EXPECT_THAT(values<float>((*result.parts[0])[0]), ElementsAre(20));
        break;
      }
      EXPECT_THAT(std::string(result.parts[0].status().message()),
                  AnyOf(HasSubstr("is started again"), HasSubstr("died while it ran this")));
      const auto back = std::make_shared<std::promise<void>>();
      model.executor().when_back(model.variant().id, [back] { back->set_value(); });
      ASSERT_EQ(back->get_future().wait_for(std::chrono::minutes(10)), std::future_status::ready)
          << "its process does not come back";
    }
  }
}

TEST(Apart, AModelThatCannotBeLoadedSaysWhy) {
  TemporaryFolder folder;
  folder.copy_model("gather", "gather");
  OneApart model(folder.path(), "gather");
  std::filesystem::remove(folder.path() / "gather/1/model.onnx");
  EXPECT_THAT(std::string(model.load().message()), HasSubstr("model.onnx"));
  OneApart no_program(models(), "gather", "/nowhere/fermata");
}

// A request that ends every process that runs it fails, with what ended it; others are answered.
TEST(Apart, TwoDeathsOfOneRequestFailItAndNobodyElse) {
  TemporaryFolder folder;
  std::filesystem::copy(data_folder() + "/hostile/endless", folder.path() / "endless",
                        std::filesystem::copy_options::recursive);
  folder.copy_model("gather", "gather");
  const auto engine = *make_engine(apart_options(folder.path()));
  std::promise<ReplyPart> ended;
  engine->submit(
      {.service = "endless", .inputs = {floats("x", {1, 1}, {1})}, .arrival = engine->now()},
      [&ended](ReplyPart part) { ended.set_value(std::move(part)); });
  std::future<ReplyPart> reply = ended.get_future();
  int64_t last = 0;
  while (reply.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    for (const ProcessStatistics& process : engine->snapshot().processes) {
      if (process.model != "endless" || process.pid == last || !process.there) continue;
      last = process.pid;
      ::kill(static_cast<pid_t>(last), SIGABRT);
    }
    std::this_thread::yield();
  }
  const ReplyPart part = reply.get();
  EXPECT_EQ(part.why.outcome, Outcome::kFailed);
  EXPECT_THAT(std::string(part.status.message()), HasSubstr("was ended by SIGABRT"));
  EXPECT_TRUE(call(*engine, {.service = "gather", .inputs = {rows_at({2})}}).status.ok());
  EXPECT_TRUE(
      call(*engine, {.service = "endless", .inputs = {floats("x", {1, 1}, {0})}}).status.ok());
}

TEST(Apart, ARunPastItsLimitIsStopped) {
  TemporaryFolder folder;
  std::filesystem::copy(data_folder() + "/hostile/endless", folder.path() / "endless",
                        std::filesystem::copy_options::recursive);
  EngineOptions options = apart_options(folder.path());
  options.workers.run_limit = Duration::millis(20);
  const auto engine = *make_engine(std::move(options));
  const auto ask = [&engine](float x) {
    return call(*engine, {.service = "endless", .inputs = {floats("x", {1, 1}, {x})}});
  };
  EXPECT_TRUE(ask(0).status.ok());
  const ReplyPart reply = ask(1);
  EXPECT_EQ(reply.why.outcome, Outcome::kFailed);
  EXPECT_THAT(std::string(reply.status.message()), HasSubstr("was stopped after"));
  EXPECT_TRUE(ask(0).status.ok());
  EXPECT_FALSE(engine->overdue());
}

// Processes that break the rules, in another language: each is a row of hostile_process.py.
class Hostile : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  // A command that is the script, whatever it is called with.
  std::string program(const std::string& how) const {
    folder_.write("program.sh", "#!/bin/sh\nexec python3 " FERMATA_SOURCE_DIR
                                "/tests/engine/hostile_process.py " +
                                    how + "\n");
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
  EXPECT_THAT(model.error({rows_at({2})}, Duration::millis(300)), HasSubstr(says)) << how;
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
  while (engine->unserved().empty()) {
    (void)call(*engine, {.service = "gather", .inputs = {rows_at({2})}});
  }
  EXPECT_THAT(engine->unserved().front().reason, HasSubstr("died"));
}

TEST_F(Hostile, WhatKeepsDyingIsInQuarantine) {
  OneApart model(models(), "gather", program("segv"));
  ASSERT_TRUE(model.load().ok());
  std::string why;
  for (uint32_t i = 0; i < 100 && why.find("quarantine") == std::string::npos; ++i) {
    std::promise<void> back;
    model.executor().when_back(model.variant().id, [&back] { back.set_value(); });
    back.get_future().wait();
    why = model.error({rows_at({2})});
  }
  EXPECT_THAT(why, HasSubstr("in quarantine"));
  EXPECT_TRUE(model.process().quarantined);
}

// In a process of its own, which cannot give back what it denies itself.
TEST(Confine, AProcessThatServesOnlyReads) {
  const auto denied = [](int64_t result) { return result < 0 && errno == EPERM; };
  const auto confined = [&denied] {
    confine_to_serving();
    const int readable = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const bool files =
        denied(open("/tmp/fermata-confined", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) &&
        denied(open("/dev/null", O_RDWR | O_CLOEXEC)) && denied(unlink("/nowhere"));
    const bool others = denied(fork()) && denied(::kill(getppid(), 0)) &&
                        ::kill(getpid(), 0) == 0 && denied(socket(AF_UNIX, SOCK_STREAM, 0)) &&
                        denied(socket(AF_INET, SOCK_STREAM, 0));
    bool threads = false;
    std::thread([&threads] { threads = true; }).join();
    _exit(readable >= 0 && files && others && threads ? 7 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(confined(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace fermata::engine
