#include "engine/confine/nursery.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "base/clock.h"
#include "engine/apart/process.h"
#include "engine/confine/child.h"
#include "engine/fixture.h"

namespace fermata::engine {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Duration kBound = Duration::seconds(60);

// Children of this process that are called so.
std::vector<pid_t> children(const std::string& name) {
  std::vector<pid_t> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream list(task.path() / "children");
    for (pid_t child = 0; list >> child;) {
      std::string comm;
      std::ifstream("/proc/" + std::to_string(child) + "/comm") >> comm;
      if (comm == name) found.push_back(child);
    }
  }
  return found;
}

class Copies : public testing::Test {
 protected:
  void SetUp() override {
    if (!limits_memory()) GTEST_SKIP() << "sanitizers do not survive a copy";
    others_ = children("nursery");
  }
  // That this test has started.
  std::vector<pid_t> nurseries() const {
    std::vector<pid_t> own = children("nursery");
    std::erase_if(own, [this](pid_t one) { return absl::c_linear_search(others_, one); });
    return own;
  }
  ChildResult run(const std::vector<std::string>& words, const std::string& input = "") {
    std::vector<std::string> command = {fermata_command()};
    command.insert(command.end(), words.begin(), words.end());
    auto result = run_child(command, kBound, input, &nursery);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(ChildResult());
  }
  Nursery nursery{fermata_command()};

 private:
  std::vector<pid_t> others_;
};

TEST_F(Copies, AreAsTheProgramItself) {
  const ChildResult version = run({"version"});
  EXPECT_THAT(version.output, HasSubstr("fermata"));
  EXPECT_EQ(version.output, run_child({fermata_command(), "version"}, kBound)->output);
  EXPECT_EQ(version.exit_code, 0);
  const ChildResult wrong = run({"try-model"}, "no question");
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.error, Not(IsEmpty()));
  EXPECT_THAT(run({"no-command"}).error, HasSubstr("'no-command' is no command"));
  EXPECT_THAT(nurseries(), SizeIs(1));
}

TEST_F(Copies, AreChildrenOfThisProcessWhoseDeathIsSeen) {
  const auto process = *apart::ModelProcess::start(
      {.command = {fermata_command(), "model-process"},
       .nursery = std::shared_ptr<Nursery>(std::shared_ptr<void>(), &nursery)});
  ASSERT_TRUE(process->greet(monotonic_now() + kBound).ok());
  EXPECT_THAT(children("model-process"), testing::ElementsAre(process->pid()));
  ::kill(process->pid(), SIGSEGV);
  process->await_death();  // by the mutex that it holds
  EXPECT_EQ(process->cause(), "SIGSEGV");
}

TEST_F(Copies, ComeFromAnotherNurseryWhenTheirsHasDied) {
  EXPECT_EQ(run({"version"}).exit_code, 0);
  const std::vector<pid_t> first = nurseries();
  ASSERT_THAT(first, SizeIs(1));
  ::kill(first.front(), SIGKILL);
  siginfo_t info = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(first.front()), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(run({"version"}).exit_code, 0);
  EXPECT_THAT(nurseries(), SizeIs(1));
  EXPECT_NE(nurseries(), first);
}

TEST_F(Copies, GoWithTheirNursery) {
  auto own = std::make_unique<Nursery>(fermata_command());
  std::array<int, 2> question{};
  ASSERT_EQ(pipe2(question.data(), O_CLOEXEC), 0);  // for whose end a child waits
  const auto child = own->start({"try-model"}, {question[0], STDERR_FILENO, STDERR_FILENO});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(waitpid(*child, nullptr, WNOHANG), 0);
  own.reset();
  int status = 0;
  EXPECT_EQ(waitpid(*child, &status, 0), *child);
  for (const int end : question) close(end);
}

// What opens a hostile model may say anything: that every process of this user is its child (-1, in
// 32 bits), that one is which is another's, or that it is itself. Each is looked at, and one more
// that comes too late.
TEST_F(Copies, AreNoneWhereWhatIsNoneSaysSo) {
  std::array<int, 2> question{};
  ASSERT_EQ(pipe2(question.data(), O_CLOEXEC), 0);  // for whose end a child waits
  const auto victim = *nursery.start({"try-model"}, {question[0], STDERR_FILENO, STDERR_FILENO});
  const std::string numbers[] = {"0xFFFFFFFF", std::to_string(victim), "os.getpid()", "0"};
  for (const std::string& number : numbers) {
    TemporaryFolder folder;
    const std::filesystem::path program = folder.path() / "lies";
    std::ofstream(program) << R"(#!/usr/bin/env python3
import os, socket, struct
stream = socket.socket(fileno=3)
stream.send(struct.pack("q", 0))
stream.recvmsg(65536, 1024)
for _ in range(2):
    stream.send(struct.pack("q", )"
                           << number << R"())
stream.recv(1)
)";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    Nursery lies(program);
    const auto child = lies.start({"version"}, {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO});
    EXPECT_TRUE(absl::IsUnavailable(child.status())) << number << ": " << child.value_or(-1);
  }
  EXPECT_EQ(waitpid(victim, nullptr, WNOHANG), 0);  // it lives
  ::kill(victim, SIGKILL);
  EXPECT_EQ(waitpid(victim, nullptr, 0), victim);
  for (const int end : question) close(end);
}

// One that makes a child and then says nothing more. The child that comes of the next try has run;
// what that of the first did with its descriptors would have been seen.
TEST_F(Copies, AChildOfOneThatStallsDoesNothing) {
  TemporaryFolder folder;
  const std::filesystem::path program = folder.path() / "stalls";
  std::ofstream(program) << R"(#!/usr/bin/env python3
import array, os, signal, socket, struct
stream = socket.socket(fileno=3)
stream.send(struct.pack("q", 0))
words, ancillary, _, _ = stream.recvmsg(65536, 1024)
descriptors = array.array("i", ancillary[0][2])
if os.fork() == 0:
    if os.read(descriptors[-1], 1) == b"\0":
        os.write(descriptors[1], words)
else:
    signal.pause()
)";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  Nursery stalls(program, {.answer = Duration::seconds(1)});
  std::array<int, 2> out{};
  ASSERT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
  const auto child = stalls.start({"version"}, {STDIN_FILENO, out[1], STDERR_FILENO});
  EXPECT_TRUE(absl::IsUnavailable(child.status())) << child.status();
  close(out[1]);
  char byte = 0;
  EXPECT_EQ(read(out[0], &byte, 1), 0);  // all that had the other end have gone, and wrote nothing
  close(out[0]);
}

TEST_F(Copies, AreThereOnceTheirProgramIs) {
  TemporaryFolder folder;
  const std::filesystem::path program = folder.path() / "fermata";
  Nursery late(program, {.again = Duration()});
  EXPECT_TRUE(absl::IsUnavailable(late.start({"version"}, {0, 1, 2}).status()));
  std::filesystem::create_symlink(fermata_command(), program);
  EXPECT_THAT(run_child({program, "version"}, kBound, {}, &late)->output, HasSubstr("fermata"));
  EXPECT_THAT(nurseries(), SizeIs(1));
}

TEST_F(Copies, AreLookedForAgainAfterAPauseOnly) {
  TemporaryFolder folder;
  const std::filesystem::path program = folder.path() / "fermata";
  Nursery late(program, {.again = Duration::seconds(3600)});
  EXPECT_TRUE(absl::IsUnavailable(late.start({"version"}, {0, 1, 2}).status()));
  std::filesystem::create_symlink(fermata_command(), program);
  EXPECT_TRUE(absl::IsUnavailable(late.start({"version"}, {0, 1, 2}).status()));
}

TEST_F(Copies, OfACopyThatPreparedNothingComeFromTheFirst) {
  const auto first = std::shared_ptr<Nursery>(std::shared_ptr<void>(), &nursery);
  Nursery second(first);
  EXPECT_TRUE(second.prepare("no model").code() == absl::StatusCode::kUnavailable);
  EXPECT_THAT(run_child({fermata_command(), "version"}, kBound, {}, &second)->output,
              HasSubstr("fermata"));
  EXPECT_THAT(nurseries(), SizeIs(1));
  EXPECT_THAT(children("opened-model"), IsEmpty());
}

TEST_F(Copies, AProgramThatMakesNoneIsStartedItself) {
  Nursery none("/bin/true");
  EXPECT_TRUE(absl::IsUnavailable(none.start({"version"}, {0, 1, 2}).status()));
  EXPECT_TRUE(absl::IsUnavailable(none.start({"version"}, {0, 1, 2}).status()));
  EXPECT_EQ(run_child({"/bin/true"}, kBound, {}, &none)->exit_code, 0);
  Nursery nowhere("/nowhere/fermata");
  EXPECT_TRUE(absl::IsUnavailable(nowhere.start({"version"}, {0, 1, 2}).status()));
}

}  // namespace
}  // namespace fermata::engine
