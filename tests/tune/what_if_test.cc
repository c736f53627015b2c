#include "tune/what_if.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "simulate/scenario_document.h"
#include "tune/fixture.h"
#include "tune/record_file.h"

namespace fermata::tune {
namespace {

using testing::HasSubstr;

// 20 s in which two workers had a request of 8 ms each 10 ms: half of what they can do.
class WhatIfTest : public testing::Test {
 protected:
  static constexpr double kSeconds = 20;
  WhatIfTest() {
    Recorder recorder(RecorderOptions{.keep = Duration::seconds(3600), .memory_mb = 64});
    recorder.model(server.m, "m");
    const uint32_t m = recorder.service("m"), front = recorder.service("front");
    const double now = (monotonic_now() - Time()).millis();
    const double t = now - kSeconds * 1e3 - 100;
    for (uint64_t i = 0; i < static_cast<uint64_t>(kSeconds * 100); ++i) {
      const double at = t + static_cast<double>(i) * 10;
      observe(recorder, i % 4 == 0 ? front : m, server.m, {i + 1, at, at, 8, 50});
      if (i % 100 == 0) recorder.collect();
    }
    recorder.collect();
    server.options.policy = "eager";
    recording = recorder.copy(Duration::from_seconds(kSeconds + 0.1), at_ms(now));
  }
  Json document() const { return scenario_document(recording, server.server()); }

  RecordedServer server;
  Recording recording;
};

TEST_F(WhatIfTest, ARecordingIsAScenario) {
  const Json made = document();
  EXPECT_EQ(made["recorded"]["on_time"], 1.0);
  EXPECT_EQ(made["recorded"]["services"].size(), 2u);
  EXPECT_TRUE(made["recorded"]["not_replayed"].empty());
  auto text = Document::parse(made.dump());
  ASSERT_TRUE(text.ok());
  const auto scenario = text->read(simulate::read_scenario);
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  // The first service of the model is the model, the other a pipeline of it: they share batches.
  ASSERT_EQ(scenario->models.size(), 1u);
  ASSERT_EQ(scenario->pipelines.size(), 1u);
  EXPECT_EQ(scenario->worker_count(), 2u);
}

// Requests of its first seconds alone, which otherwise warm up what is measured after them.
TEST_F(WhatIfTest, AFewRequestsLongAgoAreMeasured) {
  recording.requests.resize(200);
  recording.batches.resize(200);
  EXPECT_EQ(document()["recorded"]["requests"], 200);
}

TEST_F(WhatIfTest, AReplayOfWhatHappenedIsNearIt) {
  const auto answer = what_if(document(), {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_LT((*answer)["error"].get<double>(), 0.01);
  EXPECT_EQ((*answer)["replayed"]["requests"], (*answer)["recorded"]["requests"]);
  EXPECT_NEAR((*answer)["replayed"]["services"]["m"]["p99_ms"].get<double>(), 8, 0.2);
}

// Not as long as on average: what a busy machine made of some is in the replay when it was.
TEST_F(WhatIfTest, BatchesTakeAsLongAsTheyTook) {
  for (size_t i = 1000; i < 1100; ++i) {
    RecordedBatch& batch = recording.batches[i];
    batch.end = batch.end + Duration::from_millis(1.5);
  }
  const auto answer = what_if(document(), {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_NEAR((*answer)["replayed"]["services"]["m"]["p99_ms"].get<double>(), 9.5, 0.3);
}

// Neither the wait for a thread nor that of the reply is run time of the model.
TEST_F(WhatIfTest, TheServersOwnDelaysAreItsOwn) {
  for (RecordedBatch& batch : recording.batches) {
    batch.start = batch.start + Duration::from_millis(1.5);
    batch.end = batch.end + Duration::from_millis(1.5);
  }
  for (RecordedRequest& request : recording.requests) {
    request.end = request.end + Duration::millis(5);
  }
  const Json made = document();
  EXPECT_EQ(made["delays"]["start"]["us"][100], 1500);
  EXPECT_EQ(made["delays"]["reply"]["us"][100], 3500);
  EXPECT_FALSE(made["delays"].contains("decision"));  // nobody waited for a worker
  EXPECT_NEAR(made["models"][0]["latency_ms"]["table"]["1"].get<double>(), 8, 0.1);
  const auto answer = what_if(made, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_NEAR((*answer)["replayed"]["services"]["m"]["p99_ms"].get<double>(), 13, 0.3);
}

// What the server believed at the end, after a moment in which the machine stood still, is no
// guide: each size has the latency that nine of ten of its own runs did not exceed.
TEST_F(WhatIfTest, LatenciesAreThoseOfTheRecording) {
  for (size_t i = 0; i < recording.batches.size(); ++i) {
    RecordedBatch& batch = recording.batches[i];
    batch.items = i % 2 == 0 ? 1 : 2;
    if (i % 2 == 1) batch.end = batch.start + Duration::millis(3);
  }
  const Json table = document()["models"][0]["latency_ms"]["table"];
  EXPECT_NEAR(table["1"].get<double>(), 8, 0.1);
  EXPECT_NEAR(table["2"].get<double>(), 8, 0.1);  // no less than smaller ones
  for (RecordedBatch& batch : recording.batches) {
    batch.end = batch.start + Duration::millis(batch.items == 1 ? 8 : 20);
  }
  EXPECT_NEAR(document()["models"][0]["latency_ms"]["table"]["2"].get<double>(), 20, 0.1);
}

TEST(MeasuredDrift, ASlowMachineIsInProportionAndAStallIsNot) {
  std::vector<MeasuredRun> runs;
  std::vector<Duration> believed;
  for (int i = 0; i < 100; ++i) {
    const double slow = i < 50 ? 1 : 2, stall = i == 20 ? 30 : 0;
    runs.push_back({at_ms(10 * i), 0, 1, Duration::from_millis(4 * slow + stall)});
    believed.push_back(Duration::millis(4));
  }
  const simulate::MeasuredDrift drift = measured_drift(runs, believed, Time());
  EXPECT_NEAR(drift.at(Duration::millis(200)).ratio, 1, 1e-6);
  EXPECT_NEAR(drift.at(Duration::millis(200)).over.millis(), 30, 1e-3);
  EXPECT_NEAR(drift.at(Duration::millis(210)).over.millis(), 0, 1e-3);
  EXPECT_NEAR(drift.at(Duration::millis(900)).ratio, 2, 1e-6);
}

TEST_F(WhatIfTest, MoreLoadAndFewerWorkersLoseRequests) {
  Case heavy{.load = 20}, few{.workers = 1, .load = 9}, other{.scheduler = "edf"};
  const auto answer = what_if(document(), {heavy, few, other});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const Json& cases = (*answer)["cases"];
  const auto requests = (*answer)["recorded"]["requests"].get<double>();
  EXPECT_NEAR(cases[0]["requests"].get<double>(), 20 * requests, 0.2 * requests);
  EXPECT_LT(cases[0]["on_time"].get<double>(), 0.9);
  EXPECT_LT(cases[1]["on_time"].get<double>(), 0.95);
  EXPECT_EQ(cases[2]["on_time"], 1.0);
  EXPECT_EQ(cases[2]["case"]["scheduler"], "edf");
}

TEST_F(WhatIfTest, MoreWorkersAreOfTheFirstType) {
  const auto counts = [](const Json& document) {
    const std::vector<Case> cases = more_workers(document);
    return std::pair(cases.at(0).workers.value(), cases.at(1).workers.value());
  };
  EXPECT_EQ(counts(document()), std::pair(3u, 4u));
  engine::WorkerType far = server.options.workers.types.front();
  far.name = "far";
  server.options.workers.types.push_back(far);
  server.workers.push_back({.worker = 2, .type = 1});
  EXPECT_EQ(counts(document()), std::pair(3u, 4u));
}

TEST_F(WhatIfTest, SaysHowManyWorkersAShareOnTimeNeeds) {
  const auto idle = what_if(document(), {}, 0.99);
  ASSERT_TRUE(idle.ok()) << idle.status();
  EXPECT_EQ((*idle)["needed"]["workers"], 1);
  EXPECT_GE((*idle)["needed"]["best"], 0.99);
  EXPECT_EQ((*idle)["needed"]["exact"], true);
  for (RecordedRequest& request : recording.requests) {
    request.deadline = request.arrival + Duration::millis(2);  // which no worker keeps
  }
  const auto never = what_if(document(), {}, 0.99);
  ASSERT_TRUE(never.ok()) << never.status();
  EXPECT_TRUE((*never)["needed"]["workers"].is_null());
  EXPECT_EQ((*never)["needed"]["tried"], 2 * kMostTimes);
  EXPECT_EQ((*never)["needed"]["best"], 0.0);
}

TEST_F(WhatIfTest, ADeadlineThatNobodyMeetsLosesItsServiceAlone) {
  Case tight;
  tight.slo["front"] = Duration::millis(2);
  const auto answer = what_if(document(), {tight});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const Json& services = (*answer)["cases"][0]["services"];
  EXPECT_EQ(services["front"]["on_time"], 0.0);
  EXPECT_EQ(services["m"]["on_time"], 1.0);
}

TEST_F(WhatIfTest, ASmallerLoadDrawsSomeOfTheRequests) {
  auto text = Document::parse(document().dump());
  const auto scenario = text->read(simulate::read_scenario);
  const auto half = apply({.load = 0.5}, *scenario);
  ASSERT_TRUE(half.ok());
  const auto count = [](const simulate::Scenario& s) {
    return std::get<simulate::RecordedArrivals>(s.models[0].arrival).requests->size();
  };
  EXPECT_NEAR(static_cast<double>(count(*half)), 0.5 * static_cast<double>(count(*scenario)), 100);
}

TEST_F(WhatIfTest, NamesWhatItCannotReplay) {
  recording.services.push_back("video");
  recording.requests[500].service = static_cast<uint32_t>(recording.services.size() - 1);
  const Json made = document();
  ASSERT_EQ(made["recorded"]["not_replayed"].size(), 1u);
  EXPECT_EQ(made["recorded"]["not_replayed"][0]["service"], "video");
}

TEST_F(WhatIfTest, AStreamsSloIsThatOfItsFrames) {
  engine::ServiceOptions& video = server.options.services.emplace_back();
  video.name = "video";
  video.stream.emplace().variants = {{"m", 96, 0.5, 0}, {"other", 160, 0.9, 0}};
  EXPECT_EQ(document()["recorded"]["streams"], Json({{"video", {"m"}}}));
  Case tight;
  tight.slo["video"] = Duration::millis(2);
  const auto answer = what_if(document(), {tight});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const Json& services = (*answer)["cases"][0]["services"];
  EXPECT_EQ(services["m"]["on_time"], 0.0);
  EXPECT_EQ(services["front"]["on_time"], 1.0);
}

// A service of which one variant is a service of the same model as another: a scenario has each
// model once, so it is left out, with the reason.
TEST_F(WhatIfTest, AServiceOfWhichTwoMembersAreOneModelIsNotReplayed) {
  engine::ServiceOptions& outer = server.options.services.emplace_back();
  outer.name = "outer";
  outer.slo = Duration::millis(50);
  outer.variants.emplace().models = {"m", "front"};
  outer.variants->services = {{"front", 0.9}};
  policy::VariantsInfo info;
  info.variants.resize(2);
  info.variants[0].accuracy = 0.7;
  info.variants[1].accuracy = 0.9;
  auto service = std::make_shared<engine::Service>(*server.catalog.services[0]);
  service->name = service->model = "outer";
  service->info = std::make_shared<const policy::ServiceInfo>(info);
  server.catalog.services.push_back(service);
  recording.services.push_back("outer");
  for (size_t i = 500; i < 520; ++i) {
    recording.requests[i].service = static_cast<uint32_t>(recording.services.size() - 1);
  }
  const auto answer = what_if(document(), {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const Json& left_out = (*answer)["recorded"]["not_replayed"];
  ASSERT_EQ(left_out.size(), 1u);
  EXPECT_EQ(left_out[0]["service"], "outer");
  EXPECT_EQ(left_out[0]["why"], "two of its members are the same model");
}

TEST_F(WhatIfTest, RefusesQuestionsThatMakeNoSense) {
  const auto ask = [](const char* text) {
    auto question = Document::parse(text);
    return question->read(read_question).status();
  };
  EXPECT_TRUE(ask(R"({"load": 2, "cases": [{"workers": 3}, {"scheduler": "edf"}]})").ok());
  EXPECT_THAT(std::string(ask(R"({"load": 0})").message()), HasSubstr("$.load"));
  EXPECT_THAT(std::string(ask(R"({"cases": [{"scheduler": "x"}]})").message()),
              HasSubstr("$.cases[0].scheduler"));
  Case unknown;
  unknown.slo["nobody"] = Duration::millis(5);
  EXPECT_THAT(std::string(what_if(document(), {unknown}).status().message()), HasSubstr("nobody"));
}

TEST_F(WhatIfTest, AFileOfRecordingsGivesTheLastAndStaysBounded) {
  const std::string file = testing::TempDir() + "/recordings.jsonl";
  std::filesystem::remove(file);
  std::filesystem::remove(file + ".1");
  Json made = document();
  RecordFile records(file, made.dump().size() * 5 / 2);
  for (int i = 0; i < 5; ++i) {
    made["seed"] = i + 1;
    ASSERT_TRUE(records.append(made).ok());
  }
  EXPECT_EQ((*read_last_recording(file))["seed"], 5);
  EXPECT_EQ((*read_last_recording(file + ".1"))["seed"], 4);
  EXPECT_FALSE(read_last_recording(file + ".2").ok());
}

}  // namespace
}  // namespace fermata::tune
