#include "load/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"

namespace fermata::load {
namespace {

using testing::HasSubstr;

TEST(ParseService, ReadsEveryPart) {
  const auto full = parse_service("digits:500.5:zoo/digits.jsonl:25");
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->name, "digits");
  EXPECT_EQ(full->rate_rps, 500.5);
  EXPECT_EQ(full->inputs, "zoo/digits.jsonl");
  EXPECT_EQ(full->slo, Duration::millis(25));
  const auto without_inputs = parse_service("digits:5::0.5");
  ASSERT_TRUE(without_inputs.ok());
  EXPECT_EQ(without_inputs->inputs, "");
  EXPECT_EQ(without_inputs->slo, Duration::micros(500));
  EXPECT_EQ(parse_service("digits:5")->slo, std::nullopt);
}

TEST(ParseService, SaysWhatIsWrong) {
  const auto problem = [](std::string_view text) {
    return std::string(message(parse_service(text).status()));
  };
  EXPECT_THAT(problem("digits"), HasSubstr("expected NAME:RATE[:INPUTS][:SLO_MS]"));
  EXPECT_THAT(problem(":5"), HasSubstr("no name"));
  EXPECT_THAT(problem("a b:5"), HasSubstr("no name"));
  EXPECT_THAT(problem("m:fast"), HasSubstr("the rate is 'fast'"));
  EXPECT_THAT(problem("m:0"), HasSubstr("the rate is '0'"));
  EXPECT_THAT(problem("m:nan"), HasSubstr("the rate is 'nan'"));
  EXPECT_THAT(problem("m:5::-1"), HasSubstr("the SLO is '-1'"));
  EXPECT_THAT(problem("m:5:a:1:b"), HasSubstr("5 parts"));
}

TEST(ParseArrivals, ReadsEachForm) {
  EXPECT_TRUE(std::holds_alternative<simulate::PoissonArrivals>(*parse_arrivals("poisson")));
  EXPECT_TRUE(std::holds_alternative<simulate::UniformArrivals>(*parse_arrivals("uniform")));
  const auto gamma = parse_arrivals("gamma:0.25");
  EXPECT_EQ(std::get<simulate::GammaArrivals>(*gamma).shape, 0.25);
  EXPECT_THAT(message(parse_arrivals("gamma:").status()), HasSubstr("gamma:SHAPE"));
  EXPECT_THAT(message(parse_arrivals("trace:nowhere").status()), HasSubstr("nowhere"));
}

absl::StatusOr<LoadSpec> read(std::string_view text) {
  auto document = Document::parse(text);
  if (!document.ok()) return document.status();
  return document->read(read_spec);
}

TEST(Spec, ReadsADocument) {
  auto spec = read(R"(
protocol: http
duration_s: 3
warmup_s: 0
seed: 9
explain: true
arrival: {process: gamma, shape: 0.5}
services:
  - {name: a, rate_rps: 10, timeout_ms: 20}
  - {name: b, version: "2", rate_rps: 5, inputs: b.jsonl, slo_ms: 30, timeout_ms: 20, arrival: uniform}
)");
  ASSERT_TRUE(spec.ok()) << message(spec.status());
  ASSERT_TRUE(complete(*spec).ok());
  EXPECT_EQ(spec->protocol, Protocol::kHttp);
  EXPECT_EQ(spec->address, "localhost:8000");
  EXPECT_EQ(spec->duration, Duration::seconds(3));
  EXPECT_EQ(spec->warmup, Duration());
  EXPECT_EQ(spec->seed, 9);
  const ServiceLoad& a = spec->services[0];
  EXPECT_EQ(a.slo, Duration::millis(20));
  EXPECT_TRUE(std::holds_alternative<simulate::GammaArrivals>(*a.arrivals));
  const ServiceLoad& b = spec->services[1];
  EXPECT_EQ(b.version, "2");
  EXPECT_EQ(b.slo, Duration::millis(30));
  EXPECT_EQ(b.timeout, Duration::millis(20));
  EXPECT_TRUE(std::holds_alternative<simulate::UniformArrivals>(*b.arrivals));
}

TEST(Spec, ErrorsNameThePath) {
  const auto problem = [](std::string_view text) {
    return std::string(message(read(text).status()));
  };
  EXPECT_THAT(problem("{}"), HasSubstr("$.services: missing"));
  EXPECT_THAT(problem("services: [{name: a/b}]"), HasSubstr("$.services[0].name: \"a/b\""));
  EXPECT_THAT(problem("services: [{name: a, slo_ms: 0}]"), HasSubstr("$.services[0].slo_ms: 0"));
  EXPECT_THAT(problem("services: [{name: a}]\nprotocol: smtp"), HasSubstr("$.protocol: \"smtp\""));
  EXPECT_THAT(problem("services: [{name: a}]\nrate: 5"), HasSubstr("rate"));
}

TEST(Spec, RatesComeFromTracesOrAreMissed) {
  LoadSpec spec;
  spec.services = {{.name = "a"}};
  LoadSpec traced = spec;
  EXPECT_THAT(message(complete(spec)), HasSubstr("service a has no rate"));
  traced.arrivals = simulate::TraceArrivals{
      std::make_shared<const std::vector<double>>(std::vector<double>{10, 30})};
  EXPECT_TRUE(complete(traced).ok());
  EXPECT_EQ(traced.services[0].rate_rps, 20);
}

}  // namespace
}  // namespace fermata::load
