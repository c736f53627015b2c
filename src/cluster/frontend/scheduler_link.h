#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/options.h"
#include "cluster/wire/channel.h"
#include "cluster/wire/lookout.h"
#include "cluster/wire/outbox.h"

namespace fermata::cluster {

// A frontend's connections with the scheduler that is active, the first of several that takes it;
// found again whenever that is lost. Thread-safe.
class SchedulerLink {
 public:
  struct Options {
    std::vector<std::string> schedulers;  // HOST:PORT, which are tried in this order
    std::string name, address;            // as FrontendHello has them
    Duration silence = Duration::millis(300);
    TlsFiles tls;
    uint64_t first_session = 0;  // numbers of sessions are above that
  };
  // From threads of the link; a session's number is above 0, and none comes twice.
  struct Events {
    std::function<void(uint64_t session)> lost;
    std::function<void(const Told& told)> told;
  };

  SchedulerLink(Options options, Events events);
  ~SchedulerLink();
  void start();  // once: events come from now on
  void stop();   // none come from now on; blocks for those that have begun

  // Of the scheduler that is there; 0: none.
  uint64_t session() const;
  std::string why_none() const;  // when there was none last; empty: nothing was tried in vain yet
  Time heard() const { return Time::from_nanos(heard_.load()); }  // of any of them, last
  // To that session's scheduler; nothing, where it has ended. `add` as in Outbox::say().
  void say(uint64_t session, absl::FunctionRef<size_t(Asked&)> add);

 private:
  struct Session;
  void run();
  // OK once it has been a scheduler's frontend.
  absl::Status serve_once(const std::string& address);
  absl::StatusOr<std::shared_ptr<Channel>> connect(const std::string& address);
  absl::Status attach(Session& session, uint64_t number, const std::string& address);
  absl::Status serve(const std::shared_ptr<Session>& session, Channel& control, Duration silence);
  void listen(const std::shared_ptr<Session>& session);

  const Options options_;
  const Events events_;
  Lookout lookout_;
  uint64_t epoch_ = 0;  // the highest of any scheduler that it had
  uint64_t sessions_;
  std::atomic<int64_t> heard_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::string why_none_;
  std::shared_ptr<Channel> control_;
  std::shared_ptr<Session> session_;
  std::thread thread_;
};

}  // namespace fermata::cluster
