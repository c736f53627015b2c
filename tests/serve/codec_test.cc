#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <simdjson.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "grpc_service.pb.h"
#include "serve/call/classification.h"
#include "serve/call/long_work.h"
#include "serve/call/shared_memory.h"
#include "serve/grpc/grpc_codec.h"
#include "serve/http/http_routes.h"
#include "serve/json/json_reply.h"
#include "serve/json/json_request.h"
#include "serve/json/json_weight.h"
#include "serve/json/message_json.h"
#include "serve/net/background.h"
#include "serve/net/compression.h"

namespace fermata::serve {
namespace {

using ::testing::HasSubstr;

template <class T>
Tensor tensor_of(DataType type, Shape shape, const std::vector<T>& values) {
  auto bytes = std::make_shared<std::vector<T>>(values);
  const auto* start = reinterpret_cast<const std::byte*>(bytes->data());
  return {"y", type, std::move(shape), {absl::MakeSpan(start, values.size() * sizeof(T)), bytes}};
}

std::string bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.bytes.data()), tensor.data.bytes.size()};
}

absl::StatusOr<InferCall> decode(std::string_view json) {
  HeldBytes uncounted;
  return decode_json_infer({json, {}, nullptr}, SharedMemory(), uncounted);
}

TEST(JsonRequest, ReadsEveryDatatypeThatJsonHas) {
  const std::tuple<const char*, const char*, size_t> cases[] = {
      {"BOOL", "[true,false,1]", 3},  {"UINT8", "[0,1,255]", 3},
      {"INT8", "[-128,0,127]", 3},    {"UINT16", "[0,1,65535]", 6},
      {"INT16", "[-32768,0,1]", 6},   {"UINT32", "[0,1,4294967295]", 12},
      {"INT32", "[-1,0,1]", 12},      {"UINT64", "[0,1,18446744073709551615]", 24},
      {"INT64", "[-1,0,1]", 24},      {"FP32", "[1,2.5,-1e3]", 12},
      {"FP64", "[1,2.5,-1e300]", 24}, {"BYTES", R"(["a","","bc"])", 15},
  };
  for (const auto& [type, data, size] : cases) {
    const auto call = decode(fmt::format(
        R"({{"inputs":[{{"data":{},"name":"x","shape":[3],"datatype":"{}"}}]}})", data, type));
    ASSERT_TRUE(call.ok()) << type << call.status();
    EXPECT_EQ(call->request.inputs[0].data.bytes.size(), size) << type;
  }
}

TEST(JsonRequest, HoldsTheTextsThatItCopies) {
  const std::string text(300'000, 'x');
  const auto held = [](std::string_view json) {
    const auto budget = std::make_shared<ByteBudget>(size_t{1} << 30);
    HeldBytes bytes(budget);
    EXPECT_TRUE(decode_json_infer({json, {}, nullptr}, SharedMemory(), bytes).ok());
    return budget->used();
  };
  EXPECT_GE(
      held(R"({"inputs":[{"name":")" + text + R"(","shape":[1],"datatype":"FP32","data":[1]}]})"),
      text.size());
  EXPECT_GE(held(R"({"inputs":[],"outputs":[{"name":")" + text + "\"}]}"), text.size());
}

// What the parser writes before it knows that a text is not JSON.
TEST(JsonWeight, IsAtLeastTheTextAndThePositionsInIt) {
  for (const std::string piece : {"}", "]", "1 ", "1\n", "\"\"", "\"\"1", "\x0c", "\x1a", ",", "[1",
                                  "{}", "[1,2]", "0.5,", "\"a\":"}) {
    std::string text;
    while (text.size() < 100'000) text += piece;
    simdjson::dom::parser parser;
    const auto failed = parser.parse(text).error();
    const size_t positions = parser.implementation->n_structural_indexes;
    EXPECT_NE(failed, simdjson::SUCCESS) << piece;
    EXPECT_GT(positions, 20'000) << piece;
    EXPECT_GE(infer_json_weight(text), text.size() + sizeof(uint32_t) * positions) << piece;
  }
}

TEST(JsonRequest, KeepsNothingOfALongBody) {
  const auto taken = [] {
    const struct mallinfo2 all = mallinfo2();
    return all.hblkhd + all.uordblks;
  };
  const size_t length = 16 << 20;
  const std::string json = R"({"inputs":[],"unknown":")" + std::string(length, 'x') + "\"}";
  ASSERT_TRUE(decode(R"({"inputs":[]})").ok());
  const size_t before = taken();
  ASSERT_TRUE(decode(json).ok());
  EXPECT_LT(taken(), before + length);
}

TEST(JsonRequest, RefusesElementsOutOfRange) {
  for (const auto& [type, data] : {std::pair{"UINT8", "[256]"},
                                   {"INT8", "[-129]"},
                                   {"UINT64", "[-1]"},
                                   {"INT64", "[9223372036854775808]"},
                                   {"INT32", "[1.5]"},
                                   {"BOOL", "[2]"},
                                   {"BYTES", "[1]"}}) {
    const auto call = decode(fmt::format(
        R"({{"inputs":[{{"name":"x","shape":[1],"datatype":"{}","data":{}}}]}})", type, data));
    EXPECT_EQ(call.status().code(), absl::StatusCode::kInvalidArgument) << type;
  }
}

TEST(JsonRequest, SaysWhereItIsNoJsonAndWhatStandsThere) {
  const auto says = [](std::string_view data) {
    return std::string(message(
        decode(
            fmt::format(R"({{"inputs":[{{"name":"x","shape":[2],"datatype":"FP32","data":{}}}]}})",
                        data))
            .status()));
  };
  for (const char* word : {"NaN", "Infinity", "-Infinity", "nan", "inf"}) {
    EXPECT_THAT(says(fmt::format("[1.5,{}]", word)),
                testing::AllOf(HasSubstr(fmt::format("line 1: {} has no JSON form", word)),
                               HasSubstr("binary_data_size")));
  }
  EXPECT_THAT(says("[1,\n2,,3]"), testing::AllOf(HasSubstr("line 2, column 3"),
                                                 testing::Not(HasSubstr("json.exception"))));
  EXPECT_THAT(says("[1,\n1e999]"), testing::AllOf(HasSubstr("line 2: "), HasSubstr("1e999")));
  EXPECT_THAT(says("[123456789012345678901]"), HasSubstr("123456789012345678901 has no place"));
  EXPECT_THAT(says(fmt::format("[{}]", std::string(100, '7'))), HasSubstr(": 77777"));
  EXPECT_THAT(says("[1,"), HasSubstr("is not JSON"));
  EXPECT_THAT(says(std::string(2000, '[')), HasSubstr("is not JSON"));
}

TEST(JsonRequest, SaysOfAShapeThatCannotBeWhatIsWrongWithIt) {
  const auto says = [](std::string_view shape) {
    return std::string(message(
        decode(
            fmt::format(R"({{"inputs":[{{"name":"x","shape":{},"datatype":"FP32","data":[1]}}]}})",
                        shape))
            .status()));
  };
  EXPECT_THAT(says("[-1,2]"), HasSubstr("shape [-1,2] has -1, expected dimensions from 0"));
  EXPECT_THAT(says("[4294967296,4294967296]"), HasSubstr("more elements than 64 bits count"));
  EXPECT_THAT(says("[0,4294967296,4294967296]"), HasSubstr("data has 1 elements"));
  EXPECT_THAT(says(fmt::format("[{}]", fmt::join(std::vector(65, 1), ","))),
              HasSubstr("65 dimensions, expected at most 64"));
}

TEST(JsonRequest, RefusesIdsAndParametersThatAreTooLong) {
  const auto says = [](size_t bytes, std::string_view text) {
    std::string value;
    while (value.size() < bytes * text.size()) value += text;
    return std::string(
        message(decode(R"({"inputs":[],"parameters":{"own":")" + value + "\"}}").status()));
  };
  EXPECT_THAT(std::string(message(
                  decode(R"({"inputs":[],"id":")" + std::string(4097, 'i') + "\"}").status())),
              HasSubstr("the id has 4097 bytes, expected at most 4096"));
  EXPECT_THAT(says(70'000, "x"), HasSubstr("too long as JSON, expected at most 65536"));
  // As JSON each takes six bytes.
  EXPECT_THAT(says(12'000, "\\u0001"), HasSubstr("expected at most 65536"));
  EXPECT_THAT(says(10'000, "\\u0001"), testing::IsEmpty());
}

TEST(JsonRequest, SharesTheBinaryPart) {
  const std::string json =
      R"({"inputs":[{"name":"x","shape":[2],"datatype":"INT8","parameters":{"binary_data_size":2}}]})";
  const auto body = std::make_shared<std::string>(json + "ab");
  HeldBytes uncounted;
  const auto call = decode_json_infer({*body, json.size(), body}, SharedMemory(), uncounted);
  ASSERT_TRUE(call.ok()) << call.status();
  const Payload& data = call->request.inputs[0].data;
  EXPECT_EQ(static_cast<const void*>(data.bytes.data()), body->data() + json.size());
  EXPECT_EQ(data.owner, body);
}

TEST(JsonReply, RefusesWhatJsonCannotSay) {
  for (const Tensor& tensor : {tensor_of<float>(DataType::kFp32, {1}, {NAN}),
                               tensor_of<uint16_t>(DataType::kFp16, {1}, {1}),
                               tensor_of<char>(DataType::kBytes, {1}, {1, 0, 0, 0, '\xff'})}) {
    std::string out;
    EXPECT_THAT(std::string(message(append_json_data(tensor, out))), HasSubstr("binary_data"));
  }
  std::string out;
  EXPECT_TRUE(
      append_json_data(tensor_of<char>(DataType::kBytes, {1}, {2, 0, 0, 0, '"', '\n'}), out).ok());
  EXPECT_EQ(out, R"(["\"\n"])");
}

TEST(JsonReply, SharesLargeOutputsAndCopiesSmallOnes) {
  for (const size_t count : {size_t{4}, size_t{100'000}}) {
    engine::ReplyPart part;
    part.outputs.push_back(tensor_of<int8_t>(DataType::kInt8, {static_cast<int64_t>(count)},
                                             std::vector<int8_t>(count, 7)));
    ReplyWishes wishes;
    wishes.binary_data_output = true;
    const auto reply = encode_json_reply(engine::ReplyPart(part), wishes, SharedMemory());
    ASSERT_TRUE(reply.ok());
    EXPECT_EQ(reply->tail.empty(), count == 4);
    EXPECT_EQ(reply->size(), *reply->json_length + count);
  }
}

TEST(Classification, GivesTheTopOfEachItem) {
  const Tensor scores = tensor_of<float>(DataType::kFp32, {2, 3}, {.25f, .5f, .25f, 3, NAN, -1});
  const auto top = classify(scores, 2, true);
  ASSERT_TRUE(top.ok());
  EXPECT_EQ(top->shape, (Shape{2, 2}));
  std::string expected;
  for (const std::string text : {"0.500000:1", "0.250000:0", "3.000000:0", "-1.000000:2"}) {
    expected += std::string(1, static_cast<char>(text.size())) + std::string(3, '\0') + text;
  }
  EXPECT_EQ(bytes_of(*top), expected);
  EXPECT_EQ(classify(scores, 9, false)->shape, (Shape{6}));
  const std::string labelled = bytes_of(*classify(scores, 2, true, {"cat", "dog"}));
  EXPECT_THAT(labelled, HasSubstr("0.500000:1:dog"));
  EXPECT_THAT(labelled, HasSubstr("0.250000:0:cat"));
  EXPECT_TRUE(labelled.ends_with("-1.000000:2"));
  EXPECT_FALSE(classify(tensor_of<char>(DataType::kBytes, {1}, {0, 0, 0, 0}), 1, false).ok());
}

TEST(Classification, IsBoundedAndHeldLikeWhatItMakes) {
  const auto count = static_cast<int64_t>(kMostRows);
  const auto many = [](int64_t values) {
    return tensor_of<uint8_t>(DataType::kUint8, {1, values}, std::vector<uint8_t>(values, 1));
  };
  EXPECT_EQ(classify(many(count), UINT32_MAX, true)->shape, (Shape{1, count}));
  EXPECT_THAT(std::string(message(classify(many(count + 1), UINT32_MAX, true).status())),
              HasSubstr("has 100001 classes in all, expected at most 100000"));
  const auto budget = std::make_shared<ByteBudget>(size_t{1} << 30);
  {
    const auto top = classify(many(count), UINT32_MAX, true, {}, HeldBytes(budget));
    ASSERT_TRUE(top.ok());
    EXPECT_GE(budget->used(), top->data.bytes.size());
  }
  EXPECT_EQ(budget->used(), 0u);
  const auto little = std::make_shared<ByteBudget>(size_t{1} << 20);
  EXPECT_TRUE(absl::IsResourceExhausted(
      classify(many(count), UINT32_MAX, true, {}, HeldBytes(little)).status()));
  EXPECT_TRUE(classify(many(count), 5, true, {}, HeldBytes(little)).ok());
}

TEST(Classification, IsMoreWorkTheMoreClassesAreAskedFor) {
  engine::ReplyPart part;
  part.outputs.push_back(tensor_of<uint8_t>(DataType::kUint8, {1, 60'000}, {}));
  ReplyWishes wishes;
  wishes.outputs.push_back({"y", {}});
  EXPECT_LT(work_of(part, wishes), kLong);
  wishes.outputs[0].parameters.classification = 5;
  EXPECT_LT(work_of(part, wishes), kLong);
  wishes.outputs[0].parameters.classification = UINT32_MAX;
  EXPECT_GE(work_of(part, wishes), Background::kLong);
}

// Blocks of a stream that say nothing take as long as what they look like.
TEST(Compression, ReadsOnlySoMuchAtATime) {
  const std::string nothing("\0\0\0\xff\xff", 5);
  std::string packed = "\x78\x9c";
  constexpr size_t kSteps = 4;
  while (packed.size() < kSteps * Unpacking::kReadAtATime) packed += nothing;
  Unpacking unpacking(packed, Encoding::kDeflate, 100);
  size_t steps = 0;
  const auto all = [](size_t) { return true; };
  for (auto whole = unpacking.step(all); whole.ok(); whole = unpacking.step(all)) ++steps;
  EXPECT_GE(steps, kSteps - 1);
}

TEST(Compression, ReadsWhatItWroteAndRefusesTheRest) {
  for (const Encoding encoding : {Encoding::kGzip, Encoding::kDeflate}) {
    const std::string packed = compress({"ab", "", "cd"}, encoding);
    EXPECT_EQ(*decompress(packed, encoding, 4), "abcd");
    EXPECT_FALSE(decompress(packed, encoding, 3).ok());
    EXPECT_FALSE(decompress(packed.substr(0, packed.size() - 3), encoding, 99).ok());
    EXPECT_FALSE(decompress(packed + "x", encoding, 99).ok());
  }
  EXPECT_EQ(choose_encoding("br, deflate;q=0.5, gzip"), Encoding::kDeflate);
  EXPECT_EQ(choose_encoding("gzip;q=0"), Encoding::kIdentity);
}

TEST(HttpRoutes, ReadNamesFromThePath) {
  const HttpRoute route = find_route(HttpMethod::kPost, "/v2/models/a%20b/versions/3/infer?x=1");
  EXPECT_EQ(route.call, HttpCall::kInfer);
  EXPECT_EQ(route.model, "a b");
  EXPECT_EQ(route.version, "3");
  EXPECT_EQ(find_route(HttpMethod::kGet, "/v2/models/m/infer").call, HttpCall::kWrongMethod);
  EXPECT_EQ(find_route(HttpMethod::kGet, "/v2/models/m/x").call, HttpCall::kUnknown);
  EXPECT_EQ(find_route(HttpMethod::kGet, std::string(99, '/') + "v2").call,
            HttpCall::kServerMetadata);
}

TEST(MessageJson, ShowsEveryFieldAndNumbersAsNumbers) {
  inference::StatisticDuration duration;
  duration.set_ns(UINT64_MAX);
  EXPECT_EQ(message_to_json(duration).dump(), R"({"count":0,"ns":18446744073709551615})");
  inference::SystemSharedMemoryStatusResponse status;
  (*status.mutable_regions())["r"].set_key("k");
  EXPECT_EQ(message_to_json(status).dump(),
            R"({"regions":{"r":{"name":"","key":"k","offset":0,"byte_size":0}}})");
}

TEST(RawRequest, WhereTwoDimensionsAreOpenTheBodyIsOneItem) {
  HeldBytes uncounted;
  engine::Variant variant;
  variant.signature.batches = true;
  variant.signature.inputs.push_back({"x", DataType::kFp32, {-1, 2}, {-1, 2}});
  const auto body = std::make_shared<std::string>(24, 'x');
  EXPECT_EQ(decode_raw_infer({*body, 0, body}, variant, uncounted)->request.inputs[0].shape,
            (Shape{1, 3, 2}));
  variant.signature.inputs[0].dims = {2};
  EXPECT_EQ(decode_raw_infer({*body, 0, body}, variant, uncounted)->request.inputs[0].shape,
            (Shape{3, 2}));
  variant.signature.inputs[0].dims = {-1, -1};
  EXPECT_FALSE(decode_raw_infer({*body, 0, body}, variant, uncounted).ok());
}

}  // namespace
}  // namespace fermata::serve
