#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/fixture.h"

namespace fermata::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Engine> real_engine(const std::filesystem::path& repository) {
  auto engine = make_engine(options_for(repository));
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

class RealModels : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { engine_ = real_engine(data_folder() + "/repository").release(); }
  static void TearDownTestSuite() {
    delete engine_;
    engine_ = nullptr;
  }
  static inline Engine* engine_ = nullptr;
};

TEST_F(RealModels, AreAllReady) {
  for (const ModelStatus& row : engine_->index()) {
    EXPECT_EQ(row.state, ModelState::kReady) << row.name << ": " << row.reason;
  }
  const auto pair = engine_->catalog()->find("pair", "");
  ASSERT_TRUE(pair.ok());
  EXPECT_TRUE((*pair)->signature.batches);
  EXPECT_TRUE((*pair)->profile.measured());
  EXPECT_FALSE((*engine_->catalog()->find("whole", ""))->signature.batches);
}

TEST_F(RealModels, SeveralInputsAndOutputsInAnyOrder) {
  const ReplyPart reply = call(
      *engine_, {.service = "pair",
                 .id = "7",
                 .inputs = {ints("b", {1, 4}, {1, 1, 1, 1}), ints("a", {1, 4}, {1, 2, 3, 4})}});
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.id, "7");
  ASSERT_EQ(reply.outputs.size(), 2u);
  EXPECT_THAT(values<int32_t>(reply.outputs[0]), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(values<int32_t>(reply.outputs[1]), ElementsAre(0, 1, 2, 3));
}

TEST_F(RealModels, OnlyTheOutputsThatWereAskedFor) {
  const ReplyPart reply =
      call(*engine_, {.service = "pair",
                      .inputs = {ints("a", {1, 4}, {1, 2, 3, 4}), ints("b", {1, 4}, {1, 1, 1, 1})},
                      .outputs = {"difference"}});
  ASSERT_EQ(reply.outputs.size(), 1u);
  EXPECT_EQ(reply.outputs[0].name, "difference");
}

TEST_F(RealModels, StringsKeepTheirBytes) {
  const std::string odd("a\0b", 3);
  const ReplyPart reply = call(
      *engine_, {.service = "identity-bytes", .inputs = {text("x", {3, 1}, {odd, "", "grün"})}});
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  const Tensor expected = text("y", {3, 1}, {odd, "", "grün"});
  EXPECT_EQ(values<char>(reply.outputs[0]), values<char>(expected));
}

TEST_F(RealModels, WhatDoesNotBatchRunsAlone) {
  const ReplyPart reply = call(
      *engine_, {.service = "whole", .inputs = {floats("x", {3, 5}, std::vector<float>(15, 2))}});
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_THAT(values<float>(reply.outputs[0]), Each(-2));
  EXPECT_EQ(reply.why.batch_items, 1u);
}

TEST_F(RealModels, ShapesOfAnyLength) {
  for (int64_t length : {1, 5, 3, 5}) {
    std::vector<int32_t> numbers(static_cast<size_t>(length), 4);
    const ReplyPart reply =
        call(*engine_, {.service = "identity-int32", .inputs = {ints("x", {1, length}, numbers)}});
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_THAT(reply.outputs[0].shape, ElementsAre(1, length));
  }
}

TEST_F(RealModels, ARequestLargerThanABatchIsSplitAndJoined) {
  std::vector<float> numbers(150 * 16);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 7);
  const ReplyPart whole =
      call(*engine_, {.service = "dense", .inputs = {floats("x", {150, 16}, numbers)}});
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  EXPECT_THAT(whole.outputs[0].shape, ElementsAre(150, 8));
  const std::vector<float> last(numbers.end() - 16, numbers.end());
  const ReplyPart one =
      call(*engine_, {.service = "dense", .inputs = {floats("x", {1, 16}, last)}});
  const std::vector<float> all = values<float>(whole.outputs[0]);
  const std::vector<float> alone = values<float>(one.outputs[0]);
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(all[149 * 8 + i], alone[i], 1e-4);
}

TEST_F(RealModels, ABudgetThatCannotBeKeptIsRefusedWithReasons) {
  const ReplyPart reply =
      call(*engine_, {.service = "pair",
                      .inputs = {ints("a", {1, 4}, {1, 2, 3, 4}), ints("b", {1, 4}, {1, 1, 1, 1})},
                      .timeout = Duration::nanos(1)});
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(reply.status.message()), HasSubstr("the budget was 0.000 ms"));
  EXPECT_EQ(reply.why.outcome, Outcome::kRejectedDeadline);
  EXPECT_GT(reply.why.run, Duration());
}

struct BadRequest {
  InferRequest request;
  absl::StatusCode code;
  std::string says;
};

TEST_F(RealModels, BadRequestsAreToldWhatIsWrong) {
  const Tensor a = ints("a", {1, 4}, {1, 2, 3, 4}), b = ints("b", {1, 4}, {1, 1, 1, 1});
  Tensor short_data = ints("b", {2, 4}, {1});
  std::vector<BadRequest> cases;
  const auto invalid = absl::StatusCode::kInvalidArgument;
  cases.push_back(
      {{.service = "nobody"}, absl::StatusCode::kNotFound, "Request for unknown model: 'nobody'"});
  cases.push_back(
      {{.service = "pair", .version = "9"}, absl::StatusCode::kNotFound, "version '9'"});
  cases.push_back({{.service = "pair", .inputs = {a}}, invalid, "input 'b' is missing"});
  cases.push_back({{.service = "pair", .inputs = {a, b, floats("c", {1}, {1})}}, invalid, "'c'"});
  cases.push_back({{.service = "pair", .inputs = {a, b, b}}, invalid, "twice"});
  cases.push_back({{.service = "pair", .inputs = {a, b}, .outputs = {"z"}}, invalid, "output 'z'"});
  cases.push_back({{.service = "pair", .inputs = {a, ints("b", {4}, {1, 1, 1, 1})}},
                   invalid,
                   "shape is [4], expected [-1,4]"});
  cases.push_back({{.service = "pair", .inputs = {ints("a", {2, 4}, std::vector<int32_t>(8)), b}},
                   invalid,
                   "has 1 items, but 'a' has 2"});
  cases.push_back(
      {{.service = "pair", .inputs = {ints("a", {2, 4}, std::vector<int32_t>(8)), short_data}},
       invalid,
       "has 4 bytes, but shape [2,4] of INT32 needs 32"});
  cases.push_back({{.service = "pair", .inputs = {ints("a", {0, 4}, {}), b}},
                   invalid,
                   "shape [0,4] has no items, expected at least one"});
  cases.push_back({{.service = "identity-int32", .inputs = {ints("x", {1 << 30, 0}, {})}},
                   absl::StatusCode::kOutOfRange,
                   "1073741824 items run in 16777216 parts, expected at most 1024 "
                   "(limits.request_parts)"});
  cases.push_back({{.service = "pair", .inputs = {floats("a", {1, 4}, {1, 2, 3, 4}), b}},
                   invalid,
                   "datatype is FP32, expected INT32"});
  cases.push_back({{.service = "identity-bytes",
                    .inputs = {tensor<uint32_t>("x", DataType::kBytes, {1, 1}, {100})}},
                   invalid,
                   "goes beyond the data"});
  cases.push_back({{.service = "identity-bytes", .inputs = {text("x", {2, 1}, {"one"})}},
                   invalid,
                   "holds 1 BYTES elements"});
  for (BadRequest& bad : cases) {
    const ReplyPart reply = call(*engine_, std::move(bad.request));
    EXPECT_EQ(reply.status.code(), bad.code) << reply.status;
    EXPECT_THAT(std::string(reply.status.message()), HasSubstr(bad.says));
    EXPECT_TRUE(reply.outputs.empty());
  }
}

}  // namespace
}  // namespace fermata::engine
