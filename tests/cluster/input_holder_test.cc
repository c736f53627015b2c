// Workers' connections with a frontend, over which inputs and outputs go.
#include "cluster/frontend/input_holder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cluster/fixture.h"
#include "cluster/wire/tcp_channel.h"
#include "cluster/wire/worker_listener.h"
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
  Asked add(uint32_t readers = 0, Tensor first = numbers("x", {1, 2}, {1, 2})) {
    auto variant = std::make_shared<engine::Variant>();
    variant->signature = signature();
    HeldRequests::Request request{.variant = std::move(variant)};
    request.request.inputs = {std::move(first), texts("s", {"a"})};
    request.request.readers = readers;
    if (readers > 0) request.request.outputs = {"y"};
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
  Keeper keeper_{{}};
  Ways ways_{{}, lookout_, keeper_};
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
  Holders holders(ways_, keeper_);
  const auto fetched = holders.fetch(batch, variant, monotonic_now());
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ASSERT_TRUE(fetched->parts[0].status.ok()) << fetched->parts[0].status;
  requests_.lost(1);
  holders.end();
  EXPECT_FALSE(holders.fetch(batch, variant, monotonic_now()).ok());
  engine::BatchResult result;
  result.parts.emplace_back(outputs(7));
  EXPECT_GT(holders.bring(batch, variant, *fetched, result), 0u);
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
  Holders one(ways_, keeper_), other(ways_, keeper_);
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

// All pieces that a batch has of a frontend come in one.
TEST_F(InputsHeld, MoreThanAFrameHoldsFailsTheBatchAndCutsNothing) {
  constexpr size_t kBytes = kFrameLimits.payload + sizeof(float);
  void* const room = ::mmap(nullptr, kBytes, PROT_NONE,  // which nobody looks at
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(room, MAP_FAILED);
  Tensor large{"x", DataType::kFp32, {1, int64_t{kBytes / sizeof(float)}}, {}};
  large.data.bytes = {static_cast<const std::byte*>(room), kBytes};
  Asked asked = add(0, std::move(large));
  engine::Variant variant{.model = "m"};
  variant.signature = signature();
  Holders holders(ways_, keeper_);
  const auto fetched = holders.fetch(batch_of(asked), variant, monotonic_now());
  EXPECT_TRUE(absl::IsResourceExhausted(fetched->parts[0].status)) << fetched->parts[0].status;
  EXPECT_TRUE(ways_.check(address()).ok());
  requests_.end_all(absl::UnavailableError("the test ends"));
  ::munmap(room, kBytes);
}

// At the same address, while the worker has a connection with the one before.
TEST_F(InputsHeld, AFrontendThatWasStartedAgainIsNotCutOff) {
  const Asked asked = add();
  engine::Variant variant{.model = "m"};
  variant.signature = signature();
  Batch batch = batch_of(asked);
  Holders holders(ways_, keeper_);
  auto first = std::make_unique<InputHolder>(requests_, TlsFiles());
  ASSERT_TRUE(first->listen("127.0.0.1", 0).ok());
  const uint16_t port = first->port();
  batch.set_holders(0, fmt::format("127.0.0.1:{}", port));
  EXPECT_TRUE(holders.fetch(batch, variant, monotonic_now())->parts[0].status.ok());
  first.reset();
  InputHolder again(requests_, {});
  ASSERT_TRUE(again.listen("127.0.0.1", port).ok());
  const auto fetched = holders.fetch(batch, variant, monotonic_now());
  EXPECT_TRUE(fetched->parts[0].status.ok()) << fetched->parts[0].status;
  EXPECT_TRUE(ways_.check(batch.holders(0)).ok());
}

// Frontends come and go without end, and each connection is a file of this process.
TEST_F(InputsHeld, AConnectionThatNobodyNeedsGoes) {
  const Asked asked = add();
  engine::Variant variant{.model = "m"};
  variant.signature = signature();
  const auto acceptor = *Tcp::listen("127.0.0.1", 0);
  std::shared_ptr<Channel> worker;  // as a frontend has it, which knows nothing of the request
  std::thread frontend([&] {
    worker = *acceptor->accept();
    EXPECT_TRUE(worker->receive()->message.has_attach());
    EXPECT_TRUE(worker->receive()->message.has_fetch());
    Message nothing;
    nothing.mutable_inputs()->add_given()->set_code(
        static_cast<uint32_t>(absl::StatusCode::kCancelled));
    EXPECT_TRUE(worker->send(nothing).ok());
  });
  Batch batch = batch_of(asked);
  batch.set_holders(0, fmt::format("127.0.0.1:{}", acceptor->port()));
  Holders holders(ways_, keeper_);
  const auto cancelled = holders.fetch(batch, variant, monotonic_now());
  EXPECT_TRUE(absl::IsCancelled(cancelled->parts[0].status));
  frontend.join();
  const Time later = monotonic_now() + Duration::seconds(120);
  EXPECT_TRUE(holders.fetch(batch_of(asked), variant, later)->parts[0].status.ok());
  lookout_.over(worker);
  worker->expect_by(monotonic_now() + Duration::seconds(60));
  EXPECT_FALSE(worker->receive().ok());
  EXPECT_FALSE(worker->late());
}

// Two hosts: the first runs a stage, and the second one that reads what it gave.
class StagesHeld : public InputsHeld {
 protected:
  StagesHeld() {
    variant_.signature = signature();
    EXPECT_TRUE(first_.keeper.listen("127.0.0.1", 0).ok());
  }
  struct Host {
    explicit Host(Lookout& lookout) : ways({}, lookout, keeper) {}
    Keeper keeper{{}};
    Ways ways;
    Holders holders{ways, keeper};
  };
  // Its reply: `y` of so much.
  engine::ReplyPart run(Host& host, Asked& asked, float value) {
    Batch batch = batch_of(asked);
    batch.mutable_parts(0)->add_outputs("y");
    const auto fetched = host.holders.fetch(batch, variant_, monotonic_now());
    EXPECT_TRUE(fetched.ok() && fetched->parts[0].status.ok());
    engine::BatchResult result;
    result.parts.emplace_back(std::vector{numbers("y", {1, 1}, {value})});
    moved_ = host.holders.bring(batch, variant_, *fetched, result);
    EXPECT_TRUE(result.parts[0].ok()) << result.parts[0].status();
    requests_.lost(1);  // so that the outputs are enough
    return take(asked);
  }
  // A request of the stage that reads it.
  Asked add_reader(const Tensor& from) {
    auto variant = std::make_shared<engine::Variant>();
    variant->signature = reader();
    HeldRequests::Request request{.variant = std::move(variant)};
    request.request.inputs = {from};
    request.request.inputs[0].name = "x";
    request.admitted.items = 1;
    std::promise<engine::ReplyPart> promise;
    auto reply = promise.get_future();
    request.reply = [promise = std::move(promise)](engine::ReplyPart part) mutable {
      promise.set_value(std::move(part));
    };
    const uint64_t key = requests_.next_key();
    requests_.add(key, std::move(request), 1, [](auto, const auto&) {});
    return {key, std::move(reply)};
  }
  static Tensor kept_at(const std::string& address) {
    Tensor tensor{"y", DataType::kFp32, {1, 1}, {}};
    tensor.data.elsewhere =
        std::make_shared<KeptElsewhere>(KeptElsewhere{address, 1, 0, sizeof(float), "y", {}});
    return tensor;
  }
  static Signature reader() {
    Signature made = signature();
    made.inputs = {{.name = "x", .datatype = DataType::kFp32, .dims = {1}, .model_dims = {1}}};
    return made;
  }
  Holders::Fetched fetch(const Asked& asked) {
    engine::Variant variant{.model = "reader"};
    variant.signature = reader();
    return *second_.holders.fetch(batch_of(asked), variant, monotonic_now());
  }

  engine::Variant variant_{.model = "m"};
  Host first_{lookout_}, second_{lookout_};
  uint64_t moved_ = 0;
};

TEST_F(StagesHeld, WhatAStageGaveGoesFromWorkerToWorker) {
  Asked asked = add(/*readers=*/1);
  const engine::ReplyPart reply = run(first_, asked, 7);
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(moved_, 0u);
  ASSERT_NE(reply.outputs.at(0).data.elsewhere, nullptr);
  EXPECT_EQ(reply.outputs[0].data.elsewhere->holder, first_.keeper.address());
  const Asked next = add_reader(reply.outputs[0]);
  const Holders::Fetched fetched = fetch(next);
  ASSERT_TRUE(fetched.parts[0].status.ok()) << fetched.parts[0].status;
  float value = 0;
  std::memcpy(&value, fetched.batch.requests[0].inputs[0].data.bytes.data(), sizeof(value));
  EXPECT_EQ(value, 7);
  EXPECT_EQ(first_.keeper.held(), 0u);
  EXPECT_TRUE(absl::IsDataLoss(fetch(next).parts[0].status));  // another worker has it
}

TEST_F(StagesHeld, WhatWentWithItsWorkerIsLost) {
  Asked asked = add(/*readers=*/1);
  Tensor given;
  {
    Host gone(lookout_);
    ASSERT_TRUE(gone.keeper.listen("127.0.0.1", 0).ok());
    given = run(gone, asked, 7).outputs.at(0);
  }
  const Asked next = add_reader(given);
  EXPECT_TRUE(absl::IsDataLoss(fetch(next).parts[0].status));
  EXPECT_TRUE(absl::IsDataLoss(fetch(next).parts[0].status));
  const auto lost = requests_.lose_inputs(next.key);
  ASSERT_TRUE(lost.has_value());
  const auto& from = *lost->request.inputs[0].data.elsewhere;
  const auto* source = static_cast<const HeldRequests::Source*>(from.source.get());
  EXPECT_EQ(from.name, "y");
  EXPECT_EQ(source->request.readers, 0u);
  EXPECT_EQ(source->request.inputs.size(), 2u);
  EXPECT_FALSE(requests_.lose_inputs(next.key).has_value());
}

// Which may have much to do: a stage runs again, and what else it keeps is still fetched there.
TEST_F(StagesHeld, AWorkerThatIsLateWithWhatItKeepsIsNotCutOff) {
  WorkerListener late({});
  const auto serve = [](const Attach&, Channel& channel) -> absl::Status {
    while (true) {
      ASSIGN_OR_RETURN(const Frame frame, channel.receive());
      Message nothing;
      nothing.mutable_inputs();
      if (frame.message.fetch().kept_size() == 0) RETURN_IF_ERROR(channel.send(nothing));
    }
  };
  ASSERT_TRUE(late.listen("127.0.0.1", 0, serve).ok());
  const std::string there = fmt::format("127.0.0.1:{}", late.port());
  const Asked next = add_reader(kept_at(there));
  EXPECT_TRUE(absl::IsDataLoss(fetch(next).parts[0].status));
  EXPECT_TRUE(second_.ways.check(there).ok());
}

TEST_F(StagesHeld, AWorkerThatKeepsSomethingAndSaysNothingIsCutOffInTheEnd) {
  const auto silent = *Tcp::listen("127.0.0.1", 0);  // whoever connects hears nothing
  const std::string there = fmt::format("127.0.0.1:{}", silent->port());
  const Asked next = add_reader(kept_at(there));
  EXPECT_TRUE(absl::IsDataLoss(fetch(next).parts[0].status));
  while (second_.ways.check(there).ok()) std::this_thread::yield();
}

TEST_F(StagesHeld, WhatNobodyElseReadsIsBrought) {
  Asked asked = add();
  const Batch batch = batch_of(asked);
  const auto fetched = first_.holders.fetch(batch, variant_, monotonic_now());
  ASSERT_TRUE(fetched.ok() && fetched->parts[0].status.ok());
  engine::BatchResult result;
  result.parts.emplace_back(outputs(7));
  EXPECT_GT(first_.holders.bring(batch, variant_, *fetched, result), 0u);
  EXPECT_EQ(first_.keeper.held(), 0u);
}

}  // namespace
}  // namespace fermata::cluster
