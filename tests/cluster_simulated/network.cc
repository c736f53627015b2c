#include "cluster_simulated/network.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "cluster/wire/random_number.h"
#include "cluster/wire/tcp_channel.h"

namespace fermata::simulated {
namespace {

constexpr Duration kAgain[] = {Duration::seconds(1), Duration::seconds(2), Duration::seconds(4),
                               Duration::seconds(8)};  // a connection is asked for

absl::Status at_end(const char* why) {
  return error(absl::StatusCode::kUnavailable, "the connection ended: {}", why);
}

}  // namespace

// What the machine has of one end of a connection, as long as the simulation lasts.
class End {
 public:
  End(Network& network, Process& process, uint32_t other)
      : network_(network), process_(process), place_(process.place), other_place_(other) {}

  static std::pair<End*, End*> pair(Network& network, Process& from, Process& to) {
    auto* one = network.all_.emplace_back(std::make_shared<End>(network, from, to.place)).get();
    auto* two = network.all_.emplace_back(std::make_shared<End>(network, to, from.place)).get();
    one->other_ = two;
    two->other_ = one;
    return {one, two};
  }

  struct Sent {
    cluster::Frame frame;
    uint64_t bytes = 0;
    bool end = false;
    Time due;
  };
  absl::Status send(Sent item) {
    while (!closed_ && !reset_ && !ended_ && under_way_ >= network_.capacity_) {
      network_.world_.wait(&space_);
    }
    if (closed_ || reset_) return at_end("reset");
    under_way_ += item.bytes;
    leave(std::move(item));
    return absl::OkStatus();
  }
  absl::StatusOr<Sent> receive() {
    while (arrived_.empty() && !closed_ && !reset_) network_.world_.wait(&arrived_);
    if (closed_ || arrived_.empty()) return at_end(closed_ ? "cut" : "reset");
    if (arrived_.front().end) return at_end("End of file");
    Sent item = std::move(arrived_.front());
    arrived_.pop_front();
    other_->under_way_ -= item.bytes;
    network_.world_.wake(&other_->space_);
    return item;
  }
  // What waits on it ends; the other side hears of it, if the machine tells.
  void close(bool tells) {
    if (std::exchange(closed_, true)) return;
    network_.world_.wake(&arrived_);
    network_.world_.wake(&space_);
    if (tells) leave({.end = true});
    if (!tells) leaving_.clear();
  }
  // The way is open again: what was lost is sent again.
  void go() {
    if (leaving_.empty()) return;
    for (Sent& item : leaving_) item.due = due();
    network_.world_.at(last_, [this] { deliver(); });
  }
  bool has_room() const { return closed_ || reset_ || 2 * under_way_ < network_.capacity_; }
  bool of(const Process& process) const { return &process_ == &process; }
  uint32_t place() const { return place_; }
  uint32_t other_place() const { return other_place_; }

 private:
  // In order; what finds the way cut waits for it to be mended.
  void leave(Sent item) {
    item.due = due();
    leaving_.push_back(std::move(item));
    network_.world_.at(last_, [this] { deliver(); });
  }
  Time due() {
    last_ = std::max(network_.world_.now() + network_.way(place_, other_place_), last_);
    return last_;
  }
  void deliver() {
    while (!leaving_.empty() && leaving_.front().due <= network_.world_.now() &&
           network_.open(place_, other_place_)) {
      Sent item = std::move(leaving_.front());
      leaving_.pop_front();
      other_->arrive(std::move(item));
    }
  }
  void arrive(Sent item) {
    if (!closed_) {
      ended_ = ended_ || item.end;
      if (ended_) network_.world_.wake(&space_);
      arrived_.push_back(std::move(item));
      return network_.world_.wake(&arrived_);
    }
    if (item.end) return;
    // Here is nobody: the other side is told.
    network_.world_.at(network_.world_.now() + network_.way(place_, other_place_), [this] {
      if (network_.open(place_, other_place_)) other_->refused();
    });
  }
  void refused() {
    reset_ = true;
    network_.world_.wake(&arrived_);
    network_.world_.wake(&space_);
  }

  Network& network_;
  const Process& process_;
  const uint32_t place_, other_place_;
  End* other_ = nullptr;
  std::deque<Sent> leaving_, arrived_;
  uint64_t under_way_ = 0;
  Time last_;
  bool reset_ = false, closed_ = false;
  bool ended_ = false;  // the other side has closed it
  char space_ = 0;
};

namespace {

class Connection : public cluster::Channel {
 public:
  Connection(World& world, End& end) : world_(world), end_(end) {}
  ~Connection() override { end_.close(true); }

  absl::Status send(const cluster::Message& message, absl::Span<const Bytes> payload) override {
    world_.maybe_give_way();
    End::Sent item;
    item.frame.message = message;
    for (const Bytes bytes : payload) item.frame.bytes += bytes.size();
    std::shared_ptr<std::byte[]> kept(new std::byte[item.frame.bytes]);
    size_t at = 0;
    for (const Bytes bytes : payload) {
      std::copy(bytes.begin(), bytes.end(), kept.get() + at);
      at += bytes.size();
    }
    item.frame.payload = std::move(kept);
    item.bytes = cluster::kFrameHead + message.ByteSizeLong() + item.frame.bytes;
    sent_ += item.bytes;
    tensors_ += item.frame.bytes;
    return end_.send(std::move(item));
  }
  absl::StatusOr<cluster::Frame> receive(const cluster::FrameLimits& limits) override {
    ASSIGN_OR_RETURN(End::Sent item, end_.receive());
    received_ += item.bytes;
    tensors_ += item.frame.bytes;
    const auto head = cluster::encode_head(
        {static_cast<uint32_t>(item.frame.message.ByteSizeLong()), item.frame.bytes});
    RETURN_IF_ERROR(cluster::decode_head(head, limits).status());
    came();
    return std::move(item.frame);
  }
  std::string peer() const override { return Network::address(end_.other_place()) + ":1"; }
  std::string machine() const override { return Network::address(end_.other_place()); }
  bool has_room() const override { return end_.has_room(); }

 private:
  void shut() override { end_.close(true); }

  World& world_;
  End& end_;
};

}  // namespace

class Listening : public cluster::Acceptor {
 public:
  Listening(Network& network, uint16_t port)
      : network_(network), place_(network.world().process().place), port_(port) {
    network_.listening_[{place_, port_}] = {this, &network_.world().process()};
  }
  ~Listening() override { close(); }
  uint16_t port() const override { return port_; }
  absl::StatusOr<std::shared_ptr<cluster::Channel>> accept() override {
    while (waiting_.empty() && !closed_) network_.world().wait(&waiting_);
    if (closed_) return at_end("closed");
    std::shared_ptr<cluster::Channel> next = std::move(waiting_.front());
    waiting_.pop_front();
    return next;
  }
  void close() override {
    if (std::exchange(closed_, true)) return;
    network_.listening_.erase({place_, port_});
    waiting_.clear();
    network_.world().wake(&waiting_);
  }
  void came(std::shared_ptr<cluster::Channel> connection) {
    waiting_.push_back(std::move(connection));
    network_.world().wake(&waiting_);
  }

 private:
  Network& network_;
  const uint32_t place_;
  const uint16_t port_;
  bool closed_ = false;
  std::deque<std::shared_ptr<cluster::Channel>> waiting_;
};

Network* Network::current_ = nullptr;

bool Network::open(uint32_t from, uint32_t to) const {
  const auto found = cut_.find({from, to});
  return (found == cut_.end() || found->second == 0) && !down_.contains(to) &&
         !down_.contains(from);
}

Duration Network::way(uint32_t from, uint32_t to) const {
  const auto found = slow_.find({from, to});
  return delay_ + (found == slow_.end() ? Duration() : found->second);
}

void Network::mend(uint32_t from, uint32_t to) {
  --cut_[{from, to}];
  for (const auto& each : all_) each->go();
}

void Network::up(uint32_t place) {
  down_.erase(place);
  for (const auto& each : all_) each->go();
}

void Network::ended(const Process& process, bool with_host) {
  if (with_host) down_.insert(process.place);
  std::erase_if(listening_, [&](const auto& each) { return each.second.process == &process; });
  for (const auto& each : all_) {
    if (each->of(process)) each->close(!with_host);
  }
}

absl::StatusOr<std::shared_ptr<cluster::Channel>> Network::connect(const std::string& address,
                                                                   Duration patience) {
  Process& from = world_.process();
  const size_t colon = address.rfind(':');
  const auto to = static_cast<uint32_t>(std::stoul(address.substr(sizeof("10.0.0.") - 1)));
  const auto port = static_cast<uint16_t>(std::stoul(address.substr(colon + 1)));
  const Time end = world_.now() + patience;
  for (const Duration again : kAgain) {
    const Time asked = world_.now();
    const Time answered = asked + way(from.place, to) + way(to, from.place);
    if (open(from.place, to) && open(to, from.place) && answered <= end) {
      world_.sleep(answered);
      const auto found = listening_.find({to, port});
      if (found == listening_.end() && !down_.contains(to)) {
        return error(absl::StatusCode::kUnavailable, "no connection to {}: refused", address);
      }
      if (found != listening_.end() && open(from.place, to) && open(to, from.place)) {
        const auto [ours, theirs] = End::pair(*this, from, *found->second.process);
        found->second.by->came(std::make_shared<Connection>(world_, *theirs));
        return std::make_shared<Connection>(world_, *ours);
      }
    }
    world_.sleep(std::min(asked + again, end));
    if (world_.now() >= end) break;
  }
  return error(absl::StatusCode::kUnavailable, "no connection to {}: timed out", address);
}

std::unique_ptr<cluster::Acceptor> Network::listen(uint16_t port) {
  return std::make_unique<Listening>(*this, port == 0 ? next_port_++ : port);
}

}  // namespace fermata::simulated

// What the parts know of a transport: these stand before tcp_channel.cc.
namespace fermata::cluster {

absl::Status Tcp::check(const TlsFiles&) { return absl::OkStatus(); }
absl::StatusOr<std::shared_ptr<Channel>> Tcp::connect(const std::string& address,
                                                      Duration patience) {
  return simulated::Network::current().connect(address, patience);
}
absl::StatusOr<std::unique_ptr<Acceptor>> Tcp::listen(const std::string&, uint16_t port) {
  return simulated::Network::current().listen(port);
}
absl::Status Tcp::secure(Channel&, const TlsFiles&, bool) { return absl::OkStatus(); }

uint64_t random_number() { return simulated::World::current()->random().next(); }

}  // namespace fermata::cluster
