#pragma once

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"

namespace fermata::serve {

// From here on what anybody reads from this connected socket, which nobody reads yet, is looked at
// (serve/grpc/frame_watch.h); once it is a flood, reading fails with ECONNRESET, and who reads
// closes it. It ends with the socket: another one that is given the number is left alone.
// RESOURCE_EXHAUSTED: the number is beyond what can be watched. Thread-safe.
//
// gRPC lets nobody between a socket and itself, but reads by recvmsg(2); the program has a
// recvmsg of its own (watched_reads.cc), which asks the system and then looks, and a sendmsg that
// notes the first of a socket. A call for a socket that is not watched pays one look into a table.
absl::Status watch_reads(int socket);

// What has come over a watched socket; of one that is not, as if it had just come and called.
struct SeenReads {
  bool called = true;
  std::chrono::steady_clock::time_point last;
};
SeenReads seen_reads(int socket);

// Which socket has a descriptor: what tells it from another that has its number later. 0: none.
uint64_t socket_identity(int descriptor);

// Connections ended as floods, since the program started.
uint64_t floods_ended();

}  // namespace fermata::serve
