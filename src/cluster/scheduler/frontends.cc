#include "cluster/scheduler/frontends.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/status.h"
#include "cluster/scheduler/frontend_peer.h"
#include "cluster/wire/random_number.h"

namespace fermata::cluster {
namespace {

constexpr size_t kMostNames = 1024;  // of frontends that have gone

void add(engine::FrontendStatistics& sum, const engine::FrontendStatistics& one) {
  sum.name = one.name;
  sum.address = one.address;
  sum.there = sum.there || one.there;
  sum.joined += one.joined;
  sum.requests += one.requests;
  sum.replies += one.replies;
  sum.sent += one.sent;
  sum.received += one.received;
  sum.tensors += one.tensors;
  if (one.there) sum.clock_error = one.clock_error;
}

}  // namespace

Frontends::~Frontends() { end(); }

void Frontends::serve(engine::Engine& engine) {
  const std::lock_guard lock(mutex_);
  engine_ = &engine;
}

bool Frontends::serving() const {
  const std::lock_guard lock(mutex_);
  return engine_ != nullptr;
}

void Frontends::end() {
  std::unique_lock lock(mutex_);
  engine_ = nullptr;
  const auto sessions = sessions_;
  lock.unlock();
  for (const auto& [session, peer] : sessions) peer->cut();
  lock.lock();
  changed_.wait(lock, [this] { return asking_ == 0; });
}

void Frontends::welcome(const FrontendHello& hello, const std::shared_ptr<Channel>& channel,
                        uint64_t epoch) {
  std::shared_ptr<FrontendPeer> peer;
  const uint64_t session = random_number();
  {
    const std::lock_guard lock(mutex_);
    if (engine_ == nullptr) return channel->cut();
    peer = std::make_shared<FrontendPeer>(*engine_, hello, *channel, session);
    sessions_[session] = peer;
    ++asking_;
  }
  Message answer;
  answer.mutable_welcome()->set_session(session);
  answer.mutable_welcome()->set_silence_nanos(static_cast<uint64_t>(silence_.nanos()));
  answer.mutable_welcome()->set_epoch(epoch);
  absl::Status over = channel->send(answer);
  if (over.ok()) over = peer->beat(channel, silence_);
  peer->end();
  spdlog::warn("frontend '{}' at {} is gone: {}", hello.name(), peer->address(), message(over));
  const std::lock_guard lock(mutex_);
  sessions_.erase(session);
  engine::FrontendStatistics all = peer->statistics();
  all.there = false;
  if (ended_.size() >= kMostNames && !ended_.contains(all.name)) ended_.erase(ended_.begin());
  ended_[all.name].there = false;
  add(ended_[all.name], all);
  --asking_;
  changed_.notify_all();
}

bool Frontends::attach(const Attach& attach, const std::shared_ptr<Channel>& channel) {
  std::shared_ptr<FrontendPeer> peer;
  {
    const std::lock_guard lock(mutex_);
    const auto it = sessions_.find(attach.session());
    if (it == sessions_.end() || engine_ == nullptr || attach.loads()) return false;
    peer = it->second;
    ++asking_;
  }
  const absl::Status over = peer->attach(attach.slot(), channel);
  if (absl::IsInvalidArgument(over))
    spdlog::error("frontend '{}': {}", peer->name(), message(over));
  const std::lock_guard lock(mutex_);
  --asking_;
  changed_.notify_all();
  return true;
}

std::vector<engine::FrontendStatistics> Frontends::statistics() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, engine::FrontendStatistics> sums = ended_;
  for (const auto& [session, peer] : sessions_) add(sums[peer->name()], peer->statistics());
  std::vector<engine::FrontendStatistics> all;
  for (auto& [name, sum] : sums) all.push_back(std::move(sum));
  return all;
}

}  // namespace fermata::cluster
