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

}  // namespace
}  // namespace fermata::engine
