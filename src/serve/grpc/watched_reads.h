#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "serve/grpc/address_account.h"
#include "serve/grpc/frame_watch.h"

namespace fermata::serve {

// What becomes known of a watched socket.
struct SocketEvents {
  // gRPC holds so much of messages that are not whole, `more` of which has just come; and so much
  // of calls whose client takes no answers (FrameWatch). Called where it holds some or did until
  // now.
  std::function<void(uint64_t held, uint64_t more)> arrived;
  std::function<void(uint64_t held)> unread;
  std::function<void()> closed;  // once, by whoever has it
};

// From here on what anybody reads from this connected socket and sends over it, which nobody does
// yet, is looked at (serve/grpc/frame_watch.h); once it is a flood, reading fails with ECONNRESET,
// and who reads closes it. It ends with the socket: another one that is given the number is left
// alone. `events` are called on the threads that read, send or close, outside of all locks here.
// RESOURCE_EXHAUSTED: the number is beyond what can be watched. Thread-safe.
//
// A connection is not read while it has enough (FrameWatch::has_enough): what it asks further need
// not be held yet.
//
// Readers take turns (serve/grpc/read_turn.h): a read may seem to find nothing though there is
// something, and the socket then tells anew that there is.
//
// gRPC lets nobody between a socket and itself, but reads by recvmsg(2), writes by sendmsg(2) and
// closes by close(2); the program has those of its own (watched_reads.cc), which ask the system and
// look. A call for a descriptor that is not watched pays one look into a table.
absl::Status watch_reads(int socket, std::shared_ptr<AddressAccount> address = nullptr,
                         SocketEvents events = {}, uint32_t most_calls = FrameWatch::kSilentCalls);

// What has come over a watched socket; of one that is not, as if it had just come and called.
struct SeenReads {
  bool called = true;
  std::chrono::steady_clock::time_point active;  // with a call
  bool waits = false;                            // for an answer
};
SeenReads seen_reads(int socket);

// shutdown(2) of a socket that is watched still: a socket that was closed is left alone, and so is
// another one that has its number. `watch`: the number that watched_as() gave.
void end_watched(int socket, uint64_t watch, int how);
// What has come over it and was not read since it has enough, is read once that has lasted too
// long. Now and then: a client whose windows are full has to be heard.
void read_on(int socket, uint64_t watch);
// What tells a watched socket from others that have its number before and after. 0: it is not.
uint64_t watched_as(int socket);

// Connections ended as floods, since the program started.
uint64_t floods_ended();

}  // namespace fermata::serve
