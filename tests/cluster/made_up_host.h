#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/wire/messages.h"
#include "cluster/wire/tcp_channel.h"
#include "engine/execute/executor.h"

namespace fermata::cluster {

// A host that joins with one worker, loads what it is told, and hands its batches to a test.
class MadeUpHost {
 public:
  explicit MadeUpHost(uint16_t port, const std::string& name = "made-up")
      : address_(fmt::format("127.0.0.1:{}", port)) {
    control_ = connect();
    Message greeting;
    Hello& hello = *greeting.mutable_hello();
    hello.set_version(kVersion);
    hello.set_host(name);
    hello.set_type("far");
    hello.set_slots(1);
    EXPECT_TRUE(control_->send(greeting).ok());
    session_ = control_->receive()->message.welcome().session();
    slot_ = attach(false);
    loads_ = attach(true);
    threads_.emplace_back([this] { answer_loads(); });
    threads_.emplace_back([this] { answer_beats(); });
  }
  ~MadeUpHost() {
    for (const auto& channel : {control_, slot_, loads_}) channel->cut();
    for (std::thread& thread : threads_) thread.join();
  }
  Batch batch() { return slot_->receive()->message.batch(); }
  // Zeros, as its model would give them.
  void answer(const Batch& batch, const Signature& signature, Duration run = Duration()) {
    engine::BatchResult result;
    result.run = run;
    for (const Part& part : batch.parts()) {
      Shape item = signature.outputs[0].dims;
      std::replace(item.begin(), item.end(), int64_t{-1}, int64_t{1});
      result.parts.emplace_back(std::vector{zeros(signature.outputs[0], item, part.items())});
    }
    const Outgoing out = write_ended(batch.number(), Duration(), result);
    EXPECT_TRUE(slot_->send(out.message, out.payload).ok());
  }
  void die() {
    for (const auto& channel : {slot_, loads_, control_}) channel->cut();
  }
  void fall_silent() { silent_ = true; }
  void leave() { leaving_ = true; }
  absl::StatusOr<Frame> next() { return slot_->receive(); }
  void say(const Message& message, absl::Span<const Channel::Bytes> payload = {}) {
    EXPECT_TRUE(slot_->send(message, payload).ok());
  }
  // Of one that may be given up meanwhile.
  absl::Status send(const Message& message, absl::Span<const Channel::Bytes> payload = {}) {
    return slot_->send(message, payload);
  }

 private:
  std::shared_ptr<Channel> connect() { return *Tcp::connect(address_, Duration::seconds(60)); }
  std::shared_ptr<Channel> attach(bool loads) {
    auto channel = connect();
    Message message;
    message.mutable_attach()->set_session(session_);
    message.mutable_attach()->set_loads(loads);
    EXPECT_TRUE(channel->send(message).ok());
    return channel;
  }
  void answer_loads() {
    while (loads_->receive().ok()) {
      Message answer;
      answer.mutable_loaded();
      if (!loads_->send(answer).ok()) return;
    }
  }
  void answer_beats() {
    while (true) {
      const auto beat = control_->receive();
      if (!beat.ok()) return;
      if (silent_) continue;
      Message echo;
      echo.mutable_echo()->set_number(beat->message.beat().number());
      echo.mutable_echo()->set_leaving(leaving_);
      if (!control_->send(echo).ok()) return;
    }
  }

  const std::string address_;
  std::shared_ptr<Channel> control_, slot_, loads_;
  uint64_t session_ = 0;
  std::atomic<bool> silent_{false}, leaving_{false};
  std::vector<std::thread> threads_;
};

}  // namespace fermata::cluster
