#include "engine/execute/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "engine/catalog.h"
#include "engine/execute/gather.h"
#include "engine/fixture.h"
#include "engine/onnx/onnx_model.h"
#include "engine/trial/loader.h"

namespace fermata::engine {
namespace {

using ::testing::ElementsAre;

// One executor with one of the test models in it.
class OneModel {
 public:
  explicit OneModel(const std::string& model) : OneModel(model, ExecutorKind::kOnnxRuntime, {}) {}
  OneModel(const std::string& model, ExecutorKind kind, const Profile& pace,
           std::optional<Isolation> isolation = std::nullopt)
      : options_(options_of(kind, isolation)),
        executors_(*make_executors(options_.workers)),
        executor_(executors_->make()) {
    Loader loader(options_, {&executors_, 1});
    Variant variant = *loader.open(*read_model_folder(options_.repository, model), 1);
    variant.profile = pace;
    variant_ = std::make_shared<const Variant>(std::move(variant));
    FERMATA_CHECK(executor_->load(variant_).ok());
  }

  // `inputs` outlive the run.
  void start(const std::vector<Tensor>& inputs, absl::AnyInvocable<void(BatchResult)> done) {
    executor_->run({.variant = variant_->id,
                    .parts = {{&inputs, &all_outputs_, 0, 1}},
                    .done = std::move(done)});
  }

  BatchResult run(const std::vector<std::vector<Tensor>>& requests,
                  const std::vector<std::string>& outputs = {}, uint64_t most_bytes = 1 << 20) {
    BatchRun batch{.variant = variant_->id, .most_bytes = most_bytes};
    for (const std::vector<Tensor>& inputs : requests) {
      batch.parts.push_back({&inputs, &outputs, 0, static_cast<uint32_t>(inputs[0].shape[0])});
    }
    std::promise<BatchResult> landed;
    batch.done = [&landed](BatchResult result) { landed.set_value(std::move(result)); };
    executor_->run(std::move(batch));
    return landed.get_future().get();
  }

 private:
  static EngineOptions options_of(ExecutorKind kind, std::optional<Isolation> isolation) {
    EngineOptions options = options_for(data_folder() + "/repository");
    options.workers.executor = kind;
    options.workers.isolation = isolation.value_or(options.workers.isolation);
    options.workers.program = fermata_command();
    return options;
  }

  EngineOptions options_;
  std::unique_ptr<ExecutorFactory> executors_;
  std::shared_ptr<Executor> executor_;
  std::shared_ptr<const Variant> variant_;
  const std::vector<std::string> all_outputs_;
};

Tensor index(std::vector<int64_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  return tensor<int64_t>("index", DataType::kInt64, {count, 1}, std::move(rows));
}

TEST(OnnxExecutor, ABatchIsPutTogetherAndTakenApart) {
  OneModel model("gather");
  const BatchResult result = model.run({{index({1})}, {index({2, 3})}, {index({4})}});
  ASSERT_EQ(result.parts.size(), 3u);
  EXPECT_THAT(values<float>((*result.parts[0])[0]), ElementsAre(10));
  EXPECT_THAT(values<float>((*result.parts[1])[0]), ElementsAre(20, 30));
  EXPECT_THAT((*result.parts[1])[0].shape, ElementsAre(2, 1));
  EXPECT_EQ((*result.parts[0])[0].data.owner, (*result.parts[2])[0].data.owner)
      << "parts are views of one output";
}

TEST(Executors, RunABatchInPiecesOfWhatMayBeCopied) {
  for (const Isolation isolation : {Isolation::kThread, Isolation::kProcess}) {
    OneModel model("gather", ExecutorKind::kOnnxRuntime, {}, isolation);
    const BatchResult result =
        model.run({{index({1})}, {index({2})}, {index({3, 4})}, {index({5})}}, {}, 16);
    std::vector<std::vector<float>> rows;
    for (const auto& part : result.parts) rows.push_back(values<float>((*part)[0]));
    EXPECT_THAT(
        rows, ElementsAre(ElementsAre(10), ElementsAre(20), ElementsAre(30, 40), ElementsAre(50)));
    const auto owner = [&](size_t part) { return (*result.parts[part])[0].data.owner; };
    EXPECT_EQ(owner(0), owner(1));
    EXPECT_NE(owner(1), owner(2));
    EXPECT_NE(owner(2), owner(3));
  }
}

Profile pace_of(double alpha_ms) {
  Profile profile;
  for (const uint32_t b : {1u, 64u}) {
    const double ms = alpha_ms * b;
    profile.batches[b] = {1, ms, ms, ms, ms};
  }
  fit(profile);
  return profile;
}

TEST(PacedExecutor, AnswersWhatTheModelDoesInTheTimeThatTheProfileSays) {
  OneModel model("gather", ExecutorKind::kPaced, pace_of(10));
  const Time before = monotonic_now();
  const BatchResult result = model.run({{index({1})}, {index({2, 3})}, {index({99})}});
  EXPECT_GE(monotonic_now() - before, result.total());
  EXPECT_GE(result.total(), Duration::millis(40));
  ASSERT_EQ(result.parts.size(), 3u);
  EXPECT_THAT(values<float>((*result.parts[1])[0]), ElementsAre(20, 30));
  EXPECT_FALSE(result.parts[2].ok());
}

TEST(PacedExecutor, WaitsForAModelThatIsSlowerThanItsProfileOrHasNone) {
  for (const Profile& pace : {pace_of(1e-6), Profile()}) {
    OneModel model("gather", ExecutorKind::kPaced, pace);
    const BatchResult result = model.run({{index({1})}});
    EXPECT_GT(result.run, Duration::micros(1));
    EXPECT_THAT(values<float>((*result.parts[0])[0]), ElementsAre(10));
  }
}

TEST(PacedExecutor, ABatchStartsWhereASlowOneBeforeItHasEnded) {
  OneModel model("gather", ExecutorKind::kPaced, pace_of(1e-6));
  const std::vector<Tensor> inputs = {index({1})};
  std::promise<BatchResult> first, second;
  for (auto* landed : {&first, &second}) {
    model.start(inputs, [landed](BatchResult result) { landed->set_value(std::move(result)); });
  }
  const BatchResult before = first.get_future().get(), after = second.get_future().get();
  EXPECT_GE(after.started, before.started + before.run);
}

TEST(OnnxExecutor, OneBadItemFailsAlone) {
  OneModel model("gather");
  const BatchResult result = model.run({{index({1})}, {index({99})}, {index({3})}});
  ASSERT_EQ(result.parts.size(), 3u);
  EXPECT_THAT(values<float>((*result.parts[0])[0]), ElementsAre(10));
  EXPECT_FALSE(result.parts[1].ok());
  EXPECT_THAT(values<float>((*result.parts[2])[0]), ElementsAre(30));
}

TEST(OnnxExecutor, BatchesRunInOrderWhicheverThreadsTheyComeFrom) {
  constexpr int kBatches = 8;
  OneModel model("gather");
  const std::vector<Tensor> inputs = {index({1})};
  std::promise<void> all_given, all_ran;
  std::vector<int> order;
  model.start(inputs, [&](const BatchResult&) { all_given.get_future().wait(); });
  for (int k = 0; k < kBatches; ++k) {
    std::thread([&, k] {
      model.start(inputs, [&, k](const BatchResult&) {
        order.push_back(k);
        if (order.size() == kBatches) all_ran.set_value();
      });
    }).join();
  }
  all_given.set_value();
  all_ran.get_future().wait();
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(OnnxExecutor, BatchesOfStrings) {
  OneModel model("identity-bytes");
  const BatchResult result =
      model.run({{text("x", {1, 2}, {"a", "bb"})}, {text("x", {2, 2}, {"", "c", "dd", "e"})}});
  const Tensor expected = text("y", {2, 2}, {"", "c", "dd", "e"});
  ASSERT_TRUE(result.parts[1].ok());
  EXPECT_EQ(values<char>((*result.parts[1])[0]), values<char>(expected));
}

TEST(OnnxExecutor, APayloadThatIsNotAlignedIsRead) {
  OneModel model("identity-int32");
  auto bytes = std::make_shared<std::vector<std::byte>>(9);
  const int32_t number = 77;
  std::memcpy(bytes->data() + 1, &number, sizeof(number));
  Tensor odd{"x", DataType::kInt32, {1, 1}, {absl::MakeSpan(*bytes).subspan(1, 4), bytes}};
  EXPECT_THAT(values<int32_t>((*model.run({{odd}}).parts[0])[0]), ElementsAre(77));
}

TEST(OnnxExecutor, OutputsOutliveTheirRequest) {
  OneModel model("identity-int32");
  BatchResult result = model.run({{ints("x", {1, 2}, {5, 6})}});
  (void)model.run({{ints("x", {1, 2}, {7, 8})}});
  EXPECT_THAT(values<int32_t>((*result.parts[0])[0]), ElementsAre(5, 6));
}

TEST(Rows, AreViews) {
  const Tensor whole = ints("x", {3, 2}, {1, 2, 3, 4, 5, 6});
  const auto middle = rows(whole, 1, 2);
  ASSERT_TRUE(middle.ok());
  EXPECT_EQ(middle->bytes.data(), whole.data.bytes.data() + 8);
  EXPECT_EQ(middle->bytes.size(), 16u);
  EXPECT_FALSE(rows(whole, 2, 2).ok());
  EXPECT_EQ(rows(text("t", {2, 1}, {"abc", "d"}), 1, 1)->bytes.size(), 5u);
}

TEST(Join, PutsPartsTogether) {
  const auto whole = join(std::vector<std::vector<Tensor>>{{ints("y", {1, 2}, {1, 2})},
                                                           {ints("y", {2, 2}, {3, 4, 5, 6})}});
  ASSERT_TRUE(whole.ok());
  EXPECT_THAT((*whole)[0].shape, ElementsAre(3, 2));
  EXPECT_THAT(values<int32_t>((*whole)[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_FALSE(
      join(std::vector<std::vector<Tensor>>{{ints("y", {1, 2}, {1, 2})}, {ints("y", {1, 1}, {3})}})
          .ok());
}

uint64_t resident_bytes() {
  uint64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST(OnnxModel, GivesBackWhatLargeRunsLeftOnceNoneHasRunSinceTheLastLook) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer keeps what is freed";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  GTEST_SKIP() << "AddressSanitizer keeps what is freed";
#endif
#endif
  constexpr uint64_t kBytes = 64 << 20, kMost = 16 << 20;
  const std::string file = data_folder() + "/repository/identity-uint8/1/model.onnx";
  const auto model = *OnnxModel::load(file, {});
  const std::string x = "x";
  const std::vector<std::byte> data(kBytes);
  const auto run = [&] { return model->run({{&x, DataType::kUint8, {1, kBytes}, data}}, {"y"}); };
  uint64_t kept = 0;
  {  // the library never gives back the first memory that it has taken
    const auto first = run(), second = run();
    ASSERT_TRUE(first.ok() && second.ok());
    kept = resident_bytes();
    for (int look = 0; look < 3; ++look) give_back_model_memory();
    EXPECT_GT(resident_bytes() + kMost, kept);
  }
  give_back_model_memory();
  EXPECT_GT(resident_bytes() + kMost, kept);  // the next one may need it
  give_back_model_memory();
  EXPECT_LT(resident_bytes() + kBytes - kMost, kept);
  EXPECT_TRUE(run().ok());
}

}  // namespace
}  // namespace fermata::engine
