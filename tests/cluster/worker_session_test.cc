// A worker's batches, as a scheduler asks for them.
#include "cluster/worker/worker_session.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "base/status.h"
#include "cluster/fixture.h"
#include "cluster/wire/tcp_channel.h"
#include "engine/execute/absence.h"

namespace fermata::cluster {
namespace {

// The process of its model is not there at first, and is back so much later.
class Restarted : public engine::Executor {
 public:
  static constexpr Duration kAway = Duration::millis(5);
  absl::Status load(std::shared_ptr<const engine::Variant>) override { return absl::OkStatus(); }
  void unload(VariantId) override {}
  void run(engine::BatchRun) override {}
  engine::BatchResult run_here(engine::BatchRun batch) override {
    engine::BatchResult result{.started = monotonic_now()};
    for (size_t i = 0; i < batch.parts.size(); ++i) {
      if (back_) {
        result.parts.emplace_back(std::vector{numbers("y", {1, 1}, {7}), texts("t", {"seven"})});
      } else {
        result.parts.emplace_back(
            engine::absent(engine::Absence::kAway, absl::UnavailableError("it restarts")));
      }
    }
    return result;
  }
  void when_back(VariantId, absl::AnyInvocable<void()> there) override {
    const Time end = monotonic_now() + kAway;
    while (monotonic_now() < end) std::this_thread::yield();
    back_ = true;
    there();
  }

 private:
  bool back_ = false;
};

// Without anybody who fetches or keeps something.
TEST(WorkerSession, ABeatForgetsWhatWasKeptTooLong) {
  Lookout lookout;
  Keeper keeper({});
  ASSERT_TRUE(keeper.listen("127.0.0.1", 0).ok());
  Ways ways({}, lookout, keeper);
  WorkerSlots slots({});
  WorkerSession session(slots, 0, ways, keeper,
                        [](const Load&) { return absl::NotFoundError("nothing is loaded"); });
  const Tensor tensor = numbers("y", {1}, {1});
  ASSERT_TRUE(keeper.keep(tensor.data.bytes, 1, monotonic_now() + Duration::millis(1)).has_value());
  const auto acceptor = *Tcp::listen("127.0.0.1", 0);
  const auto scheduler =
      *Tcp::connect(fmt::format("127.0.0.1:{}", acceptor->port()), Duration::seconds(60));
  const auto control = *acceptor->accept();
  std::thread beats([&] {
    const std::atomic<bool> leaving{false};
    EXPECT_FALSE(session.beat(*control, Duration::seconds(60), leaving).ok());
  });
  Message beat;
  for (uint64_t number = 1; keeper.held() > 0; ++number) {
    beat.mutable_beat()->set_number(number);
    ASSERT_TRUE(scheduler->send(beat).ok());
    ASSERT_TRUE(scheduler->receive().ok());
  }
  scheduler->cut();
  beats.join();
}

TEST(WorkerSession, TheWaitForAProcessIsNotPartOfTheWay) {
  Lookout lookout;
  Keeper keeper({});
  Ways ways({}, lookout, keeper);
  WorkerSlots slots({std::make_shared<Restarted>()});
  WorkerSession session(slots, 1, ways, keeper,
                        [](const Load&) { return absl::NotFoundError("nothing is loaded"); });
  const auto model = std::make_shared<engine::Variant>();
  model->signature = signature();
  ASSERT_TRUE(slots.load(0, 3, model).ok());
  const auto acceptor = *Tcp::listen("127.0.0.1", 0);
  const auto scheduler =
      *Tcp::connect(fmt::format("127.0.0.1:{}", acceptor->port()), Duration::seconds(60));
  session.serve(*acceptor->accept(), 0);
  const std::vector<Tensor> inputs = {numbers("x", {1, 2}, {1, 2}), texts("s", {"a"})};
  const std::vector<std::string> outputs;
  engine::BatchRun batch{.variant = VariantId(3)};
  batch.parts = {{&inputs, &outputs, 0, 1}};
  const Outgoing out = *write_batch(1, batch, model->signature, monotonic_now());
  ASSERT_TRUE(scheduler->send(out.message, out.payload).ok());
  const auto frame = scheduler->receive();
  ASSERT_TRUE(frame.ok()) << frame.status();
  const auto ended = read_ended(*frame, 1, batch.parts, model->signature);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_TRUE(ended->result.parts[0].ok()) << ended->result.parts[0].status();
  EXPECT_GE(ended->result.input, Restarted::kAway);
}

}  // namespace
}  // namespace fermata::cluster
