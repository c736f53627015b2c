#include "cluster/scheduler_lock.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/status.h"
#include "engine/threads/periodic.h"

namespace fermata::cluster {
namespace {

constexpr Duration kLookForLock = Duration::millis(20);

class FileLock final : public SchedulerLock {
 public:
  FileLock(std::string file, int descriptor, Events events)
      : file_(std::move(file)), descriptor_(descriptor), events_(std::move(events)) {}
  ~FileLock() override {
    timer_.reset();
    ::close(descriptor_);
  }

  absl::Status begin() {
    look();
    if (!is_held_) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        return error(absl::StatusCode::kUnavailable, "cluster.lock: {}: cannot be locked: {}",
                     file_, std::strerror(errno));
      }
      spdlog::info("stands by: another scheduler holds {}", file_);
    }
    timer_ = std::make_unique<engine::Periodic>(kLookForLock, [this] { look(); });
    return absl::OkStatus();
  }

 private:
  void look() {
    if (is_held_ || ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) return;
    is_held_ = true;
    char text[32] = {};
    uint64_t epoch = 1;
    if (::pread(descriptor_, text, sizeof(text) - 1, 0) > 0)
      epoch += std::strtoull(text, nullptr, 10);
    const std::string next = fmt::format("{:020}\n", epoch);
    const ssize_t written = ::pwrite(descriptor_, next.data(), next.size(), 0);
    if (written != static_cast<ssize_t>(next.size()) || ::fsync(descriptor_) != 0) {
      spdlog::error("cluster.lock: {}: cannot be written: {}", file_, std::strerror(errno));
    }
    spdlog::info("the active scheduler, of epoch {}", epoch);
    events_.held(epoch);
  }

  const std::string file_;
  const int descriptor_;
  const Events events_;
  bool is_held_ = false;
  std::unique_ptr<engine::Periodic> timer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SchedulerLock>> SchedulerLock::of_file(const std::string& file,
                                                                      Events events) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    return error(absl::StatusCode::kUnavailable, "cluster.lock: {}: {}", file,
                 std::strerror(errno));
  }
  auto lock = std::make_unique<FileLock>(file, descriptor, std::move(events));
  RETURN_IF_ERROR(lock->begin());
  return lock;
}

}  // namespace fermata::cluster
