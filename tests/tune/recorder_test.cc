#include "tune/recorder.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "base/clock.h"
#include "tune/explain.h"
#include "tune/fixture.h"

namespace fermata::tune {
namespace {

using engine::Observer;
using testing::HasSubstr;

double resident_mb() {
  std::ifstream pages("/proc/self/statm");
  double all = 0, resident = 0;
  pages >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double now_ms() { return (monotonic_now() - Time()).millis(); }

class RecorderTest : public testing::Test {
 protected:
  RecorderTest() {
    recorder.model(model, "m");
    service = recorder.service("front");
  }
  Recording recording() {
    recorder.collect();
    return recorder.copy(Duration::seconds(60), monotonic_now());
  }

  Recorder recorder{RecorderOptions{.memory_mb = 8}};
  const VariantId model = VariantId(3);
  uint32_t service = 0;
  const double t = now_ms() - 1000;  // recently, so that it is kept
};

TEST_F(RecorderTest, KeepsWhatHappenedToARequestAndItsBatch) {
  observe(recorder, service, model, {1, t, t + 4, 6, 20});
  const Recording made = recording();
  ASSERT_EQ(made.requests.size(), 1u);
  const RecordedRequest& request = made.requests[0];
  EXPECT_EQ(made.service(request.service), "front");
  EXPECT_EQ(request.client_id.view(), "client's");
  EXPECT_EQ(request.outcome, engine::Outcome::kOnTime);
  EXPECT_EQ(request.end, at_ms(t + 10));
  ASSERT_EQ(made.batches.size(), 1u);
  EXPECT_EQ(made.batches[0].id, request.batch);
  EXPECT_THAT(made.batches[0].requests, testing::ElementsAre(JobId(1)));
  EXPECT_EQ(made.model(made.batches[0].model), "m");
  EXPECT_EQ(recorder.lost(), 0u);
}

TEST_F(RecorderTest, AnEventThatOvertookItsRequestIsTakenTheNextTime) {
  recorder.ended(Observer::Ended{.request = JobId(5), .service = service, .at = at_ms(t + 1)});
  recorder.collect();
  recorder.came({.id = JobId(5), .service = service, .arrival = at_ms(t), .submitted = at_ms(t)});
  const Recording made = recording();
  ASSERT_EQ(made.requests.size(), 1u);
  EXPECT_TRUE(made.requests[0].ended());
  EXPECT_EQ(recorder.lost(), 0u);
}

TEST_F(RecorderTest, KeepsARequestThatALaterOneOvertook) {
  observe(recorder, service, model, {1, t + 1, t + 4, 6, 20});
  observe(recorder, service, model, {2, t, t + 12, 6, 20});
  EXPECT_EQ(recording().requests.size(), 2u);
}

TEST_F(RecorderTest, AnEndWithoutARequestIsCountedAsLost) {
  recorder.ended(Observer::Ended{.request = JobId(5), .service = service, .at = at_ms(t + 1)});
  for (int i = 0; i < 3; ++i) recorder.collect();
  EXPECT_EQ(recorder.lost(), 1u);
}

TEST_F(RecorderTest, ForgetsTheOldestWhereMemoryIsShort) {
  constexpr uint64_t kMany = 100'000;
  for (uint64_t i = 1; i <= kMany; ++i) {
    observe(recorder, service, model, {i, t + i * 1e-3, t + i * 1e-3, 1, 20});
    if (i % 1000 == 0) recorder.collect();
  }
  const Recording made = recording();
  EXPECT_EQ(recorder.lost(), 0u);
  EXPECT_LT(recorder.memory_mb(), 8.1);
  EXPECT_GT(made.requests.size(), 1000u);
  EXPECT_LT(made.requests.size(), kMany);
  EXPECT_EQ(made.requests.back().id, JobId(kMany));
  EXPECT_GE(made.requests.front().arrival, made.from);
  EXPECT_GE(made.batches.front().bound, made.from);
}

TEST_F(RecorderTest, CountsAFullQueueAsLostAndGoesOn) {
  const Observer::Came came{.id = JobId(1), .service = service, .arrival = at_ms(t)};
  for (int i = 0; i < 200'000; ++i) recorder.came(came);
  EXPECT_GT(recorder.lost(), 0u);
  recorder.collect();
  const uint64_t lost = recorder.lost();
  recorder.came(came);
  EXPECT_EQ(recorder.lost(), lost);
}

TEST_F(RecorderTest, TakesTheMemoryOfItsQueueAtOnce) {
  Recorder large(RecorderOptions{.memory_mb = 256});
  const double before = resident_mb();
  const Observer::Ended unknown{.request = JobId(5), .at = at_ms(t)};
  for (int i = 0; i < 500'000; ++i) {
    large.ended(unknown);
    if (i % 1000 == 0) large.collect();
  }
  EXPECT_LT(resident_mb() - before, 8);
}

TEST_F(RecorderTest, GivesChangesOnceToWhoWatches) {
  observe(recorder, service, model, {1, t, t, 1, 20});
  recorder.collect();
  EXPECT_TRUE(recorder.take_changes(8).batches.empty());
  recorder.watch(true);
  observe(recorder, service, model, {2, t + 5, t + 5, 1, 20});
  recorder.came(
      {.id = JobId(3), .service = service, .arrival = at_ms(t), .deadline = at_ms(t + 9)});
  recorder.collect();
  const auto changes = recorder.take_changes(8);
  ASSERT_EQ(changes.batches.size(), 1u);
  EXPECT_EQ(changes.requests[0].at(0).id, JobId(2));
  ASSERT_EQ(changes.waiting.size(), 1u);
  EXPECT_EQ(changes.waiting[0].id, JobId(3));
  EXPECT_TRUE(recorder.take_changes(8).batches.empty());
}

TEST_F(RecorderTest, SumsUpAnswersByWhoGaveThem) {
  observe(recorder, service, model, {1, t, t + 1, 2, 20});
  observe(recorder, service, model, {2, t, t + 1, 4, 20});
  recorder.collect();
  const auto answers = recorder.take_answers();
  const Answers& own = answers.at("front");
  EXPECT_EQ(own.latency.count(), 2u);
  EXPECT_EQ(own.by.at({model, 0}), 2u);
  EXPECT_TRUE(recorder.take_answers().empty());
}

TEST_F(RecorderTest, ExplainsARequestsTimeWithoutGaps) {
  observe(recorder, service, model, {1, t, t + 4, 6, 20});
  const Recording made = recording();
  const Explainer explainer(made);
  const auto spans = explainer.spans(made.requests[0]);
  ASSERT_FALSE(spans.empty());
  EXPECT_EQ(spans.front().start, made.requests[0].arrival);
  for (size_t i = 1; i < spans.size(); ++i) EXPECT_EQ(spans[i].start, spans[i - 1].end);
  EXPECT_EQ(spans.back().end, made.requests[0].end);
  EXPECT_EQ(spans.back().kind, Span::Kind::kRun);
  EXPECT_THAT(explainer.sentence(made.requests[0]), HasSubstr("Answered after 10.0 ms"));
}

// Members that ran at the same time count once: those that ended last.
TEST(CriticalPath, IsTheChainThatEndedLast) {
  const auto span = [](Span::Kind kind, double start, double end) {
    return Span{kind, "", "", {}, {}, at_ms(start), at_ms(end)};
  };
  const auto path = critical_path({span(Span::Kind::kQueue, 0, 1), span(Span::Kind::kHeld, 1, 5),
                                   span(Span::Kind::kHeld, 1, 8), span(Span::Kind::kRun, 5, 12),
                                   span(Span::Kind::kRun, 8, 20)});
  EXPECT_EQ(path.at(Span::Kind::kQueue), Duration::millis(1));
  EXPECT_EQ(path.at(Span::Kind::kHeld), Duration::millis(7));
  EXPECT_EQ(path.at(Span::Kind::kRun), Duration::millis(12));
  // One member runs all the while that the other, which ends last, is held.
  const auto beside = critical_path({span(Span::Kind::kRun, 0, 12), span(Span::Kind::kQueue, 0, 1),
                                     span(Span::Kind::kHeld, 1, 8), span(Span::Kind::kRun, 8, 20)});
  EXPECT_EQ(beside.at(Span::Kind::kQueue), Duration::millis(1));
  EXPECT_EQ(beside.at(Span::Kind::kHeld), Duration::millis(7));
  EXPECT_EQ(beside.at(Span::Kind::kRun), Duration::millis(12));
}

TEST_F(RecorderTest, ExplainsARejectionByWhatItWouldHaveMet) {
  observe(recorder, service, model, {1, t, t, 100, 200});  // runs meanwhile
  recorder.came({.id = JobId(2),
                 .service = service,
                 .arrival = at_ms(t + 1),
                 .submitted = at_ms(t + 1),
                 .deadline = at_ms(t + 21)});
  recorder.ended(Observer::Ended{.request = JobId(2),
                                 .service = service,
                                 .outcome = engine::Outcome::kRejectedDeadline,
                                 .at = at_ms(t + 5),
                                 .queueing = Duration::millis(95),
                                 .run = Duration::millis(6)});
  const Recording made = recording();
  const std::string text = Explainer(made).sentence(made.requests[1]);
  EXPECT_THAT(text, HasSubstr("its budget of 20.0 ms there were 16.0 ms left"));
  EXPECT_THAT(text, HasSubstr("needs 6.0 ms to run after an expected wait of 95.0 ms"));
  EXPECT_THAT(text, HasSubstr("At that moment 1 worker ran 'm'."));
}

TEST(BatchWaitTest, SaysWhatABatchWaitedForMost) {
  RecordedBatch batch{.wanted = at_ms(10), .expected_start = at_ms(12), .expected_end = at_ms(20)};
  batch.start = at_ms(12);
  EXPECT_EQ(wait_of(batch, at_ms(4)).what, WaitedFor::kMates);
  EXPECT_EQ(wait_of(batch, at_ms(9)).what, WaitedFor::kWorker);
  EXPECT_EQ(wait_of(batch, at_ms(12)).what, WaitedFor::kNothing);
  batch.rule = policy::StartRule::kPlanned;
  EXPECT_EQ(wait_of(batch, at_ms(4)).what, WaitedFor::kStartTime);
}

}  // namespace
}  // namespace fermata::tune
