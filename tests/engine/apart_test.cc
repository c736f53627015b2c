#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <utility>

#include "engine/apart/process.h"
#include "engine/apart_fixture.h"
#include "engine/confine/child.h"
#include "engine/confine/confine.h"
#include "engine/execute/backend.h"
#include "engine/execute/python_backend.h"
#include "engine/trial/first_runs.h"

namespace fermata::engine {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  const Time bound = monotonic_now() + kBound;
  for (uint64_t i = 0; i < 3; ++i) {
    ::kill(static_cast<pid_t>(model.process().pid), SIGSEGV);
    while (true) {
      ASSERT_LT(monotonic_now(), bound);
      const bool dead = model.process().deaths_by["SIGSEGV"] > i;
      const BatchResult result = model.run({{rows_at({2})}});
      if (result.parts[0].ok()) {
        if (!dead) continue;  // it answered before it died
        EXPECT_THAT(values<float>((*result.parts[0])[0]), ElementsAre(20));
        break;
      }
      EXPECT_THAT(std::string(result.parts[0].status().message()),
                  AnyOf(HasSubstr("is started again"), HasSubstr("died while it ran this")));
      model.await_process();
    }
  }
}

// Whichever of the workers that share it is asked.
TEST(Apart, ADeathIsToldOnce) {
  std::atomic<int> told{0};
  std::promise<std::string> first;
  {
    OneApart model(models(), "gather", fermata_command(), 2);
    for (const uint32_t worker : {0u, 1u}) {
      model.executor(worker).tell_deaths([&](VariantId, Time, const std::string& cause) {
        if (told.fetch_add(1) == 0) first.set_value(cause);
      });
    }
    ASSERT_TRUE(model.load().ok());
    ::kill(static_cast<pid_t>(model.process().pid), SIGSEGV);
    std::future<std::string> cause = first.get_future();
    ASSERT_EQ(cause.wait_for(std::chrono::minutes(1)), std::future_status::ready);
    EXPECT_EQ(cause.get(), "SIGSEGV");
    model.await_process();
  }
  EXPECT_EQ(told, 1);
}

// By what /proc says of each: how nice it is, and its policy.
std::vector<std::string> niceness_of_threads(int64_t process) {
  std::vector<std::string> niceness;
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::ifstream stat(task.path() / "stat");
    std::string text((std::istreambuf_iterator<char>(stat)), {}), word;
    std::istringstream words(text.substr(text.rfind(')') + 2));  // from the third field on
    niceness.emplace_back();
    for (int field = 3; field <= 41; ++field) {
      words >> word;
      if (field == 19 || field == 41) niceness.back() += word + " ";
    }
  }
  return niceness;
}

TEST(Apart, AQuietLoadLeavesNoQuietThread) {
  OneApart model(models(), "gather");
  model.executors().be_quiet();
  ASSERT_TRUE(model.load().ok());
  EXPECT_TRUE(model.run({{rows_at({2})}}).parts[0].ok());
  const std::vector<std::string> niceness = niceness_of_threads(model.process().pid);
  EXPECT_THAT(niceness, ::testing::Each(niceness_of_threads(getpid()).front()));
}

// Of this thread, in nanoseconds, as sched_getattr(2) has it; 0 where the system does not say.
uint64_t slice() {
  std::array<uint64_t, 7> attributes{};
  (void)syscall(SYS_sched_getattr, 0, attributes.data(), sizeof(attributes), 0);
  return attributes[3];
}

TEST(Apart, AQuietChildGivesWay) {
  const auto quiet = [before = getpriority(PRIO_PROCESS, 0), usual = slice()] {
    (void)limit_this_process({.quietly = true});
    const bool nicer = before == 19 || getpriority(PRIO_PROCESS, 0) > before;
    _exit(nicer && (usual == 0 || slice() > usual) ? 7 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(quiet(), ::testing::ExitedWithCode(7), "");
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
constexpr double kRuns = 0.05;  // seconds of a processor that only a run takes

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
  int64_t killed = 0, seen = 0;
  double before = 0;  // what processes had taken when this one came: it runs the request then
  const Time bound = monotonic_now() + kBound;
  while (reply.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    ASSERT_LT(monotonic_now(), bound);
    for (const ProcessStatistics& process : engine->snapshot().processes) {
      if (process.model != "endless" || process.pid == killed || !process.there) continue;
      if (std::exchange(seen, process.pid) != process.pid) before = process.processor_s;
      if (process.processor_s < before + kRuns) continue;
      killed = process.pid;
      ::kill(static_cast<pid_t>(killed), SIGABRT);
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

// By a signal each, and one by a run that does not end.
TEST(Apart, EveryRequestEndsOnceWhileProcessesDie) {
  TemporaryFolder folder;
  std::filesystem::copy(data_folder() + "/hostile/endless", folder.path() / "endless",
                        std::filesystem::copy_options::recursive);
  folder.copy_model("gather", "gather");
  EngineOptions options = apart_options(folder.path());
  options.workers.run_limit = Duration::seconds(5);
  options.workers.types[0].count = 2;
  const auto engine = *make_engine(std::move(options));
  std::atomic<int> asked{0}, ended{0}, twice{0}, others_failed{0};
  const auto ask = [&](const char* model, Tensor input) {
    ++asked;
    const bool other = model == std::string("gather");
    engine->submit({.service = model, .inputs = {std::move(input)}, .arrival = engine->now()},
                   [&, other, ends = std::make_shared<std::atomic<int>>(0)](const ReplyPart& part) {
                     if (ends->fetch_add(1) > 0) ++twice;
                     if (other && !part.status.ok()) ++others_failed;
                     ++ended;
                   });
  };
  constexpr std::array kSignals = {SIGKILL, SIGSEGV, SIGFPE, SIGABRT};
  size_t killed = 0;
  int64_t last = 0;
  const Time bound = monotonic_now() + kBound;
  while (killed < kSignals.size()) {
    ASSERT_LT(monotonic_now(), bound);
    if (asked - ended < 16) {
      ask("endless", floats("x", {1, 1}, {0}));
      ask("gather", rows_at({2}));
    }
    for (const ProcessStatistics& process : engine->snapshot().processes) {
      if (process.model != "endless" || process.pid == last || !process.there) continue;
      last = process.pid;
      ::kill(static_cast<pid_t>(last), kSignals[killed++]);
    }
    std::this_thread::yield();
  }
  ask("endless", floats("x", {1, 1}, {1}));
  while (ended < asked) ASSERT_LT(monotonic_now(), bound);
  EXPECT_EQ(twice, 0);
  EXPECT_EQ(others_failed, 0);
}

TEST(Apart, ARunPastItsLimitIsStopped) {
  TemporaryFolder folder;
  std::filesystem::copy(data_folder() + "/hostile/endless", folder.path() / "endless",
                        std::filesystem::copy_options::recursive);
  EngineOptions options = apart_options(folder.path());
  options.workers.run_limit = Duration::seconds(5);  // others end sooner, busy machine or not
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

TEST(Apart, SoManyWorkersShareAProcess) {
  TemporaryFolder repository;
  repository.copy_model("gather", "gather");
  EngineOptions options = apart_options(repository.path());
  options.workers.types[0].count = 5;
  for (const auto& [share, processes] : std::map<uint32_t, uint64_t>{{1, 5}, {2, 3}, {5, 1}}) {
    options.workers.per_process = share;
    const auto engine = *make_engine(options);
    const auto rows = engine->snapshot().processes;
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].starts, processes) << share;
    EXPECT_TRUE(call(*engine, {.service = "gather", .inputs = {rows_at({2})}}).status.ok());
  }
}

// Else its answer would be taken for that to the next question.
TEST(Apart, AProcessThatDoesNotAnswerInTimeIsKilled) {
  const auto process =
      *apart::ModelProcess::start({.command = {fermata_command(), "model-process"}});
  ASSERT_TRUE(process->greet(monotonic_now() + kBound).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(process->ask({{"op", "late"}}, monotonic_now())));
  EXPECT_EQ(process->cause(), "SIGKILL");
  EXPECT_TRUE(apart::no_answer(process->ask({{"op", "next"}}, monotonic_now() + kBound)));
}

// Whichever process it finds, that has it in the end.
TEST(Apart, WhatIsLoadedWhileAProcessDiesIsThereWhenItIsBack) {
  OneApart model(models(), "gather");
  ASSERT_TRUE(model.load().ok());
  const Time bound = monotonic_now() + kBound;
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(model.run({{rows_at({2})}}).parts[0].ok());
    ::kill(static_cast<pid_t>(model.process().pid), SIGKILL);
    Variant other = model.variant();
    other.id = VariantId(1000 + i);  // of the same weights, as a width of a dynamic network
    other.weights = model.variant().loads();
    const auto loaded = std::make_shared<const Variant>(std::move(other));
    const absl::Status status = model.executor().load(loaded);
    ASSERT_TRUE(status.ok()) << status;
    while (true) {
      ASSERT_LT(monotonic_now(), bound);
      const BatchResult result = model.run(loaded->id, {{rows_at({2})}});
      if (result.parts[0].ok()) break;
      EXPECT_THAT(std::string(result.parts[0].status().message()),
                  AnyOf(HasSubstr("is started again"), HasSubstr("died while it ran this")));
      model.await_process();
    }
  }
}

// Whoever else has made executors of the same workers before.
TEST(Apart, WorkersOfAModelShareItsProcess) {
  OneApart model(models(), "gather", fermata_command(), 2);
  const auto another = model.executors().make();
  ASSERT_TRUE(model.executor(1).load(model.shared_variant()).ok());
  ASSERT_TRUE(another->load(model.shared_variant()).ok());
  EXPECT_EQ(model.process().starts, 1u);
}

TEST(Apart, MemoryIsThatOfTheProcess) {
  OneApart model(models(), "gather");
  EXPECT_EQ(model.executor().memory_mb(), 0);
  ASSERT_TRUE(model.load().ok());
  EXPECT_GT(model.executor().memory_mb(), 1);
  const absl::StatusOr<Profile> profile = make_first_runs(model.executors(), model.variant());
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_GT(profile->static_mb, 1);
}

// Resident, of what this process shares with others by no file.
uint64_t shared_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kilobytes = 0;
    if (word == "RssShmem:" && status >> kilobytes) return kilobytes << 10;
  }
  return 0;
}

TEST(Apart, WhatALargeBatchTouchedOfTheSharedMemoryGoesBackOnceNoneRuns) {
  OneApart model(models(), "identity-bytes");
  ASSERT_TRUE(model.load().ok());
  const std::string name = model.variant().signature.inputs[0].name;
  const std::vector<Tensor> small = {text(name, {1, 1}, {"x"})};
  const std::vector<Tensor> large = {text(name, {1, 1}, {std::string(8 << 20, 'x')})};
  const uint64_t before = shared_bytes();
  ASSERT_TRUE(model.run({large}).parts[0].ok());
  EXPECT_GT(shared_bytes(), before + (12 << 20));  // inputs and outputs
  const Time bound = monotonic_now() + kBound;
  while (shared_bytes() > before + (1 << 20)) {
    ASSERT_LT(monotonic_now(), bound);
    std::this_thread::yield();
  }
  const BatchResult result = model.run({small});
  ASSERT_TRUE(result.parts[0].ok()) << result.parts[0].status();
  EXPECT_EQ(values<uint8_t>((*result.parts[0])[0]), values<uint8_t>(small[0]));
}

TEST(Backend, ASuccessorSharesWhatIsOpen) {
  TemporaryFolder folder;
  folder.copy_model("gather", "gather");
  OneApart model(folder.path(), "gather");
  const auto runners = make_runners({.threads = 2});
  const auto runner = runners->make(), first = runner->successor();
  ASSERT_TRUE(first->load(model.shared_variant()).ok());
  std::filesystem::remove(folder.path() / "gather/1/model.onnx");
  EXPECT_TRUE(runner->successor()->load(model.shared_variant()).ok());
  EXPECT_FALSE(runners->make()->load(model.shared_variant()).ok());
}

TEST(PythonBackend, ACommandHasTheThreadsOfItsWorkersAndNoScript) {
  TemporaryFolder folder;
  folder.write("python3", "#!/bin/sh\nexec \"$(command -v python3)\" \"$@\"\n");
  const std::filesystem::path script = folder.path() / "python3";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  Variant variant;
  variant.model = "m";
  const auto command = python_command(variant, {.threads = 3}, {.python = script.string()});
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(command->back(), "3");
  EXPECT_NE(command->front(), script.string());
  EXPECT_TRUE(std::filesystem::exists(command->front()));
  folder.write("python3", "#!/bin/sh\nexit 1\n");
  folder.write("none", "#!/bin/sh\necho no such version >&2; exit 1\n");
  std::filesystem::permissions(folder.path() / "none", std::filesystem::perms::owner_all);
  const auto none =
      python_command(variant, {.threads = 3}, {.python = (folder.path() / "none").string()});
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("no such version"));
}

// In a process of its own, which cannot give back what it denies itself.
TEST(Confine, AProcessThatServesOnlyReads) {
  const auto denied = [](int64_t result) { return result < 0 && errno == EPERM; };
  const auto confined = [&denied] {
    if (!confine_to_serving().ok()) _exit(1);
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

// As a user who is not root, whose processes may read each other's memory. Of a system whose kernel
// denies it that anyway this says nothing.
TEST(Confine, AProcessThatServesReadsNoMemoryOfOthers) {
  if (syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, 1U) < 1) {
    GTEST_SKIP() << "this kernel has no Landlock";
  }
  const auto confined = [] {
    if (getuid() == 0 && setuid(65534) != 0) _exit(1);
    prctl(PR_SET_DUMPABLE, 1);
    const pid_t child = fork();
    if (child == 0) {
      if (!confine_to_serving().ok()) _exit(2);
      const std::string memory = "/proc/" + std::to_string(getppid()) + "/mem";
      const bool others = open(memory.c_str(), O_RDONLY | O_CLOEXEC) >= 0;
      const bool own = open("/proc/self/mem", O_RDONLY | O_CLOEXEC) >= 0;
      _exit(!others && own ? 7 : 3);
    }
    int status = 0;
    _exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 4);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(confined(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace fermata::engine
