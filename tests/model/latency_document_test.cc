#include "model/latency_document.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace fermata {
namespace {

absl::StatusOr<LatencyModel> parsed(std::string_view text) {
  ASSIGN_OR_RETURN(Document document, Document::parse(text));
  return document.read(read_latency);
}

TEST(LatencyDocument, EveryFormReadsBackAsWritten) {
  for (const char* text : {R"({"alpha":1.053,"beta":5.072})", R"({"quadratic":[0.01,2.0,9.0]})",
                           R"({"table":{"1":80.0,"8":481.0}})"}) {
    const auto model = parsed(text);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(write_latency(*model).dump(), text);
  }
}

TEST(LatencyDocument, SaysWhatIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {R"(3)", "$: 3, expected a map with alpha and beta, quadratic, or table"},
      {R"({"alpha": -1, "beta": 1})", "$.alpha: -1, expected a non-negative number"},
      {R"({"alpha": 1})", "$.beta: missing, expected a non-negative number"},
      {R"({"alpha": 0, "beta": 0})", "$: a map, expected alpha + beta above 0"},
      {R"({"alpha": 1, "beta": 1, "table": {"1": 1}})",
       "$.alpha: 1, expected no such field, but table"},
      {R"({"quadratic": [1, 2]})",
       "$.quadratic: a list of 2, expected three numbers [a, b, c] for a*b^2 + b*b + c"},
      {R"({"table": {}})", "$.table: a map, expected at least one batch size"},
      {R"({"table": {"0": 1}})",
       "$.table.0: 1, expected a batch size from 1 to 1000000 as its name"},
      {R"({"table": {"1": -2}})", "$.table.1: -2, expected a positive number"},
  };
  for (const auto& [text, error] : cases) EXPECT_EQ(message(parsed(text).status()), error);
}

// However it is written: who divides by it would believe in any rate.
TEST(LatencyDocument, ABatchTakesSomeTime) {
  for (const char* text :
       {R"({"quadratic": [1, -1, 1e-9]})", R"({"table": {"1": 1e-9, "2": 1}})"}) {
    EXPECT_EQ(message(LatencyTable::make(*parsed(text), 2).status()),
              "the latency of a batch of 1 is 1e-09 ms, expected at least 1e-06");
  }
}

}  // namespace
}  // namespace fermata
