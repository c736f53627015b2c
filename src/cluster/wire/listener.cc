#include "cluster/wire/listener.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "base/status.h"
#include "cluster/wire/tcp_channel.h"

namespace fermata::cluster {
namespace {

constexpr Duration kGreeting = Duration::seconds(5);  // who has not said by then who it is, goes

}  // namespace

Listener::~Listener() {
  close();
  wait();
}

absl::Status Listener::listen(const std::string& host, uint16_t port, First first) {
  RETURN_IF_ERROR(Tcp::check(tls_));
  first_ = std::move(first);
  ASSIGN_OR_RETURN(acceptor_, Tcp::listen(host, port));
  thread_ = std::thread([this] { accept(); });
  return absl::OkStatus();
}

void Listener::close() {
  stopping_ = true;
  if (thread_.joinable()) {
    acceptor_->close();
    thread_.join();
  }
  const std::lock_guard lock(mutex_);
  newcomers_.cut_all();
}

void Listener::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return connections_ == 0; });
}

void Listener::accept() {
  while (!stopping_) {
    absl::StatusOr<std::shared_ptr<Channel>> channel = acceptor_->accept();
    if (stopping_) return;
    if (channel.ok()) {
      take(*std::move(channel));
      continue;
    }
    std::unique_lock lock(mutex_);  // no descriptor is left, for a moment
    changed_.wait_for(lock, std::chrono::milliseconds(20));
  }
}

void Listener::take(std::shared_ptr<Channel> channel) {
  const std::string machine = channel->machine();
  const Time now = monotonic_now();
  std::shared_ptr<Channel> crowded_out;
  {
    const std::lock_guard lock(mutex_);
    if (!newcomers_.may_come(machine, now)) {
      ++refused_["often"];
      return;
    }
    channel->expect_by(now + kGreeting);
    crowded_out = newcomers_.add(machine, channel);
    if (crowded_out != nullptr) ++refused_["crowd"];
    ++connections_;
  }
  if (crowded_out != nullptr) crowded_out->cut();
  lookout_.over(channel);
  std::thread([this, channel = std::move(channel)]() mutable {
    greet(channel);
    channel.reset();
    const std::lock_guard ended(mutex_);
    --connections_;
    changed_.notify_all();
  }).detach();
}

void Listener::greet(const std::shared_ptr<Channel>& channel) {
  if (const absl::Status secure = Tcp::secure(*channel, tls_, true); !secure.ok()) {
    return refuse(*channel, "tls", message(secure));
  }
  const absl::StatusOr<Frame> first = channel->receive(kGreetingLimits);
  if (!first.ok()) return refuse(*channel, "greeting", message(first.status()));
  {
    const std::lock_guard lock(mutex_);
    newcomers_.remove(channel);
  }
  first_(*first, channel);
}

void Listener::refuse(Channel& channel, const std::string& cause, std::string_view why) {
  count(cause);
  spdlog::warn("a connection from {} is refused ({}): {}", channel.peer(), cause, why);
  channel.cut();
}

void Listener::count(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  ++refused_[cause];
}

std::map<std::string, uint64_t> Listener::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

}  // namespace fermata::cluster
