#include "engine/schedule/job.h"

#include <gmock/gmock.h>

#include "engine/composite/variants_service.h"
#include "engine/fixture.h"

namespace fermata::engine {
namespace {

using ::testing::HasSubstr;

// Each item of a request for a service of several variants may be answered by another one, and one
// may make more rows of it than the other.
TEST(Job, ItemsWhoseAnswersDoNotFitTogetherAreAnError) {
  auto variant = std::make_shared<Variant>();
  VariantsService service;
  service.variants = {variant};
  service.info.variants = {{}};
  auto route = std::make_shared<Route>();
  route->service = "either";
  route->variant = variant;
  route->variants = &service;
  route->counters = std::make_shared<Counters>();
  route->gate = std::make_shared<Gate>(1);
  std::vector<ReplyPart> replies;
  Job job(JobId(1), {}, [&replies](ReplyPart part) { replies.push_back(std::move(part)); }, route,
          {.items = 2});
  job.split(2);
  const PartRun run{.variant = variant.get()};
  job.answered(0, std::vector{floats("y", {1, 2}, {1, 2})}, run);
  EXPECT_TRUE(replies.empty());
  job.answered(1, std::vector{floats("y", {1, 3}, {1, 2, 3})}, run);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(replies[0].status.message()), HasSubstr("send one item a request"));
}

// An answer that comes when its request has ended is nobody's.
TEST(Job, OnlyAnswersThatAreTakenCount) {
  auto variant = std::make_shared<Variant>();
  auto service = std::make_shared<VariantsService>();
  service->variants = {variant};
  std::atomic<uint64_t> answered{0};
  auto route = std::make_shared<Route>();
  route->variant = variant;
  route->composite = service;
  route->answers = {&answered};
  route->counters = std::make_shared<Counters>();
  route->gate = std::make_shared<Gate>(1);
  const PartRun run{.variant = variant.get()};
  const auto answer = [&run](Job& job, uint32_t part) {
    job.answered(part, std::vector{floats("y", {1, 1}, {1})}, run);
  };
  Job whole(JobId(1), {}, [](ReplyPart) {}, route, {.items = 1});
  answer(whole, 0);
  EXPECT_EQ(answered, 1u);
  Job cancelled(JobId(2), {}, [](ReplyPart) {}, route, {.items = 1});
  EXPECT_TRUE(cancelled.end(Outcome::kCancelled, absl::CancelledError(), {}));
  answer(cancelled, 0);
  EXPECT_EQ(answered, 1u);
  Job in_parts(JobId(3), {}, [](ReplyPart) {}, route, {.items = 2});
  in_parts.split(2);
  answer(in_parts, 0);
  EXPECT_EQ(answered, 2u);
  EXPECT_TRUE(in_parts.end(Outcome::kCancelled, absl::CancelledError(), {}));
  answer(in_parts, 1);
  EXPECT_EQ(answered, 2u);
}

// Each takes half of what the others leave; together they fill the queue all the same.
TEST(Gate, AConnectionLeavesHalfOfAQueueToOthers) {
  Gate gate(8);
  const auto enter = [&gate](uint64_t connection) {
    int entered = 0;
    while (gate.enter(connection) == Gate::Entry::kTaken) ++entered;
    return entered;
  };
  EXPECT_EQ(enter(1), 4);
  EXPECT_EQ(gate.enter(1), Gate::Entry::kShareIsFull);
  EXPECT_EQ(enter(2), 2);
  EXPECT_EQ(enter(3), 1);
  EXPECT_EQ(enter(4), 1);
  EXPECT_EQ(gate.enter(5), Gate::Entry::kFull);
  EXPECT_EQ(gate.enter(0, /*anyway=*/true), Gate::Entry::kTaken);
  gate.leave(0);
  gate.leave(1);
  EXPECT_EQ(gate.enter(1), Gate::Entry::kShareIsFull);
  EXPECT_EQ(gate.enter(5), Gate::Entry::kTaken);
  Gate internal(3);  // of a pipeline's stages: no connection's
  for (int i = 0; i < 3; ++i) EXPECT_EQ(internal.enter(0), Gate::Entry::kTaken);
}

}  // namespace
}  // namespace fermata::engine
