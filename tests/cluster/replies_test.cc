#include "cluster/wire/replies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace fermata::cluster {
namespace {

using ::testing::HasSubstr;

// A scheduler ends with a frontend that says more than may be in a frame, and with it all that the
// frontend asked for others.
TEST(Replies, ARequestOfLongNamesIsNotAskedOfASchedulerAndSaysSo) {
  engine::InferRequest request;
  request.id = std::string(64 << 10, 'x');
  EXPECT_TRUE(check_submit(request).ok());
  request.outputs = {"y"};
  const absl::Status longer = check_submit(request);
  EXPECT_TRUE(absl::IsInvalidArgument(longer));
  EXPECT_THAT(std::string(message(longer)), HasSubstr("65537 bytes, expected at most 65536"));
}

TEST(Replies, EvidenceOfManyItemsAndClassesIsToldUpToABound) {
  const policy::Estimate of_item = policy::Evidence(1000);
  EXPECT_TRUE(can_be_told(std::vector(4000, of_item)));
  EXPECT_FALSE(can_be_told(std::vector(5000, of_item)));
}

TEST(Replies, AnErrorIsToldUpToABound) {
  const engine::ReplyPart failed{.status = internal("{}", std::string(1 << 20, 'x'))};
  Reply reply;
  write_reply(1, failed, reply);
  EXPECT_EQ(reply.why().size(), size_t{64} << 10);
}

}  // namespace
}  // namespace fermata::cluster
