#include "cluster/worker/ways.h"

#include <spdlog/spdlog.h>

#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cluster/wire/tcp_channel.h"

namespace fermata::cluster {
namespace {

constexpr Duration kLooks = Duration::millis(20);  // for what is cut, so long after the last time
constexpr Duration kProbed = Duration::millis(500);
// One that no worker has asked for is forgotten: its frontend may not come again.
constexpr Duration kForgotten = Duration::seconds(60);

}  // namespace

Ways::~Ways() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  if (probing_ != nullptr) probing_->cut();
}

absl::Status Ways::check(const std::string& address) {
  const std::lock_guard lock(mutex_);
  const auto it = cut_.find(address);
  if (it == cut_.end()) return absl::OkStatus();
  it->second.asked = monotonic_now();
  return it->second.known ? it->second.why : absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Channel>> Ways::connect(const std::string& address,
                                                       Duration patience) {
  const Time by = monotonic_now() + patience;
  ASSIGN_OR_RETURN(auto channel, Tcp::connect(address, patience));
  channel->expect_by(by);
  lookout_.over(channel);
  RETURN_IF_ERROR(Tcp::secure(*channel, tls_, false));
  Message greeting;
  greeting.mutable_attach()->set_keeps(keeper_.address());
  RETURN_IF_ERROR(channel->send(greeting));
  channel->expect_by(Time::infinite());
  return channel;
}

void Ways::lost(const std::string& address, const absl::Status& why) { note(address, why, true); }

void Ways::doubt(const std::string& address, const absl::Status& why) { note(address, why, false); }

void Ways::note(const std::string& address, const absl::Status& why, bool known) {
  const std::lock_guard lock(mutex_);
  if (over_) return;
  const auto it = cut_.try_emplace(address, Cut{why, monotonic_now(), false}).first;
  if (known && !std::exchange(it->second.known, true)) {
    it->second.why = why;
    spdlog::error("{} cannot be reached: {}", address, message(why));
  }
  if (!timer_) timer_.emplace(kLooks, [this] { look(); });
}

void Ways::look() {
  std::vector<std::string> addresses;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [address, cut] : cut_) addresses.push_back(address);
  }
  for (const std::string& address : addresses) {
    const bool there = probe(address).ok();
    const std::lock_guard lock(mutex_);
    probing_ = nullptr;
    if (over_) return;
    const auto it = cut_.find(address);
    Cut& cut = it->second;
    if (there && cut.known) spdlog::info("{} can be reached again", address);
    if (!there && !std::exchange(cut.known, true)) {
      spdlog::error("{} cannot be reached: {}", address, message(cut.why));
    }
    if (there || monotonic_now() - cut.asked > kForgotten) cut_.erase(it);
  }
}

bool Ways::probing(std::shared_ptr<Channel> channel) {
  const std::lock_guard lock(mutex_);
  probing_ = std::move(channel);
  return !over_;
}

// It gives what is asked of it: nothing.
absl::Status Ways::probe(const std::string& address) {
  ASSIGN_OR_RETURN(const auto channel, connect(address, kProbed));
  if (!probing(channel)) return error(absl::StatusCode::kUnavailable, "the worker stops");
  Message nothing;
  nothing.mutable_fetch();
  channel->expect_by(monotonic_now() + kProbed);
  RETURN_IF_ERROR(channel->send(nothing));
  return channel->receive().status();
}

}  // namespace fermata::cluster
