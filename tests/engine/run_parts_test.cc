// Which parts of a batch run together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/execute/absence.h"
#include "engine/execute/gather.h"

namespace fermata::engine {
namespace {

using ::testing::ElementsAre;

class RunPartsTest : public ::testing::Test {
 protected:
  // Adds parts of such inputs, in bytes.
  void add(const std::vector<size_t>& bytes) {
    for (const size_t each : bytes) {
      auto input = std::make_shared<std::vector<std::byte>>(each);
      inputs_.push_back(std::make_unique<std::vector<Tensor>>(
          1, Tensor{"x", DataType::kUint8, {1, int64_t(each)}, {*input, input}}));
      batch_.parts.push_back({.inputs = inputs_.back().get()});
    }
  }
  // How many parts ran together, in order; those runs fail that say so.
  std::vector<size_t> run(uint64_t most_bytes, const std::vector<absl::Status>& ends = {}) {
    std::vector<size_t> runs;
    batch_.most_bytes = most_bytes;
    run_parts(batch_, result_,
              [&](absl::Span<const BatchPart> parts, BatchResult& into) -> absl::Status {
                const size_t now = runs.size();
                runs.push_back(parts.size());
                into.stages.push_back({.items = uint32_t(parts.size())});
                if (now < ends.size() && !ends[now].ok()) return ends[now];
                into.parts.insert(into.parts.end(), parts.size(), std::vector<Tensor>());
                return absl::OkStatus();
              });
    EXPECT_EQ(result_.parts.size(), batch_.parts.size());
    return runs;
  }
  // 'x' for each that failed.
  std::string failed() const {
    std::string text;
    for (const auto& part : result_.parts) text += part.ok() ? '.' : 'x';
    return text;
  }

  std::vector<std::unique_ptr<std::vector<Tensor>>> inputs_;
  BatchRun batch_;
  BatchResult result_;
};

TEST_F(RunPartsTest, AsManyRunTogetherAsTakeNoMoreThanMayBeCopied) {
  add({40, 60, 1, 200, 50, 50, 50});
  EXPECT_THAT(run(100), ElementsAre(2, 1, 1, 2, 1));
  EXPECT_EQ(failed(), ".......");
  EXPECT_EQ(result_.stages.size(), 5u);
}

TEST_F(RunPartsTest, AllDoWhereTheyMay) {
  add({40, 60, 1});
  EXPECT_THAT(run(101), ElementsAre(3));
}

TEST_F(RunPartsTest, OfARequestThatWasSplitItsRowsCount) {
  add({1000, 90});
  inputs_[0]->front().shape = {100, 10};
  batch_.parts[0].items = 1;
  EXPECT_THAT(run(100), ElementsAre(2));
}

TEST_F(RunPartsTest, WhichAskForItRunAlone) {
  add({1, 1, 1});
  batch_.parts[1].alone = true;
  EXPECT_THAT(run(100), ElementsAre(1, 1, 1));
}

TEST_F(RunPartsTest, ThoseThatFailTogetherRunAloneAndNoOthers) {
  add({50, 50, 50, 50, 50});
  const absl::Status bad = invalid("bad");
  EXPECT_THAT(run(100, {absl::OkStatus(), bad, absl::OkStatus(), bad}), ElementsAre(2, 2, 1, 1, 1));
  EXPECT_EQ(failed(), "...x.");
  EXPECT_EQ(result_.stages.size(), 4u);  // none of the run that failed
}

TEST_F(RunPartsTest, ThoseWhoseProcessIsLostDoNotRunAgain) {
  add({50, 50, 50});
  EXPECT_THAT(run(100, {absent(Absence::kLost, internal("died"))}), ElementsAre(2, 1));
  EXPECT_EQ(failed(), "xx.");
  EXPECT_EQ(absence_of(result_.parts[1].status()), Absence::kLost);
}

}  // namespace
}  // namespace fermata::engine
