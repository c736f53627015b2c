#include "serve/grpc/message_weight.h"

#include <gmock/gmock.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "grpc_service.pb.h"

namespace fermata::serve {
namespace {

using inference::ModelInferRequest;

struct Weighed {
  absl::Status status;
  size_t bytes = 0;
};

// In pieces of `piece` bytes, as they may come.
Weighed weigh(const std::string& wire, size_t most = SIZE_MAX, int piece = -1) {
  google::protobuf::io::ArrayInputStream stream(wire.data(), static_cast<int>(wire.size()), piece);
  Weighed result;
  HeldBytes held(std::make_shared<ByteBudget>(most));
  result.status = hold_parsed(stream, *ModelInferRequest::descriptor(), held);
  result.bytes = held.bytes();
  return result;
}

using Fill = void (*)(ModelInferRequest&);
constexpr Fill kFills[] = {
    [](ModelInferRequest&) {},
    [](ModelInferRequest& m) { m.add_inputs(); },
    [](ModelInferRequest& m) { m.add_outputs()->set_name("y"); },
    [](ModelInferRequest& m) { m.add_raw_input_contents(); },
    [](ModelInferRequest& m) { m.add_raw_input_contents(std::string(1000, 'x')); },
    [](ModelInferRequest& m) {
      (*m.mutable_parameters())[std::to_string(m.parameters_size())].set_bool_param(true);
    },
    [](ModelInferRequest& m) {
      auto& input = *m.add_inputs();
      input.set_name("some name that is not short");
      (*input.mutable_parameters())["p"].set_string_param("v");
    },
    [](ModelInferRequest& m) {
      if (m.inputs().empty()) m.add_inputs();
      m.mutable_inputs(0)->add_shape(1);
      m.mutable_inputs(0)->mutable_contents()->add_int64_contents(1);
      m.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
      m.mutable_inputs(0)->mutable_contents()->add_bool_contents(true);
      m.mutable_inputs(0)->mutable_contents()->add_fp64_contents(1);
      m.mutable_inputs(0)->mutable_contents()->add_bytes_contents("");
    },
    // An unknown number, text and group.
    [](ModelInferRequest& m) {
      m.GetReflection()->MutableUnknownFields(&m)->AddVarint(100, 1);
      m.GetReflection()->MutableUnknownFields(&m)->AddLengthDelimited(101, "");
      m.GetReflection()->MutableUnknownFields(&m)->AddGroup(102)->AddVarint(1, 1);
    },
};

TEST(MessageWeight, IsAtLeastWhatTheMessageTakes) {
  for (const Fill& fill : kFills) {
    const auto which = &fill - kFills;
    ModelInferRequest message;
    for (int i = 0; i < 2000; ++i) fill(message);
    const std::string wire = message.SerializeAsString();
    ModelInferRequest parsed;
    ASSERT_TRUE(parsed.ParseFromString(wire));
    const Weighed whole = weigh(wire);
    EXPECT_TRUE(whole.status.ok()) << which << whole.status;
    EXPECT_GE(whole.bytes + sizeof(ModelInferRequest), parsed.SpaceUsedLong()) << which;
    EXPECT_EQ(weigh(wire, SIZE_MAX, 7).bytes, whole.bytes) << which;
  }
}

// Texts where a number is expected, which the parser keeps for an unknown field each.
TEST(MessageWeight, CountsTextsInPlaceOfNumbers) {
  std::string number;  // double_param of a parameter
  for (int i = 0; i < 5000; ++i) number += std::string("\x22\x00", 2);
  inference::InferParameter parameter;
  ASSERT_TRUE(parameter.ParseFromString(number));
  ModelInferRequest message;
  (*message.mutable_parameters())["p"] = parameter;
  const std::string wire = message.SerializeAsString();
  ModelInferRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(wire));
  EXPECT_GE(weigh(wire).bytes, parsed.SpaceUsedLong() - sizeof(ModelInferRequest));
  EXPECT_GT(weigh(wire).bytes, 5000u * 64);
}

TEST(MessageWeight, IsLittleMoreThanALongTensor) {
  ModelInferRequest message;
  message.add_inputs()->mutable_contents()->mutable_fp32_contents()->Resize(1'000'000, 1);
  message.add_raw_input_contents(std::string(5'000'000, 'x'));
  EXPECT_LT(weigh(message.SerializeAsString()).bytes, 9'010'000u);
}

TEST(MessageWeight, OfWhatNeverFitsSaysHowMuchItIsAndWhatToDo) {
  ModelInferRequest message;
  for (int i = 0; i < 1 << 16; ++i) message.add_inputs();
  const Weighed weighed = weigh(message.SerializeAsString(), 1 << 20);
  EXPECT_EQ(weighed.status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_LE(weighed.bytes, 1u << 20);
  EXPECT_THAT(std::string(weighed.status.message()),
              testing::AllOf(testing::HasSubstr("16 MiB"), testing::HasSubstr("may hold 1 MiB"),
                             testing::HasSubstr("raw_input_contents")));
}

TEST(MessageWeight, WhereOthersHoldTheMemoryItMayComeLater) {
  ModelInferRequest message;
  for (int i = 0; i < 1 << 10; ++i) message.add_inputs();
  const std::string wire = message.SerializeAsString();
  const auto budget = std::make_shared<ByteBudget>(1 << 20);
  ASSERT_TRUE(budget->take(1 << 19 | 1 << 18 | 1));
  HeldBytes held(std::make_shared<ByteBudget>(SIZE_MAX, budget));
  google::protobuf::io::ArrayInputStream stream(wire.data(), static_cast<int>(wire.size()));
  const absl::Status status = hold_parsed(stream, *ModelInferRequest::descriptor(), held);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("retry later"));
}

TEST(MessageWeight, StopsAtMorePartsThanAnyRequestHas) {
  std::string parts;
  while (parts.size() < 2 * 100'000) parts += std::string{0x2a, 0};  // an empty input
  EXPECT_TRUE(weigh(parts).status.ok());
  const Weighed beyond = weigh(parts + std::string{0x2a, 0} + "no message");
  EXPECT_EQ(beyond.status.message(),
            "the message has more than 100000 parts (tensors, parameters and the like)");
}

// Before it is read byte by byte; tensors may be as long as they are.
TEST(MessageWeight, StopsAtATextThatIsLongerThanAny) {
  ModelInferRequest request;
  request.add_raw_input_contents(std::string(3 << 20, 'x'));
  EXPECT_TRUE(weigh(request.SerializeAsString()).status.ok());
  request.set_id(std::string(3 << 20, 'x'));
  EXPECT_THAT(std::string(message(weigh(request.SerializeAsString()).status)),
              testing::HasSubstr("a text of more than 2097152 bytes"));
}

TEST(MessageWeight, RefusesWhatIsNoMessage) {
  using namespace std::string_literals;
  // Cut before a length and in a number; a text longer than its part; a zero; groups without their
  // end and start.
  for (const std::string& wire :
       {"\x2a"s, "\x08\xff"s, "\x2a\x02\x0a\x05hello"s, "\0"s, "\x0b"s, "\x0c"s}) {
    EXPECT_EQ(weigh(wire).status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(ModelInferRequest().ParseFromString(wire));
  }
}

}  // namespace
}  // namespace fermata::serve
