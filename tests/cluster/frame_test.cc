#include "cluster/wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fermata::cluster {
namespace {

using testing::HasSubstr;

std::string why_bad(absl::Span<const std::byte> bytes, const FrameLimits& limits = {100, 1000}) {
  return std::string(decode_head(bytes, limits).status().message());
}

TEST(Frame, AHeadIsReadAsItWasWritten) {
  const auto head = decode_head(encode_head({17, uint64_t{1} << 31}), {17, uint64_t{1} << 31});
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->message, 17u);
  EXPECT_EQ(head->payload, uint64_t{1} << 31);
}

TEST(Frame, AnotherBeginningAnotherLengthAndTooMuchAreRefused) {
  auto bytes = encode_head({17, 3});
  EXPECT_THAT(why_bad(absl::MakeSpan(bytes).subspan(1)), HasSubstr("15 bytes"));
  for (size_t i = 0; i < 4; ++i) {
    auto other = bytes;
    other[i] ^= std::byte{1};
    EXPECT_THAT(why_bad(other), HasSubstr("not a part of Fermata"));
  }
  EXPECT_THAT(why_bad(encode_head({101, 0})), HasSubstr("at most 100 and 1000"));
  EXPECT_THAT(why_bad(encode_head({0, 1001})), HasSubstr("at most 100 and 1000"));
  EXPECT_THAT(why_bad(encode_head({1, 1}), kGreetingLimits), HasSubstr("at most 4096 and 0"));
}

}  // namespace
}  // namespace fermata::cluster
