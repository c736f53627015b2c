#include "engine/trial/trial_document.h"

#include <gtest/gtest.h>

namespace fermata::engine {
namespace {

// A model may be hostile when it is tried too; where its libraries open devices it is not confined.
TEST(TrialDocument, WhatIsTriedIsConfinedAsWhatServes) {
  const TrialLimits limits{.time = Duration::seconds(10), .memory_mb = 512};
  TrialOptions options{.file = "model.onnx"};
  for (const char* provider : {"cpu", "cuda"}) {
    options.worker.provider = provider;
    const auto text = write_question(options, limits);
    ASSERT_TRUE(text.ok()) << text.status();
    const auto question = read_question(*text);
    ASSERT_TRUE(question.ok()) << question.status();
    EXPECT_EQ(question->limits.confined, options.worker.provider == "cpu");
    EXPECT_EQ(question->limits.memory_mb == 512, options.worker.provider == "cpu");
  }
}

}  // namespace
}  // namespace fermata::engine
