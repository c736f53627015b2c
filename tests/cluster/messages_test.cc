#include "cluster/wire/messages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string_view>

#include "cluster/fixture.h"
#include "cluster/options.h"
#include "engine/execute/absence.h"

namespace fermata::cluster {
namespace {

using testing::HasSubstr;

const Time kNow = Time::from_nanos(1'000'000'000);

// Two requests, of the second two of its three items.
struct TwoParts {
  TwoParts() {
    first = {numbers("x", {1, 2}, {1, 2}), texts("s", {"a"})};
    second = {numbers("x", {3, 2}, {3, 4, 5, 6, 7, 8}), texts("s", {"b", "", "long"})};
    run.variant = VariantId(7);
    run.limit = Duration::seconds(3);
    run.parts = {{&first, &all, 0, 1}, {&second, &only_y, 1, 2}};
    run.parts[0].deadline = kNow + Duration::millis(50);
    run.parts[0].id = &id;
    run.parts[1].alone = true;
  }
  Frame sent() const { return frame_of(*write_batch(5, run, signature(), kNow)); }

  std::vector<Tensor> first, second;
  std::vector<std::string> all, only_y = {"y"};
  std::string id = "one";
  engine::BatchRun run;
};

// As it was on its way.
Frame read_again(Frame frame) {
  const std::string text = frame.message.SerializeAsString();
  EXPECT_TRUE(frame.message.ParseFromString(text));
  return frame;
}

float value(const Tensor& tensor, size_t at) {
  float number = 0;
  std::memcpy(&number, tensor.data.bytes.data() + at * sizeof(float), sizeof(float));
  return number;
}

TEST(Messages, ABatchArrivesAsItWasSent) {
  const TwoParts batch;
  const Time there = Time::from_nanos(5);  // another clock
  const auto received = read_batch(batch.sent(), signature(), there);
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->number, 5u);
  EXPECT_EQ(received->run.limit, Duration::seconds(3));
  ASSERT_EQ(received->run.parts.size(), 2u);
  const engine::BatchPart& one = received->run.parts[0];
  EXPECT_EQ(one.deadline, there + Duration::millis(50));
  EXPECT_EQ(*one.id, "one");
  const engine::BatchPart& two = received->run.parts[1];
  EXPECT_TRUE(two.alone);
  EXPECT_TRUE(two.deadline.is_infinite());
  EXPECT_EQ(two.first_item, 0u);
  EXPECT_EQ(two.items, 2u);
  EXPECT_EQ(*two.outputs, batch.only_y);
  EXPECT_EQ((*two.inputs)[0].shape, (Shape{2, 2}));
  EXPECT_EQ(value((*two.inputs)[0], 0), 5);
  EXPECT_EQ((*two.inputs)[1].data.bytes.size(), 4u + 4u + 4u);
}

// What a frame says of itself, changed in one place.
void expect_bad_batch(const std::function<void(Batch&)>& change, const std::string& why) {
  Frame frame = TwoParts().sent();
  change(*frame.message.mutable_batch());
  const auto received = read_batch(frame, signature(), kNow);
  ASSERT_FALSE(received.ok()) << why;
  EXPECT_THAT(std::string(received.status().message()), HasSubstr(why));
}

TEST(Messages, ABatchThatDoesNotFitItsFrameOrItsModelIsRefused) {
  const auto tensor = [](Batch& b) -> TensorHead& {
    return *b.mutable_parts(0)->mutable_tensors(0);
  };
  expect_bad_batch([&](Batch& b) { tensor(b).set_bytes(1 << 30); }, "of the frame are left");
  expect_bad_batch([&](Batch& b) { tensor(b).set_bytes(~uint64_t{0}); }, "of the frame are left");
  expect_bad_batch([&](Batch& b) { tensor(b).set_bytes(4); }, "4 bytes");
  expect_bad_batch([&](Batch& b) { tensor(b).set_datatype(14); }, "datatype 14");
  expect_bad_batch([&](Batch& b) { tensor(b).set_datatype(0); }, "datatype is BOOL");
  expect_bad_batch([&](Batch& b) { tensor(b).set_shape(0, -1); }, "shape");
  expect_bad_batch([&](Batch& b) { tensor(b).set_shape(1, int64_t{1} << 62); }, "shape");
  expect_bad_batch(
      [&](Batch& b) {
        for (int i = 0; i < 99; ++i) tensor(b).add_shape(1);
      },
      "dimensions");
  expect_bad_batch([&](Batch& b) { tensor(b).set_name("z"); }, "'x' is missing");
  expect_bad_batch([&](Batch& b) { b.mutable_parts(0)->set_items(2); }, "a part of 2 items");
  expect_bad_batch([&](Batch& b) { b.mutable_parts(0)->add_outputs("z"); }, "output 'z'");
  expect_bad_batch([&](Batch& b) { b.mutable_parts()->RemoveLast(); }, "and the frame");
  expect_bad_batch([&](Batch& b) { b.set_limit_nanos(~uint64_t{0}); }, "a time of");
  expect_bad_batch([&](Batch& b) { b.mutable_parts(0)->set_left_nanos(~uint64_t{0}); },
                   "a time of");
}

TEST(Messages, ABatchLargerThanTheModelTakesIsRefused) {
  Signature small = signature();
  small.max_batch = 2;
  EXPECT_THAT(std::string(read_batch(TwoParts().sent(), small, kNow).status().message()),
              HasSubstr("a batch of 3 items"));
  Frame empty = TwoParts().sent();
  empty.message.mutable_batch()->clear_parts();
  empty.bytes = 0;
  EXPECT_FALSE(read_batch(empty, signature(), kNow).ok());
}

engine::BatchResult result() {
  engine::BatchResult made;
  made.input = Duration::micros(1);
  made.run = Duration::millis(2);
  made.output = Duration::micros(3);
  made.stages = {{3, Duration::millis(1), true}};
  made.parts.emplace_back(std::vector{numbers("y", {1, 1}, {1}), texts("t", {"a"})});
  made.parts.emplace_back(std::vector{numbers("y", {2, 1}, {2, 3})});
  return made;
}

absl::StatusOr<ReceivedEnd> read(const Frame& frame, const TwoParts& batch) {
  return read_ended(frame, 5, batch.run.parts, signature());
}

TEST(Messages, AnEndArrivesAsItWasSent) {
  const TwoParts batch;
  const auto end = read(frame_of(write_ended(5, Duration::micros(9), result())), batch);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->waited, Duration::micros(9));
  EXPECT_EQ(end->result.run, Duration::millis(2));
  ASSERT_EQ(end->result.stages.size(), 1u);
  EXPECT_TRUE(end->result.stages[0].widened);
  ASSERT_EQ(end->result.parts.size(), 2u);
  EXPECT_EQ(value(end->result.parts[1]->at(0), 1), 3);
}

TEST(Messages, AFailedPartSaysWhyAndWhetherItRan) {
  const TwoParts batch;
  engine::BatchResult failed = result();
  failed.parts[0] = absl::InvalidArgumentError("a bad item");
  failed.parts[1] = engine::absent(engine::Absence::kLost, absl::InternalError("it died"));
  const auto end = read(frame_of(write_ended(5, Duration(), failed)), batch);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->result.parts[0].status(), absl::InvalidArgumentError("a bad item"));
  EXPECT_EQ(engine::absence_of(end->result.parts[0].status()), engine::Absence::kNone);
  EXPECT_EQ(engine::absence_of(end->result.parts[1].status()), engine::Absence::kLost);
}

void expect_bad_end(const std::function<void(Ended&)>& change, const std::string& why) {
  Frame frame = frame_of(write_ended(5, Duration(), result()));
  change(*frame.message.mutable_ended());
  const auto end = read(frame, TwoParts());
  ASSERT_FALSE(end.ok()) << why;
  EXPECT_THAT(std::string(end.status().message()), HasSubstr(why));
}

TEST(Messages, AnEndThatIsNoAnswerIsRefused) {
  const auto tensor = [](Ended& e) -> TensorHead& {
    return *e.mutable_parts(1)->mutable_tensors(0);
  };
  expect_bad_end([](Ended& e) { e.set_number(6); }, "the end of batch 6");
  expect_bad_end([](Ended& e) { e.mutable_parts()->RemoveLast(); }, "with 1 parts");
  expect_bad_end([](Ended& e) { e.set_run_nanos(~uint64_t{0}); }, "a time of");
  expect_bad_end(
      [](Ended& e) {
        for (int i = 0; i < 8; ++i) *e.add_stages() = e.stages(0);
      },
      "9 stages");
  expect_bad_end([&](Ended& e) { tensor(e).set_bytes(1 << 20); }, "of the frame are left");
  expect_bad_end([&](Ended& e) { tensor(e).set_bytes(4); }, "another size");
  expect_bad_end([&](Ended& e) { tensor(e).set_datatype(1); }, "another datatype");
  expect_bad_end([&](Ended& e) { tensor(e).set_shape(0, 1); }, "not by items");
  expect_bad_end([&](Ended& e) { tensor(e).set_shape(1, 2); }, "another shape");
  expect_bad_end([&](Ended& e) { tensor(e).set_name("t"); }, "another datatype");
  expect_bad_end([&](Ended& e) { tensor(e).set_name("z"); }, "not one of the model's");
  expect_bad_end([&](Ended& e) { *e.mutable_parts(1)->add_tensors() = tensor(e); },
                 "of the frame are left");
  expect_bad_end([](Ended& e) { e.mutable_parts(1)->clear_tensors(); }, "output 'y': missing");
  expect_bad_end([](Ended& e) { e.mutable_parts(0)->clear_tensors(); }, "0 outputs, expected 2");
}

TEST(Messages, AnOutputOfAnOpenRankHasNoNegativeDimension) {
  Signature open = signature();
  open.outputs[0].any_rank = true;
  Frame frame = frame_of(write_ended(5, Duration(), result()));
  TensorHead& y = *frame.message.mutable_ended()->mutable_parts(0)->mutable_tensors(0);
  y.set_shape(1, -3);
  y.add_shape(0);
  y.set_bytes(0);
  const TwoParts batch;
  const auto end = read_ended(frame, 5, batch.run.parts, open);
  EXPECT_THAT(std::string(end.status().message()), HasSubstr("no shape"));
}

TEST(Messages, WhatTheOtherSideWouldNotTakeIsNotSent) {
  const TwoParts batch;
  Outgoing out = *write_batch(5, batch.run, signature(), kNow);
  EXPECT_TRUE(out.check().ok());
  out.message.mutable_batch()->mutable_parts(0)->set_id(std::string(kFrameLimits.message, 'a'));
  EXPECT_TRUE(absl::IsResourceExhausted(out.check()));
}

// Of a client's making, or a model's.
TEST(Messages, TextsThatAreNoUtf8Arrive) {
  TwoParts batch;
  batch.id = "\xff\xfe";
  const auto received = read_batch(read_again(batch.sent()), signature(), kNow);
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(*received->run.parts[0].id, "\xff\xfe");
}

// What a part can tell of the messages: each field with its number and type.
uint64_t fingerprint() {
  uint64_t hash = 14695981039346656037u;
  const auto add = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  };
  const google::protobuf::FileDescriptor& file = *Message::descriptor()->file();
  for (int m = 0; m < file.message_type_count(); ++m) {
    for (int f = 0; f < file.message_type(m)->field_count(); ++f) {
      const google::protobuf::FieldDescriptor& field = *file.message_type(m)->field(f);
      const auto* const of = field.message_type();
      add(fmt::format("{}.{} {} {} {} {} {}\n", file.message_type(m)->name(), field.name(),
                      field.number(), static_cast<int>(field.type()), field.is_repeated(),
                      field.has_presence(), of == nullptr ? "" : of->name()));
    }
  }
  return hash;
}

// Else parts of two releases would take each other and misread what they say. Has the fingerprint
// changed, so has the version: write both here.
TEST(Messages, AreThoseOfTheirVersion) {
  EXPECT_EQ(kVersion, 5u);
  EXPECT_EQ(fingerprint(), 5782994575093600910u);
}

TEST(Messages, HostsCompareModelsByTheirText) {
  Signature other = signature();
  EXPECT_EQ(signature_text(signature()), signature_text(other));
  other.outputs[0].dims = {3};
  EXPECT_NE(signature_text(signature()), signature_text(other));
}

}  // namespace
}  // namespace fermata::cluster
