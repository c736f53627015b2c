#include "cluster/wire/outbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <vector>

namespace fermata::cluster {
namespace {

// One whose other side reads what the test lets it.
class SlowChannel : public Channel {
 public:
  ~SlowChannel() override { cut(); }
  absl::Status send(const Message& message, absl::Span<const Bytes>) override {
    reads_.acquire();
    if (ended_) return absl::UnavailableError("cut");
    const std::lock_guard lock(mutex_);
    read_.push_back(message);
    return absl::OkStatus();
  }
  absl::StatusOr<Frame> receive(const FrameLimits&) override { return absl::UnavailableError(""); }
  std::string peer() const override { return "it"; }
  bool has_room() const override { return false; }
  void read(int messages) { reads_.release(messages); }
  std::vector<Message> all_read() const {
    const std::lock_guard lock(mutex_);
    return read_;
  }

 private:
  void shut() override {
    ended_ = true;
    reads_.release(1000);
  }
  std::counting_semaphore<> reads_{0};
  std::atomic<bool> ended_{false};
  mutable std::mutex mutex_;
  std::vector<Message> read_;
};

void cancel(Outbox& outbox, uint64_t key) {
  outbox.say([key](Message& message) {
    message.mutable_asked()->add_cancels(key);
    return sizeof(key);
  });
}

TEST(Outbox, WhoSaysSomethingDoesNotWaitForWhoDoesNotRead) {
  const auto channel = std::make_shared<SlowChannel>();
  Outbox outbox;
  outbox.open(channel);
  for (uint64_t key = 1; key <= 3; ++key) cancel(outbox, key);  // else this would not return
  channel->read(3);
  uint64_t told = 0;
  while (told < 3) {
    told = 0;
    for (const Message& each : channel->all_read()) told += each.asked().cancels().size();
  }
  EXPECT_EQ(channel->all_read().front().asked().cancels(0), 1u);
}

TEST(Outbox, AnEmptyThingIsSaidToo) {
  const auto channel = std::make_shared<SlowChannel>();
  Outbox outbox;
  outbox.open(channel);
  outbox.say([](Message& message) {
    message.mutable_told()->mutable_offered();
    return size_t{0};
  });
  channel->read(1);
  while (channel->all_read().empty()) {
  }
  EXPECT_TRUE(channel->all_read().front().told().has_offered());
}

TEST(Outbox, MuchIsSaidInSeveralMessagesInOrder) {
  const auto channel = std::make_shared<SlowChannel>();
  Outbox outbox;
  constexpr uint64_t kRequests = 10'000;
  const std::string id(1000, 'x');
  for (uint64_t key = 1; key <= kRequests; ++key) {
    outbox.say([&](Message& message) {
      Submit& submit = *message.mutable_asked()->add_submits();
      submit.set_key(key);
      submit.set_id(id);
      return submit.ByteSizeLong();
    });
  }
  outbox.open(channel);
  channel->read(100);
  std::vector<uint64_t> keys;
  while (keys.size() < kRequests) {
    keys.clear();
    for (const Message& each : channel->all_read()) {
      EXPECT_LT(each.ByteSizeLong(), size_t{2} << 20);
      for (const Submit& submit : each.asked().submits()) keys.push_back(submit.key());
    }
  }
  for (uint64_t i = 0; i < kRequests; ++i) ASSERT_EQ(keys[i], i + 1);
}

TEST(Outbox, AFewThingsThatAreLongHaveMessagesOfTheirOwn) {
  const auto channel = std::make_shared<SlowChannel>();
  Outbox outbox;
  constexpr uint64_t kThings = 20;
  for (uint64_t key = 1; key <= kThings; ++key) {
    outbox.say([key](Message& message) {
      Submit& submit = *message.mutable_asked()->add_submits();
      submit.set_key(key);
      submit.set_id(std::string(3 << 20, 'x'));
      return submit.ByteSizeLong();
    });
  }
  outbox.open(channel);
  channel->read(100);
  while (channel->all_read().size() < kThings) {
  }
  for (const Message& each : channel->all_read()) EXPECT_EQ(each.asked().submits_size(), 1);
}

// Reads at once, and sees what memory the messages have.
class WideChannel : public SlowChannel {
 public:
  absl::Status send(const Message& message, absl::Span<const Bytes>) override {
    most_ = std::max(most_.load(), message.SpaceUsedLong());
    return absl::OkStatus();
  }
  bool has_room() const override { return true; }
  size_t most() const { return most_; }

 private:
  std::atomic<size_t> most_{0};
};

TEST(Outbox, MessagesDoNotKeepTheLongestThatEachPlaceHad) {
  const auto channel = std::make_shared<WideChannel>();
  std::optional<Outbox> outbox(std::in_place);
  outbox->open(channel);
  constexpr int kPlaces = 200, kItems = 100'000;
  for (int round = 0; round < kPlaces; ++round) {
    outbox->say([round](Message& message) {  // one place has much, each time another one
      for (int i = 0; i <= round; ++i) {
        Counts& counts = *message.mutable_asked()->add_learned()->add_items();
        if (i == round) counts.mutable_of_class()->Resize(kItems, 1);
      }
      return message.ByteSizeLong();
    });
  }
  outbox.reset();
  EXPECT_LT(channel->most(), size_t{kPlaces} * kItems * sizeof(uint32_t) / 4);
  EXPECT_GT(channel->most(), size_t{kItems});
}

}  // namespace
}  // namespace fermata::cluster
