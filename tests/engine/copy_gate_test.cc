#include "engine/confine/copy_gate.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>

#include "base/clock.h"
#include "engine/confine/child.h"
#include "engine/confine/confine.h"
#include "engine/confine/nursery_messages.h"

namespace fermata::engine {
namespace {

const Duration kGateBound = Duration::seconds(60);

int64_t copy_itself() { return syscall(SYS_clone, kCopyFlags, 0, 0, 0, 0); }
bool is_denied(int64_t result) { return result < 0 && errno == EPERM; }

// The descriptor that comes with a message; -1: none.
int receive_descriptor(int stream) {
  char byte = 0;
  iovec bytes{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  int descriptor = -1;
  if (recvmsg(stream, &message, MSG_CMSG_CLOEXEC) != 1) return descriptor;
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  if (rights != nullptr) std::memcpy(&descriptor, CMSG_DATA(rights), sizeof(descriptor));
  return descriptor;
}

// A process that has confined itself to copying, has said what lets it, and does `work` then, with
// a stream to this one.
class Copied {
 public:
  explicit Copied(const std::function<void(int stream)>& work) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      setpgid(0, 0);
      const absl::StatusOr<int> listener = confine_to_copying();
      if (!listener.ok() || !nursery::send(ends[1], "l", {*listener}).ok()) _exit(2);
      close(*listener);
      work(ends[1]);
      _exit(0);
    }
    close(ends[1]);
    stream_ = ends[0];
    listener_ = receive_descriptor(stream_);
  }
  ~Copied() {
    ::kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    close(stream_);
  }
  Copied(const Copied&) = delete;
  Copied& operator=(const Copied&) = delete;

  pid_t process() const { return process_; }
  int stream() const { return stream_; }
  int listener() const { return listener_; }  // for one gate
  char says() const {
    char byte = 0;
    return read(stream_, &byte, 1) == 1 ? byte : '\0';
  }

 private:
  pid_t process_ = -1;
  int stream_ = -1, listener_ = -1;
};

class CopyGateTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!limits_memory()) GTEST_SKIP() << "sanitizers do not survive a copy";
  }
};

// But for what the copies need to end themselves by a signal.
TEST_F(CopyGateTest, WhoIsCopiedOnlyReadsAndCopiesItself) {
  const Copied copied([](int stream) {
    const bool files = open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 &&
                       is_denied(open("/dev/null", O_RDWR | O_CLOEXEC)) &&
                       is_denied(unlink("/nowhere"));
    const bool others =
        is_denied(fork()) && is_denied(syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0)) &&
        is_denied(::kill(getppid(), 0)) &&
        is_denied(syscall(SYS_tgkill, getppid(), getppid(), 0)) &&
        is_denied(socket(AF_UNIX, SOCK_STREAM, 0)) && is_denied(socket(AF_INET, SOCK_STREAM, 0));
    if (copy_itself() == 0) {
      const bool own = confine_to_serving().ok() && is_denied(copy_itself()) &&
                       syscall(SYS_tgkill, getpid(), gettid(), 0) == 0;
      (void)!write(stream, files && others && own ? "y" : "n", 1);
    }
  });
  ASSERT_GE(copied.listener(), 0) << "this system denies it";
  CopyGate gate(copied.listener());
  gate.let_one_copy(copied.process(), copied.stream(), monotonic_now() + kGateBound);
  EXPECT_EQ(copied.says(), 'y');
  end_unknown_copies(copied.process(), {});
}

TEST_F(CopyGateTest, LetsAProcessCopyItselfOnceAndNoCopyOfIt) {
  const Copied copied([](int stream) {
    int64_t made = copy_itself();
    if (made == 0) {
      const bool is_sound = is_denied(copy_itself()) && is_denied(setpgid(0, 0)) &&
                            is_denied(setsid()) && confine_to_serving().ok() &&
                            is_denied(copy_itself());
      (void)!write(stream, is_sound ? "y" : "n", 1);
      _exit(0);
    }
    while (made > 0) made = copy_itself();
    (void)!write(stream, is_denied(made) ? "y" : "n", 1);
  });
  ASSERT_GE(copied.listener(), 0);
  CopyGate gate(copied.listener());
  for (int words = 0; words < 2; ++words) {  // each of the two ends with one
    gate.let_one_copy(words == 0 ? copied.process() : -1, copied.stream(),
                      monotonic_now() + kGateBound);
    EXPECT_EQ(copied.says(), 'y');
  }
  end_unknown_copies(copied.process(), {});
}

TEST_F(CopyGateTest, NobodyCopiesItselfWithoutIt) {
  const Copied copied([](int stream) {
    const bool is_alone = copy_itself() < 0;
    (void)!write(stream, is_alone ? "y" : "n", 1);
  });
  ASSERT_GE(copied.listener(), 0);
  { const CopyGate gate(copied.listener()); }
  EXPECT_EQ(copied.says(), 'y');
}

// Whoever asks again and again does not keep it from its end.
TEST_F(CopyGateTest, EndsInTime) {
  const Copied copied([](int) {
    while (true) (void)copy_itself();
  });
  ASSERT_GE(copied.listener(), 0);
  CopyGate gate(copied.listener());
  gate.let_one_copy(-1, copied.stream(), monotonic_now() + Duration::millis(50));
}

// Of two copies one is known, and is left.
TEST_F(CopyGateTest, CopiesThatSayNothingEnd) {
  const Copied copied([](int stream) {
    for (int i = 0; i < 2; ++i) {
      const int64_t made = copy_itself();
      if (made == 0) {
        while (true) pause();
      }
      (void)!write(stream, &made, sizeof(made));
    }
    while (true) pause();
  });
  ASSERT_GE(copied.listener(), 0);
  CopyGate gate(copied.listener());
  std::array<int64_t, 2> made{};
  for (int64_t& one : made) {
    gate.let_one_copy(copied.process(), copied.stream(), monotonic_now() + kGateBound);
    ASSERT_EQ(read(copied.stream(), &one, sizeof(one)), ssize_t{sizeof(one)});
    ASSERT_GT(one, 0);
  }
  const auto known = static_cast<pid_t>(made[0]), unknown = static_cast<pid_t>(made[1]);
  end_unknown_copies(copied.process(), {known});
  EXPECT_EQ(waitpid(unknown, nullptr, WNOHANG), -1);  // it has been waited for
  EXPECT_EQ(waitpid(known, nullptr, WNOHANG), 0);     // it lives
  ::kill(known, SIGKILL);
  EXPECT_EQ(waitpid(known, nullptr, 0), known);
}

}  // namespace
}  // namespace fermata::engine
