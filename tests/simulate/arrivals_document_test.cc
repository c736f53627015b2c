#include "simulate/arrivals_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/status.h"

namespace fermata::simulate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<ArrivalProcess> read(std::string_view text) {
  auto document = Document::parse(text);
  if (!document.ok()) return document.status();
  return document->read(read_arrivals);
}

TEST(ArrivalsDocument, ReadsEachProcess) {
  EXPECT_TRUE(std::holds_alternative<PoissonArrivals>(*read("poisson")));
  EXPECT_TRUE(std::holds_alternative<UniformArrivals>(*read("process: uniform")));
  const auto gamma = read(R"({"process": "gamma", "shape": 0.05})");
  EXPECT_EQ(std::get<GammaArrivals>(*gamma).shape, 0.05);
}

TEST(ArrivalsDocument, ReadsATraceFile) {
  const std::string file = testing::TempDir() + "/trace.txt";
  std::ofstream(file) << "3\n0\n4.5\n";
  const auto trace = read("process: trace\nfile: " + file);
  EXPECT_THAT(*std::get<TraceArrivals>(*trace).counts, ElementsAre(3, 0, 4.5));
}

absl::StatusOr<ArrivalProcess> read_recorded(std::string_view text) {
  auto document = Document::parse(text);
  if (!document.ok()) return document.status();
  return document->read(read_scenario_arrivals);
}

TEST(ArrivalsDocument, ReadsARecordingWithOneDeadlineForAllOrOneForEach) {
  auto recorded =
      read_recorded(R"({"process": "recorded", "at_us": [5, 5, 1000], "slo_us": 2000})");
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  const auto& all = *std::get<RecordedArrivals>(*recorded).requests;
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2].at, Duration::millis(1));
  EXPECT_EQ(all[1].slo, Duration::millis(2));
  EXPECT_EQ(all[1].items, 1u);
  recorded = read_recorded(
      R"({"process": "recorded", "at_us": [5, 6], "slo_us": [null, 9], "items": [3, 4]})");
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  const auto& each = *std::get<RecordedArrivals>(*recorded).requests;
  EXPECT_EQ(each[0].slo, Duration::infinite());
  EXPECT_EQ(each[1].items, 4u);
}

TEST(ArrivalsDocument, RefusesRecordingsThatGoBackOrDoNotFit) {
  const auto why = [](const char* fields) {
    return std::string(
        message(read_recorded(std::string(R"({"process": "recorded", )") + fields + "}").status()));
  };
  EXPECT_THAT(why(R"("at_us": [5, 4])"), HasSubstr("$.at_us[1]: 4, expected times"));
  EXPECT_THAT(why(R"("at_us": [5, 6], "items": [1])"), HasSubstr("2 entries"));
  EXPECT_THAT(why(R"("at_us": [])"), HasSubstr("$.at_us"));
  EXPECT_THAT(message(read(R"({"process": "recorded", "at_us": [1]})").status()),
              HasSubstr("expected one of"));
}

TEST(ArrivalsDocument, SaysWhatIsWrong) {
  EXPECT_THAT(message(read("bursty").status()), HasSubstr("$: \"bursty\", expected one of"));
  EXPECT_THAT(message(read("gamma").status()), HasSubstr("expected one of"));
  EXPECT_THAT(message(read("process: gamma").status()), HasSubstr("$.shape: missing"));
  EXPECT_THAT(message(read("process: gamma\nshape: 1e-9").status()),
              HasSubstr("$.shape: 1e-09, expected a number from 0.001 to 1000000"));
  EXPECT_THAT(message(read("process: poisson\nshape: 1").status()), HasSubstr("shape"));
  EXPECT_THAT(message(read("process: trace\nfile: nowhere.txt").status()),
              HasSubstr("nowhere.txt: cannot be opened"));
}

TEST(Trace, EndsWithBlankLinesAndCarriageReturns) {
  EXPECT_THAT(*parse_trace("1\r\n 2 \n\n\n")->counts, ElementsAre(1, 2));
}

TEST(Trace, ErrorsNameTheLine) {
  EXPECT_THAT(message(parse_trace("1\nx\n").status()), HasSubstr("line 2: 'x'"));
  EXPECT_THAT(message(parse_trace("1\n-2\n").status()), HasSubstr("line 2: '-2'"));
  EXPECT_THAT(message(parse_trace("1\n\n2\n").status()), HasSubstr("line 2: empty"));
  EXPECT_THAT(message(parse_trace("nan\n").status()), HasSubstr("line 1: 'nan'"));
  EXPECT_THAT(message(parse_trace("0\n0\n").status()), HasSubstr("no line with a count above 0"));
  EXPECT_FALSE(parse_trace("").ok());
}

}  // namespace
}  // namespace fermata::simulate
