#include "cluster/lock/scheduler_lock.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "engine/threads/periodic.h"

namespace fermata::cluster {
namespace {

constexpr Duration kLookForLock = Duration::millis(20);
// The bytes that stand for epochs when they are locked, far behind what is written.
constexpr uint64_t kFirstByte = uint64_t{1} << 40;

// Of an open file, so that the kernel gives it up with the process (fcntl's F_OFD_SETLK).
int set_lock(int descriptor, uint64_t epoch, int16_t kind) {
  struct flock lock = {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(kFirstByte + epoch);
  lock.l_len = 1;
  return ::fcntl(descriptor, F_OFD_SETLK, &lock);
}

bool same_file(int descriptor, const std::string& path) {
  struct stat open = {}, there = {};
  return ::fstat(descriptor, &open) == 0 && ::stat(path.c_str(), &there) == 0 &&
         open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

// What stands in the file; epoch 0: nothing.
struct Entry {
  uint64_t epoch = 0, renewals = 0;
  bool operator==(const Entry&) const = default;
};

class FileLock final : public SchedulerLock {
 public:
  FileLock(std::string file, Duration lease, Events events)
      : file_(std::move(file)), lease_(lease), events_(std::move(events)) {}
  ~FileLock() override {
    timer_.reset();
    if (syncing_.joinable()) syncing_.join();
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  absl::Status begin();

 private:
  absl::Status open();
  absl::Status look();
  absl::Status renew();
  absl::Status rise(uint64_t epoch);
  void lose(const std::string& why);
  absl::Status stand_by(Time now);
  bool take(uint64_t epoch, const Entry& seen);
  bool hold(uint64_t epoch) { return set_lock(descriptor_, epoch, F_WRLCK) == 0; }
  void let_go(uint64_t epoch) { (void)set_lock(descriptor_, epoch, F_UNLCK); }
  Entry read() const;
  absl::Status write(Entry entry);

  const std::string file_;
  const Duration lease_;
  const Events events_;
  int descriptor_ = -1;
  std::optional<Entry> own_;  // it is the active one
  bool is_over_ = false;      // it has been
  uint64_t highest_ = 0;      // epoch that stood in any file
  Entry seen_;                // by one that stands by, and since when
  std::optional<Time> since_;
  bool is_new_ = true;  // the file: nobody has been there before
  std::string said_;
  std::thread syncing_;
  std::unique_ptr<engine::Periodic> timer_;
};

absl::Status FileLock::begin() {
  RETURN_IF_ERROR(look());
  if (!own_) spdlog::info("stands by: another scheduler holds {}", file_);
  timer_ = std::make_unique<engine::Periodic>(kLookForLock, [this] {
    const absl::Status looked = look();
    const std::string now = looked.ok() ? "" : std::string(message(looked));
    if (now != std::exchange(said_, now) && !looked.ok()) spdlog::error("{}", now);
  });
  return absl::OkStatus();
}

absl::Status FileLock::open() {
  if (descriptor_ >= 0 && same_file(descriptor_, file_)) return absl::OkStatus();
  const int opened = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (opened < 0) {
    return error(absl::StatusCode::kUnavailable, "cluster.lock: {}: {}", file_,
                 std::strerror(errno));
  }
  if (syncing_.joinable()) syncing_.join();
  if (descriptor_ >= 0) {
    spdlog::error("cluster.lock: {} was deleted or replaced", file_);
    ::close(descriptor_);
    is_new_ = false;  // its holder writes it again
  }
  descriptor_ = opened;
  if (own_ && !hold(own_->epoch)) lose("its file was deleted, and another has written it");
  return absl::OkStatus();
}

void FileLock::lose(const std::string& why) {
  spdlog::error("no longer the active scheduler: {}", why);
  own_.reset();
  is_over_ = true;
  events_.lost();
}

absl::Status FileLock::look() {
  if (is_over_) return absl::OkStatus();
  RETURN_IF_ERROR(open());
  if (is_over_) return absl::OkStatus();
  return own_ ? renew() : stand_by(monotonic_now());
}

absl::Status FileLock::renew() {
  const Entry there = read();
  if (there.epoch > own_->epoch) {
    lose(fmt::format("another is, of epoch {}", there.epoch));
    return absl::OkStatus();
  }
  const uint64_t heard = events_.heard ? events_.heard() : 0;
  if (heard > own_->epoch && hold(heard + 1)) return rise(heard + 1);
  ++own_->renewals;
  return write(*own_);
}

absl::Status FileLock::rise(uint64_t epoch) {
  const uint64_t before = std::exchange(own_, Entry{epoch, 0})->epoch;
  const absl::Status written = write(*own_);
  if (written.ok()) let_go(before);  // else the file still names it
  spdlog::info("of epoch {} from now on", epoch);
  events_.held(epoch);
  return written;
}

// Of one whose process has ended the lock can be had, and then only one has it. Of one that hangs
// it cannot: whoever has waited for a lease takes the next epoch, and one lease later the one
// behind, if whoever has that one hangs too.
absl::Status FileLock::stand_by(Time now) {
  const Entry there = read();
  if (there != seen_ || !since_) {
    seen_ = there;
    since_ = now;
  }
  highest_ = std::max(highest_, there.epoch);
  const auto leases = static_cast<uint64_t>((now - *since_).nanos() / lease_.nanos());
  const bool may_be_gone = there.epoch > 0 || is_new_;
  if (may_be_gone && hold(there.epoch)) {
    const bool taken = take(highest_ + 1, there);
    let_go(there.epoch);
    if (taken) return absl::OkStatus();
  } else if (may_be_gone && errno != EACCES && errno != EAGAIN) {
    return error(absl::StatusCode::kUnavailable, "cluster.lock: {}: cannot be locked: {}", file_,
                 std::strerror(errno));
  }
  if (leases > 0) (void)take(highest_ + leases, there);
  return absl::OkStatus();
}

// `seen` stood there before this was locked.
bool FileLock::take(uint64_t epoch, const Entry& seen) {
  if (!hold(epoch)) return false;
  if (read() != seen || !write({epoch, 0}).ok()) {
    let_go(epoch);
    return false;
  }
  own_ = Entry{epoch, 0};
  highest_ = epoch;
  spdlog::info("the active scheduler, of epoch {}", epoch);
  events_.held(epoch);
  // For when the machine fails: a disk that is busy may take seconds.
  if (syncing_.joinable()) syncing_.join();
  syncing_ = std::thread([descriptor = descriptor_] { (void)::fdatasync(descriptor); });
  return true;
}

Entry FileLock::read() const {
  char text[64] = {};
  Entry entry;
  if (::pread(descriptor_, text, sizeof(text) - 1, 0) <= 0) return entry;
  char* end = nullptr;
  entry.epoch = std::strtoull(text, &end, 10);
  entry.renewals = std::strtoull(end, nullptr, 10);
  return entry;
}

absl::Status FileLock::write(Entry entry) {
  const std::string text = fmt::format("{:020} {:020}\n", entry.epoch, entry.renewals);
  const ssize_t written = ::pwrite(descriptor_, text.data(), text.size(), 0);
  if (written == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  return error(absl::StatusCode::kUnavailable, "cluster.lock: {}: cannot be written: {}", file_,
               std::strerror(errno));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SchedulerLock>> SchedulerLock::of_file(const std::string& file,
                                                                      Duration lease,
                                                                      Events events) {
  auto lock = std::make_unique<FileLock>(file, lease, std::move(events));
  RETURN_IF_ERROR(lock->begin());
  return lock;
}

}  // namespace fermata::cluster
