#include "cluster/wire/replies.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace fermata::cluster {
namespace {

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
