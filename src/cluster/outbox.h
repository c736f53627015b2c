#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "cluster/channel.h"

namespace fermata::cluster {

// What any thread has to say over one channel, which only this sends on: as much as there is in one
// message. Who comes while nobody sends does it; a thread of its own takes over where much comes.
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
    send(lock, kRounds);
  }
  // `add` puts it into the message, under a lock.
  void say(absl::FunctionRef<void(Message&)> add) {
    std::unique_lock lock(mutex_);
    if (over_) return;
    add(waiting_);
    any_ = true;
    send(lock, kRounds);
  }

 private:
  static constexpr int kRounds = 4;  // of one who has something else to do
  // By the other side, or the channel ends: else who says something would wait without end.
  static constexpr Duration kTaken = Duration::seconds(2);

  void send(std::unique_lock<std::mutex>& lock, int rounds) {
    if (busy_ || channel_ == nullptr) return;
    busy_ = true;
    for (; any_ && !over_ && rounds > 0; --rounds) {
      std::swap(waiting_, leaving_);
      any_ = false;
      lock.unlock();
      channel_->expect_by(monotonic_now() + kTaken);
      const bool sent = channel_->send(leaving_).ok();
      channel_->expect_by(Time::infinite());
      clear(leaving_);
      lock.lock();
      over_ = over_ || !sent;
      if (!sent) channel_->cut();  // the other side hears of it
    }
    busy_ = false;
    if (any_ && !over_) changed_.notify_one();
  }
  // Keeps the memory of what it had.
  static void clear(Message& message) {
    if (message.has_asked()) {
      message.mutable_asked()->mutable_submits()->Clear();
      message.mutable_asked()->mutable_cancels()->Clear();
      message.mutable_asked()->mutable_learned()->Clear();
    } else if (message.has_told()) {
      message.mutable_told()->mutable_replies()->Clear();
      message.mutable_told()->clear_offered();
    } else {
      message.Clear();
    }
  }
  void help() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      changed_.wait(lock, [this] { return over_ || (any_ && !busy_ && channel_ != nullptr); });
      send(lock, 1 << 10);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Channel> channel_;
  Message waiting_, leaving_;
  bool any_ = false, busy_ = false, over_ = false;
  std::thread thread_;
};

}  // namespace fermata::cluster
