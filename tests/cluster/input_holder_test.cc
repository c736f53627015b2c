// Workers' connections with a frontend, over which inputs and outputs go.
#include "cluster/frontend/input_holder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/fixture.h"
#include "cluster/wire/tcp_channel.h"
#include "cluster/worker/holders.h"
#include "engine/execute/absence.h"

namespace fermata::cluster {
namespace {

constexpr std::chrono::minutes kTestPatience{2};

class InputsHeld : public ::testing::Test {
 protected:
  InputsHeld() { EXPECT_TRUE(holder_.listen("127.0.0.1", 0).ok()); }
  struct Asked {
    uint64_t key = 0;
    std::future<engine::ReplyPart> reply;
  };
  // Of one item.
  Asked add() {
    auto variant = std::make_shared<engine::Variant>();
    variant->signature = signature();
    HeldRequests::Request request{.variant = std::move(variant)};
    request.request.inputs = {numbers("x", {1, 2}, {1, 2}), texts("s", {"a"})};
    request.admitted.items = 1;
    std::promise<engine::ReplyPart> promise;
    auto reply = promise.get_future();
    request.reply = [promise = std::move(promise)](engine::ReplyPart part) mutable {
      promise.set_value(std::move(part));  // throws where it is called twice
    };
    const uint64_t key = requests_.next_key();
    requests_.add(key, std::move(request), 1, [](auto, const auto&) {});
    return {key, std::move(reply)};
  }
  static std::vector<Tensor> outputs(float value) {
    return {numbers("y", {1, 1}, {value}), texts("t", {"long enough"})};
  }
  static engine::ReplyPart take(Asked& asked) {
    EXPECT_EQ(asked.reply.wait_for(kTestPatience), std::future_status::ready);
    return asked.reply.get();
  }
  static float value(const engine::ReplyPart& reply) {
    float value = 0;
    std::memcpy(&value, reply.outputs.at(0).data.bytes.data(), sizeof(value));
    return value;
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", holder_.port()); }
  Batch batch_of(const Asked& asked) const {
    Batch batch;
    batch.add_holders(address());
    Part& part = *batch.add_parts();
    part.set_items(1);
    part.set_holder(1);
    part.set_key(asked.key);
    return batch;
  }

  HeldRequests requests_{1};
  InputHolder holder_{requests_, {}};
  Lookout lookout_;
  Ways ways_{{}, lookout_};
};

TEST_F(InputsHeld, WrongOutputsOfOneRequestMoveNoneOfTheNext) {
  Asked wrong = add(), right = add();
  requests_.lost(1);  // so that the outputs are enough
  auto channel = *Tcp::connect(address(), Duration::seconds(60));
  Message greeting;
  greeting.mutable_attach();
  ASSERT_TRUE(channel->send(greeting).ok());
  Outgoing out;
  const auto answer = [&out](const Asked& asked, const std::vector<Tensor>& tensors) {
    Answered& answered = *out.message.mutable_outputs()->add_answered();
    answered.mutable_piece()->set_key(asked.key);
    answered.mutable_piece()->set_items(1);
    for (const Tensor& tensor : tensors) out.add(tensor, *answered.add_tensors());
  };
  std::vector<Tensor> others = outputs(1);
  others[0].name = "not of the model";
  answer(wrong, others);
  answer(right, outputs(7));
  ASSERT_TRUE(channel->send(out.message, out.payload).ok());
  EXPECT_TRUE(absl::IsInternal(take(wrong).status));
  const engine::ReplyPart reply = take(right);
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(value(reply), 7);
}

// The scheduler is gone, and with it the session; what runs is worth its frontend's while.
TEST_F(InputsHeld, OutputsOfWhatRunsAreBroughtAfterTheEnd) {
  Asked asked = add();
  const Batch batch = batch_of(asked);
  engine::Variant variant{.model = "m"};
  variant.signature = signature();
  Holders holders(ways_);
  const auto fetched = holders.fetch(batch, variant, monotonic_now());
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ASSERT_TRUE(fetched->parts[0].status.ok()) << fetched->parts[0].status;
  requests_.lost(1);
  holders.end();
  EXPECT_FALSE(holders.fetch(batch, variant, monotonic_now()).ok());
  engine::BatchResult result;
  result.parts.emplace_back(outputs(7));
  EXPECT_GT(holders.bring(batch, variant, result), 0u);
  EXPECT_TRUE(result.parts[0].ok());
  EXPECT_EQ(value(take(asked)), 7);
}

TEST_F(InputsHeld, AWayThatIsCutIsRememberedUntilItIsThereAgain) {
  Asked asked = add();
  engine::Variant variant{.model = "m"};
  variant.signature = signature();
  auto silent = *Tcp::listen("127.0.0.1", 0);  // whoever connects hears nothing
  const uint16_t port = silent->port();
  const std::string there = fmt::format("127.0.0.1:{}", port);
  Batch batch = batch_of(asked);
  batch.set_holders(0, there);
  Holders one(ways_), other(ways_);
  const auto cut = one.fetch(batch, variant, monotonic_now());
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(engine::absence_of(cut->parts[0].status), engine::Absence::kCut);
  EXPECT_FALSE(ways_.check(there).ok());
  const auto at_once = other.fetch(batch, variant, monotonic_now());
  EXPECT_EQ(engine::absence_of(at_once->parts[0].status), engine::Absence::kCut);
  silent.reset();
  InputHolder again(requests_, {});
  ASSERT_TRUE(again.listen("127.0.0.1", port).ok());
  while (!ways_.check(there).ok()) std::this_thread::yield();
  const auto fetched = other.fetch(batch, variant, monotonic_now());
  EXPECT_TRUE(fetched->parts[0].status.ok()) << fetched->parts[0].status;
}

}  // namespace
}  // namespace fermata::cluster
