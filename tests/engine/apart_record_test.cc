#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/apart/record.h"
#include "engine/fixture.h"

namespace fermata::engine::apart {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kBegin = 4096, kEnd = 8192;

// A sound answer of two items, to be spoilt.
class Answer {
 public:
  Answer() : room_(kReplySize) {
    signature_.batches = true;
    signature_.max_batch = 4;
    signature_.outputs = {
        {.name = "y", .datatype = DataType::kFp32, .dims = {3}, .model_dims = {3}},
        {.name = "text", .datatype = DataType::kBytes, .dims = {-1}, .model_dims = {-1}}};
    const Tensor y = floats("y", {2, 3}, {1, 2, 3, 4, 5, 6});
    const Tensor words = text("text", {2, 1}, {"a", "bc"});
    const std::vector<Written> written = {{0, &y, kBegin}, {1, &words, kBegin + 64}};
    const std::vector<StageRun> stages = {{2, Duration::micros(7), true}};
    write_reply(9, absl::OkStatus(), written, stages, Duration::micros(8), absl::MakeSpan(room_));
  }

  ReplyRecord& head() { return *reinterpret_cast<ReplyRecord*>(room_.data()); }
  TensorRecord& tensor(size_t i) {
    return reinterpret_cast<TensorRecord*>(room_.data() + sizeof(ReplyRecord))[i];
  }
  absl::StatusOr<Reply> read() {
    return read_reply(room_, {.number = 9,
                              .signature = &signature_,
                              .outputs = names_,
                              .parts = 2,
                              .begin = kBegin,
                              .end = kEnd});
  }
  std::string error() { return std::string(read().status().message()); }

 private:
  std::vector<std::byte> room_;
  Signature signature_;
  const std::vector<std::string> names_ = {"y", "text"};
};

TEST(Record, ASoundAnswerIsTaken) {
  const auto reply = Answer().read();
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->outputs.size(), 2u);
  EXPECT_THAT(reply->outputs[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(reply->outputs[0].bytes, 24u);
  EXPECT_EQ(reply->outputs[1].offset, kBegin + 64);
  ASSERT_EQ(reply->stages.size(), 1u);
  EXPECT_EQ(reply->stages[0].took, Duration::micros(7));
}

// One field each, and what is said of it.
TEST(Record, WhatAProcessForgesIsRefused) {
  const auto spoilt = [](auto spoil) {
    Answer answer;
    spoil(answer);
    return answer.error();
  };
  EXPECT_THAT(spoilt([](Answer& a) { a.head().number = 8; }), HasSubstr("of batch 8, expected 9"));
  EXPECT_THAT(spoilt([](Answer& a) { a.head().outputs = 1 << 30; }), HasSubstr("cut off"));
  EXPECT_THAT(spoilt([](Answer& a) { a.head().stages = 0xFFFFFFFF; }), HasSubstr("cut off"));
  EXPECT_THAT(spoilt([](Answer& a) { a.head().stages = 9; }), HasSubstr("9 stages"));
  EXPECT_THAT(spoilt([](Answer& a) { a.head().outputs = 1; }), HasSubstr("has 1 of 2 outputs"));
  EXPECT_THAT(spoilt([](Answer& a) { a.head().code = 99; }), HasSubstr("code is 99"));
  EXPECT_THAT(spoilt([](Answer& a) {
                a.head().code = 3;
                a.head().text = 0xFFFFFFF0;
                a.head().text_bytes = 64;
              }),
              HasSubstr("cut off"));
  for (const uint64_t offset : {uint64_t{0}, kBegin - 1, kEnd - 23, kEnd + 1, ~uint64_t{0}}) {
    EXPECT_THAT(spoilt([&](Answer& a) { a.tensor(0).offset = offset; }), HasSubstr("lies at"));
  }
  EXPECT_THAT(spoilt([](Answer& a) { a.tensor(0).bytes = ~uint64_t{0}; }), HasSubstr("lies at"));
  EXPECT_THAT(spoilt([](Answer& a) { a.tensor(0).bytes = 20; }), HasSubstr("has 20 bytes"));
  EXPECT_THAT(spoilt([](Answer& a) { a.tensor(1).bytes = 4; }), HasSubstr("has 4 bytes"));
  EXPECT_THAT(spoilt([](Answer& a) { a.tensor(0).datatype = 12; }), HasSubstr("datatype 12"));
  EXPECT_THAT(spoilt([](Answer& a) { a.tensor(0).tensor = 7; }), HasSubstr("output 7 of 2"));
  EXPECT_THAT(spoilt([](Answer& a) { a.tensor(0).tensor = 1; }), HasSubstr("datatype"));
  EXPECT_THAT(spoilt([](Answer& a) { a.tensor(0).rank = 17; }), HasSubstr("over 16 dimensions"));
  EXPECT_THAT(spoilt([](Answer& a) { a.tensor(0).rank = 1; }), HasSubstr("expected [-1,3]"));
  EXPECT_THAT(spoilt([](Answer& a) { a.tensor(0).dims[1] = 4; }), HasSubstr("expected [-1,3]"));
  EXPECT_THAT(spoilt([](Answer& a) { a.tensor(0).dims[0] = -2; }), HasSubstr("has shape [-2,3]"));
  EXPECT_THAT(spoilt([](Answer& a) { a.tensor(1).dims[1] = int64_t{1} << 62; }),
              HasSubstr("has shape"));
  EXPECT_THAT(spoilt([](Answer& a) { a.tensor(0).part = 2; }), HasSubstr("part 2 of 2"));
  EXPECT_THAT(spoilt([](Answer& a) { a.tensor(0).part = 1; }), HasSubstr("and of its parts"));
  EXPECT_THAT(spoilt([](Answer& a) { std::swap(a.tensor(0), a.tensor(1)); }),
              HasSubstr("not asked for"));
}

TEST(Record, ARequestComesAsItWasWritten) {
  Signature signature;
  signature.batches = true;
  signature.inputs = {{.name = "a"}, {.name = "b"}};
  signature.outputs = {{.name = "y"}, {.name = "z"}};
  std::vector<std::byte> file(256), record(kRequestSize);
  const std::vector<OnnxInput> inputs = {
      {&signature.inputs[1].name, DataType::kFp32, {3, 2}, {file.data() + 64, 24}}};
  const std::vector<std::string> outputs = {"z"};
  const std::vector<BatchPart> parts = {{.items = 1, .request = 5}, {.items = 2, .request = 6}};
  ASSERT_TRUE(write_request({.number = 4,
                             .variant = 7,
                             .to_the_end = true,
                             .inputs = inputs,
                             .base = file.data(),
                             .outputs = outputs,
                             .parts = parts},
                            signature, absl::MakeSpan(record))
                  .ok());
  const auto request = read_request(record);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->number, 4u);
  EXPECT_EQ(request->items, 3u);
  EXPECT_TRUE(request->to_the_end);
  ASSERT_EQ(request->inputs.size(), 1u);
  EXPECT_EQ(request->inputs[0].tensor, 1u);
  EXPECT_EQ(request->inputs[0].offset, 64u);
  EXPECT_THAT(request->inputs[0].shape, ElementsAre(3, 2));
  EXPECT_THAT(request->outputs, ElementsAre(1));
  ASSERT_EQ(request->parts.size(), 2u);
  EXPECT_EQ(request->parts[1].request, 6u);
  EXPECT_FALSE(read_request(absl::MakeSpan(record).first(100)).ok());
}

// Who says little keeps it, whoever else is in its batch.
TEST(Record, LongNotesOfOnePartLeaveRoomForThoseOfOthers) {
  Signature signature;
  signature.batches = true;
  const std::string much = "{\"a\":\"" + std::string(kRequestSize - 135, 'x') + "\"}";
  const std::string little = "{\"b\":1}";
  const auto notes = [&](const std::vector<const std::string*>& by_part) {
    std::vector<std::byte> record(kRequestSize);
    std::vector<BatchPart> parts;
    for (const std::string* each : by_part) parts.push_back({.items = 1, .parameters = each});
    EXPECT_TRUE(
        write_request({.parts = parts, .notes = true}, signature, absl::MakeSpan(record)).ok());
    std::vector<std::string> written;
    const auto request = read_request(record);
    for (const PartRecord& part : request->parts) {
      written.emplace_back(reinterpret_cast<const char*>(record.data()) + part.notes,
                           part.notes_bytes);
    }
    return written;
  };
  EXPECT_THAT(notes({&much, nullptr}), ElementsAre(HasSubstr("xxx"), ""));
  EXPECT_THAT(notes({&much, &little}), ElementsAre("", "{\"parameters\":{\"b\":1}}"));
}

}  // namespace
}  // namespace fermata::engine::apart
