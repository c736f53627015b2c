#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/byte_budget.h"
#include "base/quick_mutex.h"
#include "serve/call/client.h"
#include "serve/grpc/address_account.h"
#include "serve/grpc/arrivals.h"
#include "serve/grpc/frame_watch.h"
#include "serve/grpc/unread.h"
#include "serve/net/address_counts.h"
#include "serve/net/who_gives_way.h"

struct grpc_auth_context;
namespace grpc {
class ServerContextBase;
}

namespace fermata::serve {

// The connections that gRPC has: who they are, what each and what each address may hold, who ends
// for another. gRPC closes them; until then each is watched (serve/grpc/watched_reads.h).
// Thread-safe.
class GrpcConnections : public std::enable_shared_from_this<GrpcConnections> {
 public:
  using Closed = std::function<void(uint64_t connection)>;
  // What a connection from somewhere may hold.
  struct Share {
    Client client;
    std::shared_ptr<ByteBudget> budget;          // of its messages; none: without limit
    std::shared_ptr<ByteBudget> of_its_streams;  // its address's, for streams that are open
    std::shared_ptr<ByteBudget> answers;         // that its client has not taken; of its address's
    std::shared_ptr<ByteBudget> watches;         // its address's, for those who watch something
    std::shared_ptr<AddressAccount> account;     // its address's; none: of one that is not known
  };
  using SharePtr = std::shared_ptr<const Share>;

  struct Limits {
    size_t connections = 0;
    std::shared_ptr<ByteBudget> whole;  // none: without limit
    uint64_t of_each = 0;               // connection, of the whole
    // All of them: of messages that are not whole, and for open streams, of which an address has
    // half; for answers that nobody takes twice as much, for those who watch something a quarter.
    // 0: a half and an eighth of the whole.
    uint64_t arriving = 0, streams = 0;
    uint32_t calls = FrameWatch::kSilentCalls;  // of a connection at a time
  };
  static std::shared_ptr<GrpcConnections> make(Limits limits);

  // Watches a socket that gRPC is then given. False: there is no room for it.
  bool add(int socket, const boost::asio::ip::tcp::endpoint& from);
  // Those that are open. O(1).
  size_t count() const;
  // What the connection of a call may hold; of one that is not known, since it was closed just now,
  // a connection of its own that holds what all may.
  SharePtr share_of(grpc::ServerContextBase& call);
  // What was sent reaches their clients, which then see the end; `gently`: those may close them,
  // else they are closed at once.
  void end_all(bool gently);
  // Now and then: ends connections whose clients take no answers, where they hold too much, and
  // reads those on that have waited for long. O(connections).
  void look();
  // Who hears of each that was closed, until tell(nullptr) has returned.
  void tell(Closed closed);

 private:
  // What connections of one address have together.
  struct Address {
    std::shared_ptr<AddressAccount> account;
    std::shared_ptr<ByteBudget> streams, answers, watches;
  };
  struct Given {
    int descriptor;
    uint64_t watch;  // tells it from another that has the descriptor later
    SharePtr share;
    std::unique_ptr<AddressCounts::Place> place;  // none: we have ended it
    std::chrono::steady_clock::time_point opened;
  };
  // That gRPC has for each connection, and tells of calls at once: who its peer is it writes anew.
  struct LetGo {
    void operator()(grpc_auth_context* context) const;
  };
  using Context = std::unique_ptr<grpc_auth_context, LetGo>;
  struct Named {
    std::string peer;
    Context context = nullptr;  // since its first call
  };
  explicit GrpcConnections(Limits limits);
  SharePtr share_at_first(const std::string& peer, Context context);
  void closed(const std::string& peer, uint64_t connection);
  void end(uint64_t connection);
  // Under the lock, as what follows. Ends the one that gives way. False: there is none.
  // O(connections).
  bool evict(const AddressCounts::Place& newcomer, bool any_place,
             std::chrono::steady_clock::time_point now);
  Address& address(const std::string& name);
  int64_t most_calls(uint64_t streams) const;  // of an address

  const Limits limits_;
  const std::shared_ptr<ByteBudget> streams_, answers_, watches_;  // none: without limit
  const std::shared_ptr<Unanswered> unanswered_;                   // the same
  std::unique_ptr<Arrivals> arrivals_;                             // the same
  std::unique_ptr<Unread> unread_;                                 // the same

  std::mutex telling_;
  Closed tell_;

  mutable QuickMutex mutex_;
  const std::shared_ptr<AddressCounts> counts_ = std::make_shared<AddressCounts>();
  absl::flat_hash_map<std::string, Given> given_;  // by peer
  absl::flat_hash_map<uint64_t, Named> by_number_;
  absl::flat_hash_map<const grpc_auth_context*, SharePtr> by_context_;  // of by_number_
  absl::flat_hash_map<std::string, Address> addresses_;
  std::chrono::steady_clock::time_point forgot_{};  // of them those that are gone
  Entrance entrance_;
};

}  // namespace fermata::serve
