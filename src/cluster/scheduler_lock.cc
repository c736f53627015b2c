#include "cluster/scheduler_lock.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status.h"

namespace fermata::cluster {
namespace {

constexpr Duration kLookForLock = Duration::millis(20);

}  // namespace

absl::StatusOr<std::unique_ptr<SchedulerLock>> SchedulerLock::make(
    const std::string& file, std::function<void(uint64_t epoch)> held) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    return error(absl::StatusCode::kUnavailable, "cluster.lock: {}: {}", file,
                 std::strerror(errno));
  }
  auto lock = std::unique_ptr<SchedulerLock>(new SchedulerLock(file, descriptor, std::move(held)));
  SchedulerLock* self = lock.get();
  self->look();
  if (!self->is_held_) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return error(absl::StatusCode::kUnavailable, "cluster.lock: {}: cannot be locked: {}", file,
                   std::strerror(errno));
    }
    spdlog::info("stands by: another scheduler holds {}", file);
  }
  lock->timer_ = std::make_unique<engine::Periodic>(kLookForLock, [self] { self->look(); });
  return lock;
}

SchedulerLock::SchedulerLock(std::string file, int descriptor,
                             std::function<void(uint64_t epoch)> held)
    : file_(std::move(file)), descriptor_(descriptor), held_(std::move(held)) {}

SchedulerLock::~SchedulerLock() {
  timer_.reset();
  ::close(descriptor_);
}

void SchedulerLock::look() {
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
  held_(epoch);
}

}  // namespace fermata::cluster
