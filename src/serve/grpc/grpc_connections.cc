#include "serve/grpc/grpc_connections.h"

#include <grpc/grpc_security.h>
#include <grpcpp/server_context.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/status.h"
#include "cluster/wire/machine.h"
#include "serve/grpc/frame_watch.h"
#include "serve/grpc/watched_reads.h"
#include "serve/net/who_gives_way.h"

namespace fermata::serve {
namespace {

constexpr uint64_t kPartOfAddress = 2;  // of what open streams may hold
constexpr uint64_t kPartOfWatches = 4;  // of the same, for those who watch something
constexpr uint64_t kConnections = 4;    // whose calls an address may have at least
constexpr size_t kFewAddresses = 1024;  // beyond it those without a connection are forgotten
constexpr std::chrono::seconds kForgetEvery{1};

// As gRPC names a client, which is a URI.
std::string peer_of(const boost::asio::ip::tcp::endpoint& from) {
  auto address = from.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6());
  }
  return fmt::format(fmt::runtime(address.is_v4() ? "ipv4:{}:{}" : "ipv6:%5B{}%5D:{}"),
                     address.to_string(), from.port());
}

std::shared_ptr<ByteBudget> part_of(const std::shared_ptr<ByteBudget>& whole, uint64_t bytes) {
  return whole == nullptr ? nullptr : std::make_shared<ByteBudget>(bytes, whole);
}

// As many as answers that nobody takes.
std::shared_ptr<Unanswered> unanswered_of(uint64_t streams) {
  const uint64_t most = kPartOfAddress * streams / FrameWatch::kCallHolds;
  return std::shared_ptr<Unanswered>(new Unanswered{static_cast<int64_t>(most)});
}

GrpcConnections::Limits complete(GrpcConnections::Limits limits) {
  if (limits.whole == nullptr) return limits;
  if (limits.arriving == 0) limits.arriving = limits.whole->limit() / 2;
  if (limits.streams == 0) limits.streams = limits.whole->limit() / 8;
  return limits;
}

}  // namespace

GrpcConnections::GrpcConnections(Limits limits)
    : limits_(complete(std::move(limits))),
      streams_(part_of(limits_.whole, limits_.streams)),
      answers_(part_of(limits_.whole, kPartOfAddress * limits_.streams)),
      watches_(part_of(limits_.whole, limits_.streams / kPartOfWatches)),
      unanswered_(limits_.whole == nullptr ? nullptr : unanswered_of(limits_.streams)) {
  if (limits_.whole == nullptr) return;
  arrivals_ = std::make_unique<Arrivals>(limits_.arriving, limits_.whole,
                                         [this](uint64_t connection) { end(connection); });
  unread_ =
      std::make_unique<Unread>(limits_.streams, [this](uint64_t connection) { end(connection); });
}

std::shared_ptr<GrpcConnections> GrpcConnections::make(Limits limits) {
  return std::shared_ptr<GrpcConnections>(new GrpcConnections(std::move(limits)));
}

// Well above what streams may hold, so that a stream is rejected before a connection ends.
int64_t GrpcConnections::most_calls(uint64_t streams) const {
  if (limits_.whole == nullptr) return INT32_MAX;
  const uint64_t open = streams / FrameWatch::kCallHolds;
  return static_cast<int64_t>(std::max<uint64_t>(2 * open, kConnections * limits_.calls));
}

GrpcConnections::Address& GrpcConnections::address(const std::string& name) {
  const auto now = std::chrono::steady_clock::now();
  if (addresses_.size() > kFewAddresses && now - forgot_ > kForgetEvery) {
    forgot_ = now;
    absl::erase_if(addresses_, [now](const auto& entry) {
      const Address& known = entry.second;
      const auto is_free = [](const auto& budget) {
        return budget == nullptr || budget.use_count() == 1;
      };
      return known.account.use_count() == 1 && known.account->is_quiet(now) &&
             is_free(known.streams) && is_free(known.answers) && is_free(known.watches);
    });
  }
  Address& known = addresses_[name];
  if (known.account == nullptr) {
    const uint64_t streams = limits_.streams / kPartOfAddress;
    const uint64_t watches = std::max(streams / kPartOfWatches, FrameWatch::kCallHolds);
    known = {std::make_shared<AddressAccount>(most_calls(streams), unanswered_),
             part_of(streams_, streams), part_of(answers_, limits_.streams),
             part_of(watches_, watches)};
  }
  return known;
}

bool GrpcConnections::add(int socket, const boost::asio::ip::tcp::endpoint& from) {
  const std::string peer = peer_of(from);
  const Client client{new_connection_number(), cluster::machine_of(from)};
  SocketEvents events;
  events.closed = [weak = weak_from_this(), peer, number = client.connection] {
    if (const auto self = weak.lock()) self->closed(peer, number);
  };
  if (arrivals_ != nullptr) {
    events.arrived = [weak = weak_from_this(), number = client.connection](uint64_t held,
                                                                           uint64_t more) {
      if (const auto self = weak.lock()) {
        self->arrivals_->set(number, held, more, std::chrono::steady_clock::now());
      }
    };
    events.unread = [weak = weak_from_this(), client](uint64_t held) {
      if (const auto self = weak.lock()) {
        self->unread_->set(client, held, std::chrono::steady_clock::now());
      }
    };
  }
  const std::scoped_lock lock(mutex_);
  auto place = std::make_unique<AddressCounts::Place>(counts_, client.address);
  const auto now = std::chrono::steady_clock::now();
  if (!entrance_.lets_in(*place, given_.size(), limits_.connections, now,
                         [&](bool any_place, auto at) { return evict(*place, any_place, at); })) {
    return false;
  }
  const Address& home = address(client.address);
  if (!watch_reads(socket, home.account, std::move(events), limits_.calls).ok()) return false;
  given_.insert_or_assign(
      peer, Given{socket, watched_as(socket),
                  std::make_shared<const Share>(
                      Share{client, part_of(limits_.whole, limits_.of_each), home.streams,
                            part_of(home.answers, limits_.streams), home.watches, home.account}),
                  std::move(place), now});
  by_number_[client.connection].peer = peer;
  return true;
}

void GrpcConnections::closed(const std::string& peer, uint64_t connection) {
  if (arrivals_ != nullptr) {
    arrivals_->forget(connection);
    unread_->forget(connection);
  }
  {
    const std::scoped_lock lock(mutex_);
    if (const auto named = by_number_.find(connection); named != by_number_.end()) {
      by_context_.erase(named->second.context.get());
      by_number_.erase(named);
    }
    const auto found = given_.find(peer);
    if (found != given_.end() && found->second.share->client.connection == connection) {
      given_.erase(found);
    }
  }
  const std::scoped_lock lock(telling_);
  if (tell_) tell_(connection);
}

void GrpcConnections::tell(Closed closed) {
  const std::scoped_lock lock(telling_);
  tell_ = std::move(closed);
}

size_t GrpcConnections::count() const {
  const std::scoped_lock lock(mutex_);
  return given_.size();
}

void GrpcConnections::look() {
  if (unread_ != nullptr) unread_->look(std::chrono::steady_clock::now());
  const std::scoped_lock lock(mutex_);
  for (const auto& [peer, given] : given_) read_on(given.descriptor, given.watch);
}

void GrpcConnections::end(uint64_t connection) {
  const std::scoped_lock lock(mutex_);
  const auto named = by_number_.find(connection);
  if (named == by_number_.end()) return;
  const auto found = given_.find(named->second.peer);
  if (found == given_.end() || found->second.share->client.connection != connection) return;
  found->second.place = nullptr;
  end_watched(found->second.descriptor, found->second.watch, SHUT_RDWR);
}

void GrpcConnections::end_all(bool gently) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [peer, given] : given_) {
    end_watched(given.descriptor, given.watch, gently ? SHUT_WR : SHUT_RDWR);
  }
}

void GrpcConnections::LetGo::operator()(grpc_auth_context* context) const {
  grpc_auth_context_release(context);
}

GrpcConnections::SharePtr GrpcConnections::share_of(grpc::ServerContextBase& call) {
  Context context(grpc_call_auth_context(call.c_call()));
  {
    const std::scoped_lock lock(mutex_);
    const auto known = by_context_.find(context.get());
    if (known != by_context_.end()) return known->second;
  }
  return share_at_first(call.peer(), std::move(context));
}

GrpcConnections::SharePtr GrpcConnections::share_at_first(const std::string& peer,
                                                          Context context) {
  const std::scoped_lock lock(mutex_);
  const auto found = given_.find(peer);
  if (found == given_.end()) {
    return std::make_shared<const Share>(Share{Client{new_connection_number(), peer}, limits_.whole,
                                               streams_, answers_, watches_, nullptr});
  }
  const SharePtr& share = found->second.share;
  Context& known = by_number_.at(share->client.connection).context;
  if (known == nullptr && context != nullptr) {
    by_context_.emplace(context.get(), share);
    known = std::move(context);
  }
  return share;
}

bool GrpcConnections::evict(const AddressCounts::Place& newcomer, bool any_place,
                            std::chrono::steady_clock::time_point now) {
  Given* first = nullptr;
  WhoGivesWay all(&newcomer, any_place, now);
  for (auto& [peer, given] : given_) {
    if (given.place == nullptr) continue;
    const SeenReads seen = seen_reads(given.descriptor);
    const bool is_long = now - seen.active >= WhoGivesWay::kLong;
    const InTheWay of_asked = seen.waits ? (is_long ? InTheWay::kWaitsLong : InTheWay::kBusy)
                                         : (is_long ? InTheWay::kQuiet : InTheWay::kIdle);
    const bool just_came = now - seen.active < WhoGivesWay::kTimeToAsk;
    const InTheWay of_new = just_came ? InTheWay::kJustCame : InTheWay::kNeverAsked;
    if (all.is_first({seen.called ? of_asked : of_new, *given.place, given.opened, seen.active})) {
      first = &given;
    }
    if (all.is_sure()) break;
  }
  if (first == nullptr) return false;
  first->place = nullptr;
  end_watched(first->descriptor, first->watch, SHUT_RDWR);
  return true;
}

}  // namespace fermata::serve
