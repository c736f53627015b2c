#include "cluster/wire/stream_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>

#include "base/status.h"

namespace fermata::cluster {
namespace {

// By way of bytes.
template <class Text>
Text again(const Text& text) {
  Text read;
  EXPECT_TRUE(read.ParseFromString(text.SerializeAsString()));
  return read;
}

TEST(StreamMessages, WhatAClientSaysComesAsItWasSaid) {
  policy::StreamFrame frame{.client = "door", .owner = 7, .address = "10.0.0.9"};
  frame.rate_rps = 15;
  frame.bandwidth_mbps = 12.5;
  frame.sure_mbps = 8;
  frame.min_accuracy = 0.25;
  frame.slo = Duration::millis(150);
  frame.round_trip = Duration::micros(900);
  frame.input_size = 160;
  frame.bytes = 4321;
  engine::InferRequest request{.service = "cameras"};
  request.arrival = Time::from_nanos(-5);
  request.network_time = Duration::millis(3);
  request.frame = std::make_shared<policy::StreamFrame>(frame);
  ClientFrame text;
  write_frame(99, request, text);
  text = again(text);
  EXPECT_EQ(text.key(), 99u);
  const engine::InferRequest read = read_frame(text);
  EXPECT_EQ(read.service, "cameras");
  EXPECT_EQ(read.arrival, request.arrival);
  EXPECT_EQ(read.network_time, Duration::millis(3));
  EXPECT_EQ(read.frame->client, "door");
  EXPECT_EQ(read.frame->owner, 7u);
  EXPECT_EQ(read.frame->address, "10.0.0.9");
  EXPECT_EQ(read.frame->rate_rps, frame.rate_rps);
  EXPECT_EQ(read.frame->bandwidth_mbps, frame.bandwidth_mbps);
  EXPECT_EQ(read.frame->sure_mbps, frame.sure_mbps);
  EXPECT_EQ(read.frame->min_accuracy, frame.min_accuracy);
  EXPECT_EQ(read.frame->slo, frame.slo);
  EXPECT_EQ(read.frame->round_trip, frame.round_trip);
  EXPECT_EQ(read.frame->input_size, frame.input_size);
  EXPECT_EQ(read.frame->bytes, 4321u);
  EXPECT_FALSE(read.frame->hello || read.frame->leave);
}

// What it leaves out stays as it was.
TEST(StreamMessages, WhatAClientLeavesOutIsNotSaid) {
  engine::InferRequest request;
  request.frame = std::make_shared<policy::StreamFrame>();
  request.frame->hello = request.frame->leave = true;
  ClientFrame text;
  write_frame(1, request, text);
  const policy::StreamFrame read = *read_frame(again(text)).frame;
  EXPECT_TRUE(read.hello && read.leave);
  EXPECT_FALSE(read.rate_rps || read.bandwidth_mbps || read.sure_mbps || read.min_accuracy);
  EXPECT_FALSE(read.slo || read.round_trip || read.input_size);
}

TEST(StreamMessages, TimesThatNoClockHasAreBounded) {
  ClientFrame text;
  text.set_arrival_nanos(std::numeric_limits<int64_t>::min());
  text.set_network_nanos(std::numeric_limits<uint64_t>::max());
  text.set_slo_nanos(std::numeric_limits<uint64_t>::max());
  const engine::InferRequest read = read_frame(text);
  EXPECT_GT(read.network_time, Duration());
  EXPECT_LT(read.arrival + Duration::seconds(1), Time());
  EXPECT_GT(*read.frame->slo, Duration());
  Directed answer;
  answer.set_timeout_nanos(std::numeric_limits<int64_t>::max());
  answer.set_start_after_nanos(std::numeric_limits<uint64_t>::max());
  EXPECT_GT(Time::from_nanos(1) + read_directed(answer)->start_after, Time());
}

TEST(StreamMessages, WhereAFrameGoesComesAsItWasSaid) {
  const engine::StreamDirection direction{.service = "side-48",
                                          .timeout = Duration::millis(-3),
                                          .network_time = Duration::millis(2),
                                          .start_after = Duration::millis(1),
                                          .advice = {64, Duration::millis(-8)}};
  Directed text;
  write_directed(5, direction, text);
  text = again(text);
  EXPECT_EQ(text.key(), 5u);
  const auto read = read_directed(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->status.ok());
  EXPECT_EQ(read->service, "side-48");
  EXPECT_EQ(read->timeout, Duration::millis(-3));
  EXPECT_EQ(read->network_time, Duration::millis(2));
  EXPECT_EQ(read->start_after, Duration::millis(1));
  EXPECT_EQ(read->advice.input_size, 64u);
  EXPECT_EQ(read->advice.shift, Duration::millis(-8));
}

TEST(StreamMessages, WhyAFrameIsNotServedComesWithAdviceUpToABound) {
  const std::string why(1 << 20, 'x');
  Directed text;
  write_directed(
      5, {.status = error(absl::StatusCode::kResourceExhausted, "{}", why), .advice = {32, {}}},
      text);
  const auto read = read_directed(again(text));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(read->status.message().size(), size_t{64} << 10);
  EXPECT_EQ(read->advice.input_size, 32u);
}

TEST(StreamMessages, WhatOperatorsTakeComesAsItWasSaid) {
  OperatorTimes text;
  write_operators("cameras", {Duration::millis(3), Duration::millis(-1)}, text);
  text = again(text);
  EXPECT_EQ(text.stream(), "cameras");
  EXPECT_THAT(read_operators(text), ::testing::ElementsAre(Duration::millis(3), Duration()));
}

TEST(StreamMessages, WhatNoSchedulerSendsIsAnError) {
  Directed text;
  text.set_code(17);
  EXPECT_TRUE(absl::IsInvalidArgument(read_directed(text).status()));
  text.set_code(14);
  text.set_service("side-48");
  EXPECT_TRUE(absl::IsInvalidArgument(read_directed(text).status()));
}

}  // namespace
}  // namespace fermata::cluster
