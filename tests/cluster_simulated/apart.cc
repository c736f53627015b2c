#include "cluster_simulated/apart.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/check.h"

namespace fermata::simulated {
namespace {

constexpr unsigned kSeconds = 120;  // of one simulation, by the machine's clock: it goes in circles

}  // namespace

Apart::Apart(const std::function<std::string()>& work) {
  int ends[2];
  FERMATA_CHECK(::pipe(ends) == 0);
  child_ = ::fork();
  FERMATA_CHECK(child_ >= 0);
  if (child_ == 0) {
    ::alarm(kSeconds);
    const std::string text = work();
    for (size_t at = 0; at < text.size();) {
      const ssize_t written = ::write(ends[1], text.data() + at, text.size() - at);
      if (written <= 0) break;
      at += static_cast<size_t>(written);
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  pipe_ = ends[0];
}

std::string Apart::wait() {
  std::string text;
  char some[4096];
  for (ssize_t got = 0; (got = ::read(pipe_, some, sizeof(some))) > 0;) {
    text.append(some, static_cast<size_t>(got));
  }
  ::close(pipe_);
  int status = 0;
  ::waitpid(child_, &status, 0);
  if (WIFSIGNALED(status)) {
    text += fmt::format("it ended by a signal: {}\n", strsignal(WTERMSIG(status)));
  }
  return text;
}

}  // namespace fermata::simulated
