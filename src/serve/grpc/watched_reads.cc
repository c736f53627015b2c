#include "serve/grpc/watched_reads.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/quick_mutex.h"
#include "base/status.h"
#include "serve/grpc/frame_watch.h"
#include "serve/grpc/read_turn.h"
#include "serve/grpc/unread.h"

// The functions below stand before those of ThreadSanitizer, which tell it what comes before what:
// they call these then.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FERMATA_THREAD_SANITIZER
extern "C" ssize_t __interceptor_sendmsg(int, const msghdr*, int);
extern "C" ssize_t __interceptor_recvmsg(int, msghdr*, int);
extern "C" int __interceptor_close(int);
#endif
#endif

namespace fermata::serve {
namespace {

#ifdef FERMATA_THREAD_SANITIZER
constexpr auto system_sendmsg = __interceptor_sendmsg;
constexpr auto system_recvmsg = __interceptor_recvmsg;
constexpr auto system_close = __interceptor_close;
#else
ssize_t system_sendmsg(int descriptor, const msghdr* message, int flags) {
  return syscall(SYS_sendmsg, descriptor, message, flags);
}
ssize_t system_recvmsg(int descriptor, msghdr* message, int flags) {
  return syscall(SYS_recvmsg, descriptor, message, flags);
}
int system_close(int descriptor) { return static_cast<int>(syscall(SYS_close, descriptor)); }
#endif

// After which a connection that has enough is heard all the same; of one whose client is stuck
// Unread::kPatience.
constexpr std::chrono::milliseconds kHeardAgain(50);
constexpr size_t kDescriptors = 1 << 20;  // as many as serve/net/descriptors.h asks for

std::chrono::steady_clock::time_point steady_now() { return std::chrono::steady_clock::now(); }

struct Watched {
  QuickMutex mutex, telling;  // telling: taken first
  std::optional<FrameWatch> frames;
  std::shared_ptr<const SocketEvents> events;
  std::atomic<uint64_t> watch = 0;  // 0: not watched; changes under the lock
  uint64_t held = 0, unread = 0;    // as of the last events
  bool ended = false;               // by us: nothing more is read
  bool paused = false;              // something may be there to read, which nobody will be told
  std::chrono::steady_clock::time_point paused_since;
  // It is read though it has enough: once, or, where it is stuck, until it is not.
  bool goes_on = false;
  bool written = false;  // something was sent
  bool has_turns = false;
  size_t ahead = 0;  // bytes of the server's that were looked at and are not sent yet
  ReadTurn turn;     // of the thread that reads
};

// By descriptor. One that was made stays, for the next socket of its number.
std::array<std::atomic<Watched*>, kDescriptors> by_descriptor;
std::atomic<uint64_t> floods = 0, watches = 0;

std::span<const iovec> pieces_of(const msghdr& message) {
  return {message.msg_iov, message.msg_iovlen};
}

// Of the first `bytes` of a message, piece by piece.
bool sees(FrameWatch& frames, const msghdr& message, size_t bytes) {
  for (const iovec& piece : pieces_of(message)) {
    const size_t size = std::min(bytes, piece.iov_len);
    if (!frames.see({static_cast<const char*>(piece.iov_base), size})) return false;
    bytes -= size;
    if (bytes == 0) break;
  }
  return true;
}

// Null: it is not watched. One that is may not be any more, once it is locked.
Watched* watched_at(int descriptor) {
  if (descriptor < 0 || static_cast<size_t>(descriptor) >= kDescriptors) return nullptr;
  Watched* const found =
      by_descriptor[static_cast<size_t>(descriptor)].load(std::memory_order_acquire);
  return found == nullptr || found->watch == 0 ? nullptr : found;
}

// The socket tells those who wait for it anew that there is something to read, if there is (since
// Linux 4.18).
void tell_again(int descriptor) {
  const int bytes = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

bool is_tcp(int socket) {
  int protocol = 0;
  socklen_t size = sizeof(protocol);
  return getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 &&
         protocol == IPPROTO_TCP;
}

ssize_t read_at_most(int descriptor, msghdr& message, int flags, size_t most) {
  const size_t count = message.msg_iovlen;
  size_t last = 0;  // the piece in which it ends
  while (last < count && message.msg_iov[last].iov_len < most) {
    most -= message.msg_iov[last++].iov_len;
  }
  if (last == count) return system_recvmsg(descriptor, &message, flags);
  const size_t whole = std::exchange(message.msg_iov[last].iov_len, most);
  message.msg_iovlen = last + 1;
  const ssize_t got = system_recvmsg(descriptor, &message, flags);
  message.msg_iov[last].iov_len = whole;
  message.msg_iovlen = count;
  return got;
}

// Bytes that are left beside those of the message, as the system says where it was asked to
// (TCP_INQ); none where it was not.
size_t left_beside(msghdr& message) {
  for (cmsghdr* said = CMSG_FIRSTHDR(&message); said != nullptr;
       said = CMSG_NXTHDR(&message, said)) {
    if (said->cmsg_level != SOL_TCP || said->cmsg_type != TCP_CM_INQ) continue;
    int left = 0;
    std::memcpy(&left, CMSG_DATA(said), sizeof(left));
    return static_cast<size_t>(std::max(left, 0));
  }
  return 0;
}

// Of what is held; one after the other, so that what is told last is so.
void tell(Watched& watched, uint64_t more) {
  const std::scoped_lock one(watched.telling);
  std::shared_ptr<const SocketEvents> events;
  bool arrives = false, stays = false;
  {
    const std::scoped_lock lock(watched.mutex);
    if (watched.watch == 0) return;
    arrives = watched.held > 0;
    stays = watched.unread > 0;
    watched.held = watched.frames->unfinished();
    watched.unread = watched.frames->unread();
    events = watched.events;
  }
  if ((arrives || watched.held > 0) && events->arrived) events->arrived(watched.held, more);
  if ((stays || watched.unread > 0) && events->unread) events->unread(watched.unread);
}

// Whether that has to be told. Under the lock.
bool is_to_tell(const Watched& watched) {
  return watched.held > 0 || watched.unread > 0 || watched.frames->unfinished() > 0 ||
         watched.frames->unread() > 0;
}

// False: the bytes are a flood, or come after one. Sets the frames' work.
bool allows(int descriptor, Watched& watched, const msghdr& message, size_t bytes, uint64_t& work) {
  bool good = true, tells = false;
  {
    const std::scoped_lock lock(watched.mutex);
    if (watched.watch == 0) return true;
    if (watched.ended) return false;
    if (watched.written) watched.frames->answered();
    const uint64_t before = watched.frames->work();
    good = sees(*watched.frames, message, bytes);
    if (!good) {
      floods.fetch_add(1);  // before its client can know
      // gRPC does not close it while what it writes is not taken: now that fails.
      ::shutdown(descriptor, SHUT_RDWR);
      watched.ended = true;
      watched.frames->forget_calls();
    }
    work = watched.frames->work() - before;
    tells = is_to_tell(watched);
  }
  if (tells) tell(watched, bytes);
  return good;
}

// The system tells of a failure only once, so who is told must find it.
bool has_failed(int descriptor) {
  pollfd failed{.fd = descriptor, .events = 0, .revents = 0};
  return poll(&failed, 1, 0) != 0;
}

bool is_to_wait(int descriptor, Watched& watched) {
  const std::scoped_lock lock(watched.mutex);
  const bool was_paused = std::exchange(watched.paused, false);
  if (watched.watch == 0 || watched.ended || !watched.frames->has_enough()) return false;
  if (watched.goes_on) {
    watched.goes_on = watched.frames->is_stuck_with_many();
    return false;
  }
  if (has_failed(descriptor)) return false;
  watched.paused = true;
  if (!was_paused) watched.paused_since = steady_now();
  return true;
}

// A read of a watched connection, whose turn it may not be.
ssize_t receive(int descriptor, Watched& watched, msghdr& message, int flags) {
  ReadTurn& turn = watched.turn;
  if (is_to_wait(descriptor, watched)) {
    turn.pause();
    errno = EAGAIN;
    return -1;
  }
  const size_t most = turn.next();
  if (most == 0) {
    tell_again(descriptor);
    errno = EAGAIN;
    return -1;
  }
  const ssize_t got = read_at_most(descriptor, message, flags, most);
  if (got <= 0) {
    turn.found_nothing();
    return got;
  }
  const size_t left = watched.has_turns ? left_beside(message) : 0;
  // Where it hears nothing, gRPC reads until there is nothing.
  if (turn.is_unsure()) message.msg_controllen = 0;
  uint64_t work = 0;
  const bool good = allows(descriptor, watched, message, static_cast<size_t>(got), work);
  turn.brought(static_cast<size_t>(got), work, left);
  if (good) return got;
  errno = ECONNRESET;
  return -1;
}

// Whether it was not read and is now. Under the lock.
bool is_to_go_on(Watched& watched) {
  if (!watched.paused || watched.frames->has_enough()) return false;
  watched.paused = false;
  return true;
}

// What is sent is looked at first, so that what the client answers to it is looked at afterwards.
// What the system does not take at once comes again.
ssize_t send(int descriptor, Watched& watched, const msghdr& message, int flags) {
  size_t known = 0;
  bool goes_on = false;
  {
    const std::scoped_lock lock(watched.mutex);
    watched.written = true;
    known = watched.ahead;
    if (watched.watch != 0 && !watched.ended) {
      watched.frames->sent(pieces_of(message), known);
      goes_on = is_to_go_on(watched);
    }
  }
  size_t ahead = 0;
  for (const iovec& piece : pieces_of(message)) ahead += piece.iov_len;
  ahead = std::max(ahead, known);
  const ssize_t sent = system_sendmsg(descriptor, &message, flags);
  if (sent > 0) ahead -= static_cast<size_t>(sent);
  if (ahead == known && !goes_on) return sent;
  const int failed = errno;
  bool tells = false;
  {
    const std::scoped_lock lock(watched.mutex);
    watched.ahead = ahead;
    if (watched.watch != 0 && (ahead > 0) != (known > 0)) {
      watched.frames->stuck(ahead > 0);
      watched.goes_on = false;
      watched.paused_since = steady_now();
      goes_on = is_to_go_on(watched) || goes_on;
      tells = is_to_tell(watched);
    }
  }
  if (goes_on) tell_again(descriptor);
  if (tells) tell(watched, 0);
  errno = failed;
  return sent;
}

void forget(Watched& watched) {
  std::shared_ptr<const SocketEvents> events;
  {
    const std::scoped_lock lock(watched.mutex);
    if (watched.watch == 0) return;
    watched.watch = 0;
    watched.frames.reset();
    watched.turn.end();
    events = std::move(watched.events);
  }
  if (events->closed) events->closed();
}

}  // namespace

absl::Status watch_reads(int socket, std::shared_ptr<AddressAccount> address, SocketEvents events,
                         uint32_t most_calls) {
  const auto index = static_cast<size_t>(socket);
  if (index >= kDescriptors) {
    return error(absl::StatusCode::kResourceExhausted, "descriptor {} is beyond {}", socket,
                 kDescriptors);
  }
  Watched* watched = by_descriptor[index].load();
  if (watched == nullptr) watched = new Watched;
  const std::scoped_lock lock(watched->mutex);
  watched->frames.emplace(steady_now, std::move(address), most_calls);
  watched->events = std::make_shared<const SocketEvents>(std::move(events));
  watched->written = watched->ended = watched->paused = watched->goes_on = false;
  watched->held = watched->unread = 0;
  watched->has_turns = is_tcp(socket);
  watched->turn.end();
  watched->ahead = 0;
  watched->watch = watches.fetch_add(1) + 1;
  by_descriptor[index].store(watched);
  return absl::OkStatus();
}

SeenReads seen_reads(int socket) {
  Watched* const watched = watched_at(socket);
  if (watched == nullptr) return {true, steady_now()};
  const std::scoped_lock lock(watched->mutex);
  if (watched->watch == 0) return {true, steady_now()};
  return {watched->frames->calls() > 0, watched->frames->active(), watched->frames->waits()};
}

void end_watched(int socket, uint64_t watch, int how) {
  Watched* const watched = watched_at(socket);
  if (watched == nullptr || watch == 0) return;
  const std::scoped_lock lock(watched->mutex);  // close() waits for it
  if (watched->watch != watch) return;
  ::shutdown(socket, how);
  if (how != SHUT_RDWR) return;
  watched->ended = true;
  watched->frames->forget_calls(true);
}

void read_on(int socket, uint64_t watch) {
  Watched* const watched = watched_at(socket);
  if (watched == nullptr || watch == 0) return;
  const std::scoped_lock lock(watched->mutex);  // close() waits for it
  if (watched->watch != watch || !watched->paused) return;
  const auto pause = watched->frames->is_stuck_with_many() ? Unread::kPatience : kHeardAgain;
  if (steady_now() - watched->paused_since < pause) return;
  watched->paused = false;
  watched->goes_on = true;
  tell_again(socket);
}

uint64_t watched_as(int socket) {
  Watched* const watched = watched_at(socket);
  if (watched == nullptr) return 0;
  const std::scoped_lock lock(watched->mutex);
  return watched->watch;
}

uint64_t floods_ended() { return floods.load(); }

}  // namespace fermata::serve

// In place of the C library's, for every library of the program.
extern "C" ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  fermata::serve::Watched* const watched = fermata::serve::watched_at(descriptor);
  if (watched == nullptr) return fermata::serve::system_sendmsg(descriptor, message, flags);
  return fermata::serve::send(descriptor, *watched, *message, flags);
}

extern "C" ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  fermata::serve::Watched* const watched = fermata::serve::watched_at(descriptor);
  if (watched == nullptr || (flags & (MSG_PEEK | MSG_ERRQUEUE)) != 0) {
    return fermata::serve::system_recvmsg(descriptor, message, flags);
  }
  return fermata::serve::receive(descriptor, *watched, *message, flags);
}

extern "C" int close(int descriptor) {
  fermata::serve::Watched* const watched = fermata::serve::watched_at(descriptor);
  if (watched != nullptr) fermata::serve::forget(*watched);
  return fermata::serve::system_close(descriptor);
}
