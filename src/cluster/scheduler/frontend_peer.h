#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "cluster/wire/channel.h"
#include "cluster/wire/clock_offset.h"
#include "cluster/wire/outbox.h"
#include "engine/engine.h"
#include "engine/for_frontends.h"
#include "engine/snapshot.h"

namespace fermata::cluster {

// A frontend, as its scheduler sees it: from its hello to its end. What it asks and has not been
// answered is cancelled then, and the streams' clients of its connections have gone. Thread-safe.
class FrontendPeer : public std::enable_shared_from_this<FrontendPeer> {
 public:
  // `engine` is one for frontends.
  FrontendPeer(engine::Engine& engine, const FrontendHello& hello, const Channel& channel,
               uint64_t session);

  // Until the frontend is silent, or gone: why. Blocks.
  absl::Status beat(const std::shared_ptr<Channel>& channel, Duration silence);
  // One of its other connections, until its end; blocks where the frontend asks over it.
  absl::Status attach(uint32_t slot, const std::shared_ptr<Channel>& channel);
  void cut();  // its connections
  void end();  // the same, cancels what it has asked, and closes its streams

  const std::string& name() const { return name_; }
  const std::string& address() const { return *address_; }
  engine::FrontendStatistics statistics() const;  // of this session

 private:
  absl::Status serve_asked(Channel& channel);
  void submit(const Submit& asked, const ClockOffset::Bound& clock, Time now);
  void direct(const ClientFrame& asked, const ClockOffset::Bound& clock, Time now);
  void close(uint64_t connection);
  void cancel(uint64_t key);
  JobId job_of(uint64_t key);  // none: it has ended
  void answer(uint64_t key, const engine::ReplyPart& reply);
  void offer(Time now);

  engine::Engine& engine_;
  engine::ForFrontends& asked_of_;  // the same
  const std::string name_;
  const std::shared_ptr<const std::string> address_;
  const uint64_t session_;
  std::shared_ptr<Outbox> outbox_ = std::make_shared<Outbox>();
  std::shared_ptr<const engine::Catalog> offered_;  // the thread's that beats, as the next is
  std::string offered_rows_;
  Time offered_at_;  // looked at, whether it has changed
  std::atomic<uint64_t> requests_{0}, replies_{0};
  mutable std::mutex mutex_;
  bool over_ = false;
  std::condition_variable changed_;
  ClockOffset clock_;
  std::optional<ClockOffset::Bound> known_;
  std::vector<std::shared_ptr<Channel>> channels_;
  bool asks_ = false, is_told_ = false;        // that these connections are there
  std::unordered_map<uint64_t, JobId> asked_;  // by key; none: it is being submitted
  // Connections that have sent frames of streams: its own numbers, which no other frontend has.
  std::unordered_set<uint64_t> owners_;
};

}  // namespace fermata::cluster
