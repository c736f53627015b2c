#include "engine/apart/process.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/status.h"
#include "engine/confine/child.h"
#include "engine/confine/descriptor.h"
#include "engine/threads/give_way_to_all.h"

namespace fermata::engine::apart {
namespace {

// Its own death is told at once; this is for a word that it has written itself.
constexpr Duration kLookForLife = Duration::millis(500);
constexpr int kHigh = 16;  // descriptors that are not those that the child gets

// Between a server and a process.
struct Stream {
  Descriptor own, theirs;

  absl::Status open() {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return internal("cannot make a socket for a model process: {}", strerror(errno));
    }
    own.reset(ends[0]);
    theirs.reset(fcntl(ends[1], F_DUPFD_CLOEXEC, kHigh));
    close(ends[1]);
    return absl::OkStatus();
  }
};

// `calls`: -1: none.
absl::StatusOr<pid_t> start_child(const ModelProcess::Options& options, int area, int control,
                                  int calls) {
  const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (nothing.get() < 0) return internal("cannot open /dev/null: {}", strerror(errno));
  static_assert(kAreaFd == 3 && kControlFd == 4 && kCallsFd == 5);
  std::vector<int> first = {nothing.get(), STDERR_FILENO, STDERR_FILENO, area, control};
  if (calls >= 0) first.push_back(calls);
  if (options.nursery != nullptr) {
    auto child =
        options.nursery->start({options.command.begin() + 1, options.command.end()}, first);
    if (child.ok()) return child;
  }
  return spawn(options.command, first, environment_of(options.nursery.get()), /*apart=*/true);
}

std::string signal_name(int signal, bool in_full) {
  const char* const short_name = sigabbrev_np(signal);
  if (short_name == nullptr) return fmt::format("signal {}", signal);
  return in_full ? fmt::format("SIG{} ({})", short_name, strsignal(signal))
                 : fmt::format("SIG{}", short_name);
}

}  // namespace

absl::StatusOr<std::shared_ptr<ModelProcess>> ModelProcess::start(const Options& options) {
  ASSIGN_OR_RETURN(Area area, Area::make(options.slots, options.inputs_each, options.outputs_each,
                                         options.look));
  Stream control, calls;
  RETURN_IF_ERROR(control.open());
  if (options.calls != nullptr) RETURN_IF_ERROR(calls.open());
  const Descriptor area_end(fcntl(area.fd(), F_DUPFD_CLOEXEC, kHigh));
  ASSIGN_OR_RETURN(const pid_t pid,
                   start_child(options, area_end.get(), control.theirs.get(), calls.theirs.get()));
  std::shared_ptr<ModelProcess> process(
      new ModelProcess(std::move(area), control.own.release(), pid));
  if (options.calls != nullptr) {
    process->calls_ = std::make_unique<Calls>(calls.own.release(), options.calls);
  }
  return process;
}

absl::Status ModelProcess::greet(Time until) {
  const absl::Status said = control_.hello(until);
  if (said.ok()) return said;
  kill();
  return internal("a model process did not start: {}",
                  no_answer(said) ? "it " + how_it_ended() : std::string(message(said)));
}

absl::Status ModelProcess::ask(const Json& message, Time until) {
  return inquire(message, until).status();
}

absl::StatusOr<Json> ModelProcess::inquire(const Json& message, Time until) {
  absl::StatusOr<Json> answer = control_.inquire(message, until);
  if (absl::IsDeadlineExceeded(answer.status())) kill();
  return answer;
}

void ModelProcess::failed(const absl::Status& why) {
  const std::lock_guard lock(failing_);
  ++failures_;
  last_failure_ = message(why);
}

void ModelProcess::answered_well() {
  good_runs.fetch_add(1, std::memory_order_relaxed);
  if (failures_.load(std::memory_order_relaxed) != 0) failures_ = 0;
}

std::pair<uint32_t, std::string> ModelProcess::failures() const {
  const std::lock_guard lock(failing_);
  return {failures_, last_failure_};
}

uint32_t ModelProcess::next_number(uint32_t slot) {
  uint32_t& number = numbers_[slot];
  begun_.fetch_add(1, std::memory_order_relaxed);
  number = number == 0x7FFFFFFF ? 1 : number + 1;  // the highest bit tells of a death
  return number;
}

ModelProcess::~ModelProcess() {
  kill();
  (void)await_end();
}

void ModelProcess::await_death() {
  uint32_t* const life = area_.life();
  while (true) {
    uint32_t word = load_word(life);
    if ((word & FUTEX_OWNER_DIED) != 0 || (word & FUTEX_TID_MASK) == 0) break;
    const uint32_t waited = word | FUTEX_WAITERS;
    if (word != waited && !__atomic_compare_exchange_n(life, &word, waited, false, __ATOMIC_SEQ_CST,
                                                       __ATOMIC_SEQ_CST)) {
      continue;
    }
    futex_wait(life, waited, monotonic_now() + kLookForLife);
    // Where the word lies, or the owner was no thread of it.
    if (ended()) break;
  }
  kill();
}

bool ModelProcess::ended() const {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid_;
}

void ModelProcess::declare_dead() {
  dead_ = true;
  for (uint32_t k = 0; k < area_.slots(); ++k) {
    SlotHead& slot = area_.slot(k);
    __atomic_fetch_add(&slot.answered, 0x80000000U, __ATOMIC_SEQ_CST);  // whoever looks looks again
    futex_wake(&slot.answered);
  }
}

void ModelProcess::kill() {
  const std::lock_guard lock(ending_);
  if (!ended_) ::kill(pid_, SIGKILL);
}

void ModelProcess::end_quietly() {
  {
    const std::lock_guard lock(ending_);  // its number is its own until it is waited for
    std::error_code gone;
    const std::filesystem::directory_iterator threads(fmt::format("/proc/{}/task", pid_), gone);
    for (const auto& thread : threads) {
      if (!ended_) give_way_to_all(std::atoi(thread.path().filename().c_str()));
    }
  }
  kill();
}

void ModelProcess::kill_for(std::string why, std::string cause) {
  {
    const std::lock_guard lock(ending_);
    if (ended_ || !killed_for_.empty()) return;
    killed_for_ = std::move(why);
    killed_cause_ = std::move(cause);
  }
  kill();
}

Duration ModelProcess::processor_time() {
  clockid_t clock = 0;
  timespec spent{};
  const std::lock_guard lock(ending_);  // its number is its own until it is waited for
  if (!ended_ && clock_getcpuclockid(pid_, &clock) == 0 && clock_gettime(clock, &spent) == 0) {
    const int64_t nanos = spent.tv_sec * 1'000'000'000 + spent.tv_nsec;
    if (nanos > processor_nanos_) processor_nanos_ = nanos;
  }
  return Duration::nanos(processor_nanos_);
}

int ModelProcess::await_end() {
  // What it was ended by first is what is said: kill() comes after a death.
  while (true) {
    siginfo_t info = {};
    {
      const std::lock_guard lock(ending_);
      if (ended_) return *ended_;
    }
    const int waited = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
    if (waited != 0 && errno == EINTR) continue;
    const std::lock_guard lock(ending_);
    if (ended_) return *ended_;
    int status = 0;
    if (waitpid(pid_, &status, 0) < 0) status = 0;
    ended_ = status;
  }
}

std::string ModelProcess::how_it_ended() {
  const int status = await_end();
  if (WIFSIGNALED(status) && !killed_for_.empty()) return killed_for_;
  if (WIFSIGNALED(status)) return "was ended by " + signal_name(WTERMSIG(status), true);
  return fmt::format("ended by itself with exit code {}", WEXITSTATUS(status));
}

std::string ModelProcess::cause() {
  const int status = await_end();
  if (WIFSIGNALED(status) && !killed_for_.empty()) return killed_cause_;
  return WIFSIGNALED(status) ? signal_name(WTERMSIG(status), false) : "exit";
}

}  // namespace fermata::engine::apart
