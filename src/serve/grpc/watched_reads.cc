#include "serve/grpc/watched_reads.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <string_view>

#include "base/status.h"
#include "serve/grpc/frame_watch.h"

namespace fermata::serve {
namespace {

constexpr size_t kDescriptors = 1 << 20;  // as many as serve/net/descriptors.h asks for

std::chrono::steady_clock::time_point steady_now() { return std::chrono::steady_clock::now(); }

struct Watched {
  std::mutex mutex;
  FrameWatch frames{steady_now};
  uint64_t identity = 0;                       // 0: not watched
  std::chrono::steady_clock::time_point last;  // when something was read
  std::atomic<bool> written = false;           // something was sent
};

// By descriptor. One that was made stays, for the next socket of its number.
std::array<std::atomic<Watched*>, kDescriptors> by_descriptor;
std::atomic<uint64_t> ended = 0;

bool see(Watched& watched, const msghdr& message, size_t left) {
  for (size_t i = 0; i < message.msg_iovlen && left > 0; ++i) {
    const iovec& piece = message.msg_iov[i];
    const size_t size = std::min(left, piece.iov_len);
    if (!watched.frames.see({static_cast<const char*>(piece.iov_base), size})) return false;
    left -= size;
  }
  return true;
}

// Null: it was never watched.
Watched* watched_at(int descriptor) {
  if (descriptor < 0 || static_cast<size_t>(descriptor) >= kDescriptors) return nullptr;
  return by_descriptor[static_cast<size_t>(descriptor)].load();
}

// False: the bytes are a flood.
bool allows(int descriptor, const msghdr& message, size_t bytes) {
  Watched* const watched = watched_at(descriptor);
  if (watched == nullptr) return true;
  const std::scoped_lock lock(watched->mutex);
  if (watched->written) watched->frames.answered();
  watched->last = steady_now();
  if (watched->identity == 0 || see(*watched, message, bytes)) return true;
  const bool same = socket_identity(descriptor) == watched->identity;
  if (same) ended.fetch_add(1);
  if (!same) watched->identity = 0;
  return !same;
}

}  // namespace

absl::Status watch_reads(int socket) {
  const auto index = static_cast<size_t>(socket);
  if (index >= kDescriptors) {
    return error(absl::StatusCode::kResourceExhausted, "descriptor {} is beyond {}", socket,
                 kDescriptors);
  }
  Watched* watched = by_descriptor[index].load();
  if (watched == nullptr) watched = new Watched;
  const std::scoped_lock lock(watched->mutex);
  watched->frames = FrameWatch(steady_now);
  watched->written = false;
  watched->last = steady_now();
  watched->identity = socket_identity(socket);
  by_descriptor[index].store(watched);
  return absl::OkStatus();
}

SeenReads seen_reads(int socket) {
  Watched* const watched = watched_at(socket);
  if (watched == nullptr) return {true, steady_now()};
  const std::scoped_lock lock(watched->mutex);
  return {watched->frames.calls() > 0, watched->last};
}

uint64_t socket_identity(int descriptor) {
  struct stat info;
  return fstat(descriptor, &info) == 0 ? info.st_ino : 0;
}

uint64_t floods_ended() { return ended.load(); }

}  // namespace fermata::serve

// In place of the C library's, for every library of the program.
extern "C" ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  fermata::serve::Watched* const watched = fermata::serve::watched_at(descriptor);
  if (watched != nullptr && !watched->written) watched->written = true;
  return syscall(SYS_sendmsg, descriptor, message, flags);
}

extern "C" ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  const ssize_t got = syscall(SYS_recvmsg, descriptor, message, flags);
  if (got <= 0 || (flags & MSG_PEEK) != 0) return got;
  if (fermata::serve::allows(descriptor, *message, static_cast<size_t>(got))) return got;
  errno = ECONNRESET;
  return -1;
}
