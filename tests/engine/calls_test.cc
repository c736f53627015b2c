// The stream on which a model's process calls other models.
#include "engine/apart/calls.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace fermata::engine::apart {
namespace {

constexpr size_t kCall = 64 << 10, kMostHeld = 4 * kCall;

std::string call(uint64_t number) {
  const std::string text =
      CallText{{"id", number},
               {"model", "m"},
               {"version", ""},
               {"request_id", ""},
               {"parameters", CallText::object()},
               {"outputs", CallText::array()},
               {"deadline", nullptr},
               {"inputs",
                {{{"name", "x"}, {"datatype", "UINT8"}, {"shape", {kCall}}, {"bytes", kCall}}}}}
          .dump();
  const std::array<uint64_t, 2> lengths = {text.size(), kCall};
  std::string all(sizeof(lengths), 0);
  std::memcpy(all.data(), lengths.data(), sizeof(lengths));
  return all + text + std::string(kCall, 'x');
}

// Answers when it is told to, with what it was asked.
class Models {
 public:
  Models() {
    calls_->open({.submit =
                      [this](InferRequest request, engine::Reply reply) {
                        const std::lock_guard lock(mutex_);
                        waiting_.emplace_back(std::move(request), std::move(reply));
                        most_ = std::max(most_, waiting_.size());
                        ++came_;
                        changed_.notify_all();
                        return JobId(came_);
                      },
                  .cancel = [](JobId) {}});
  }
  const std::shared_ptr<ModelCalls>& calls() const { return calls_; }
  void wait_for(size_t calls) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return came_ >= calls; });
  }
  void answer_one() {
    std::unique_lock lock(mutex_);
    auto [request, reply] = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    lock.unlock();
    reply({.outputs = std::move(request.inputs), .model = request.service});
  }
  size_t most() {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  const std::shared_ptr<ModelCalls> calls_ = std::make_shared<ModelCalls>();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<InferRequest, engine::Reply>> waiting_;
  size_t most_ = 0, came_ = 0;
};

// A process that calls so often, and takes its answers.
class Calling {
 public:
  Calling(int stream, size_t calls)
      : stream_(stream), sends_([this, calls] {
          for (uint64_t number = 1; number <= calls; ++number) {
            const std::string all = call(number);
            EXPECT_EQ(send(stream_, all.data(), all.size(), MSG_NOSIGNAL),
                      static_cast<ssize_t>(all.size()));
          }
        }) {}
  ~Calling() {
    sends_.join();
    close(stream_);
  }
  void take_answer() {
    std::array<uint64_t, 2> lengths{};
    ASSERT_EQ(recv(stream_, lengths.data(), sizeof(lengths), MSG_WAITALL),
              static_cast<ssize_t>(sizeof(lengths)));
    EXPECT_EQ(lengths[1], kCall);
    std::string rest(lengths[0] + lengths[1], 0);
    ASSERT_EQ(recv(stream_, rest.data(), rest.size(), MSG_WAITALL),
              static_cast<ssize_t>(rest.size()));
  }

 private:
  const int stream_;
  std::thread sends_;
};

TEST(Calls, AreReadWhileWhatTheyHoldIsBounded) {
  constexpr size_t kCalls = 40, kAtOnce = kMostHeld / kCall;
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  Models models;
  const Calls calls(ends[0], models.calls(), kMostHeld);
  Calling process(ends[1], kCalls);
  for (size_t answered = 0; answered < kCalls; ++answered) {
    models.wait_for(std::min(kCalls, answered + kAtOnce));
    models.answer_one();
    process.take_answer();
  }
  EXPECT_EQ(models.most(), kAtOnce);
}

}  // namespace
}  // namespace fermata::engine::apart
