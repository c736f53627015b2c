#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "cluster/wire/channel.h"

namespace fermata::cluster {

// What any thread has to say over one channel, which only this sends on: as much as there is in one
// message, of about a megabyte at most. Who comes while nobody sends does it, if that needs no
// waiting; a thread of its own takes over where one thing follows another at once, or the other
// side does not read.
// What is said before the channel is there waits; after its end it is nobody's. A Lookout is over
// the channel, which nobody else expects anything of.
class Outbox {
 public:
  Outbox() : thread_([this] { help(); }) {}
  ~Outbox() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // Once.
  void open(std::shared_ptr<Channel> channel) {
    std::unique_lock lock(mutex_);
    channel_ = std::move(channel);
    send(lock, false);
  }
  // `add` puts it into the message, under a lock, and says how many bytes it takes there.
  void say(absl::FunctionRef<size_t(Message&)> add) {
    std::unique_lock lock(mutex_);
    if (over_) return;
    waiting_.bytes += 1 + add(waiting_.message);  // an empty thing is said too
    if (waiting_.bytes >= kMostBytes) full_.push_back(std::exchange(waiting_, {}));
    if (busy_ || channel_ == nullptr) return;
    const Time now = monotonic_now();
    if (now - std::exchange(last_, now) >= kAtOnce) return send(lock, false);
    changed_.notify_one();
  }

 private:
  // Of one who has something else to do, and of the thread.
  static constexpr int kRounds = 4, kMany = 1 << 10;
  // By the other side, or the channel ends: else what is said would wait without end.
  static constexpr Duration kTaken = Duration::seconds(2);
  // What follows so soon goes out with what follows it: replies to all of a batch.
  static constexpr Duration kAtOnce = Duration::micros(20);
  // A message is full from then on; one that has said so much does not keep its memory.
  static constexpr size_t kMostBytes = 1 << 20, kMostKept = 4 << 20;

  struct Draft {
    Message message;
    size_t bytes = 0;  // that it says
    size_t kept = 0;   // of all that it said before, whose memory it may have
  };

  bool any() const { return waiting_.bytes > 0 || !full_.empty(); }
  void send(std::unique_lock<std::mutex>& lock, bool is_thread) {
    if (busy_ || channel_ == nullptr) return;
    busy_ = true;
    for (int rounds = is_thread ? kMany : kRounds; any() && !over_ && rounds > 0; --rounds) {
      if (!is_thread && (!full_.empty() || !channel_->has_room())) break;
      take();
      lock.unlock();
      channel_->expect_by(monotonic_now() + kTaken);
      const bool sent = channel_->send(leaving_.message).ok();
      channel_->expect_by(Time::infinite());
      clear(leaving_);
      lock.lock();
      over_ = over_ || !sent;
      if (!sent) channel_->cut();  // the other side hears of it
    }
    busy_ = false;
    if (any() && !over_) changed_.notify_one();
  }
  // The oldest becomes what is leaving.
  void take() {
    if (full_.empty()) {
      std::swap(waiting_, leaving_);
    } else {
      leaving_ = std::move(full_.front());
      full_.pop_front();
    }
  }
  // Keeps the memory of what it had, but not for ever: each thing that a message says has as much
  // as the longest one ever had that stood there.
  static void clear(Draft& draft) {
    draft.kept += std::exchange(draft.bytes, 0);
    if (draft.kept >= kMostKept) draft = {};
    Message& message = draft.message;
    if (message.has_asked()) {
      message.mutable_asked()->mutable_submits()->Clear();
      message.mutable_asked()->mutable_cancels()->Clear();
      message.mutable_asked()->mutable_learned()->Clear();
      message.mutable_asked()->mutable_frames()->Clear();
      message.mutable_asked()->mutable_closed()->Clear();
      message.mutable_asked()->mutable_operators()->Clear();
    } else if (message.has_told()) {
      message.mutable_told()->mutable_replies()->Clear();
      message.mutable_told()->clear_offered();
      message.mutable_told()->mutable_directed()->Clear();
    } else {
      message.Clear();
    }
  }
  void help() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      changed_.wait(lock, [this] { return over_ || (any() && !busy_ && channel_ != nullptr); });
      send(lock, true);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Channel> channel_;
  Draft waiting_, leaving_;
  std::deque<Draft> full_;  // before what waits
  Time last_;               // when something was said, the last
  bool busy_ = false, over_ = false;
  std::thread thread_;
};

}  // namespace fermata::cluster
