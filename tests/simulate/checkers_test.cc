// Each checker is shown a run that is right, and the same with one fault that it must find.
#include "simulate/checkers.h"

#include <gmock/gmock.h>

namespace fermata::simulate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Time at(double ms) { return Time() + Duration::from_millis(ms); }

TraceEvent event(TraceEvent::Kind kind, uint32_t key, uint64_t job, double ms) {
  return {.kind = kind, .items = 1, .key = KeyId(key), .job = JobId(job), .at = at(ms)};
}

TraceEvent arrived(uint64_t job, uint32_t key, double ms, double deadline_ms) {
  TraceEvent e = event(TraceEvent::kArrived, key, job, ms);
  e.end = at(deadline_ms);
  return e;
}

TraceEvent taken(uint64_t job, uint32_t key, double ms, double end_ms) {
  TraceEvent e = event(TraceEvent::kTaken, key, job, ms);
  e.end = at(end_ms);
  return e;
}

TraceEvent started(uint32_t key, uint32_t items, uint32_t worker, double ms, double end_ms) {
  TraceEvent e = event(TraceEvent::kStarted, key, 0, ms);
  e.items = items;
  e.worker = WorkerId(worker);
  e.start = e.at;
  e.end = at(end_ms);
  return e;
}

// Two models; a batch of one takes 10 ms and each more a millisecond, up to two.
Scenario two_models() {
  Scenario s;
  s.scheduler = "fermata";
  s.workers = {{"default", 1, 0}};
  for (const char* name : {"a", "b"}) {
    s.models.push_back({.name = name,
                        .latency = {LinearLatency{1, 9}},
                        .slo = Duration::millis(100),
                        .max_batch = 2});
  }
  s.rate_rps = 1;
  s.warmup = Duration();
  s.duration = Duration::seconds(1);
  return s;
}

// Two requests in a batch, and one behind them.
Trace three_requests() {
  return {arrived(1, 0, 0, 100),    arrived(2, 0, 0, 100), started(0, 2, 0, 0, 11),
          taken(1, 0, 0, 11),       taken(2, 0, 0, 11),    arrived(3, 1, 5, 100),
          started(1, 1, 0, 11, 21), taken(3, 1, 11, 21)};
}

Findings bent(Findings (*check)(const Scenario&, const Trace&), void (*bend)(Trace&)) {
  Trace trace = three_requests();
  EXPECT_THAT(check(two_models(), trace), IsEmpty());
  bend(trace);
  return check(two_models(), trace);
}

TEST(Checkers, FindNothingInARunThatIsRight) {
  EXPECT_THAT(check_always(two_models(), three_requests()), IsEmpty());
}

TEST(Checkers, OfConservation) {
  EXPECT_THAT(bent(check_conservation, [](Trace& t) { t.pop_back(); }),
              ElementsAre(HasSubstr("request 3 never ended")));
  EXPECT_THAT(bent(check_conservation, [](Trace& t) { t.push_back(t.back()); }),
              ElementsAre(HasSubstr("request 3 ended 2 times")));
  EXPECT_THAT(bent(check_conservation, [](Trace& t) { t.push_back(taken(9, 0, 30, 40)); }),
              ElementsAre(HasSubstr("request 9 ended but never arrived")));
}

TEST(Checkers, OfWorkers) {
  EXPECT_THAT(bent(check_workers, [](Trace& t) { t[2].end = at(10); }),
              ElementsAre(HasSubstr("a batch of 2 ends at 10 ms")));
  EXPECT_THAT(bent(check_workers, [](Trace& t) { t[6] = started(1, 1, 0, 8, 18); }),
              ElementsAre(HasSubstr("while it runs one until 11 ms")));
  EXPECT_THAT(bent(check_workers, [](Trace& t) { t[6].at = at(12); }),
              ElementsAre(HasSubstr("starts before 12 ms")));
}

TEST(Checkers, OfBatches) {
  EXPECT_THAT(bent(check_batches, [](Trace& t) { t[2].items = 3; }),
              ElementsAre(HasSubstr("a batch of 3")));
  EXPECT_THAT(bent(check_batches, [](Trace& t) { t[6].key = KeyId(0); }),
              ElementsAre(HasSubstr("request 3 in a batch of another model")));
}

TEST(Checkers, OfDeadlines) {
  EXPECT_THAT(bent(check_deadlines, [](Trace& t) { t[5].end = at(20); }),
              ElementsAre(HasSubstr("request 3 ends at 21 ms, deadline 20 ms")));
}

TEST(Checkers, OfShortCircuits) {
  EXPECT_THAT(bent(check_short_circuits,
                   [](Trace& t) { t[7] = event(TraceEvent::kShortCircuited, 1, 3, 11); }),
              ElementsAre(HasSubstr("request 3 short-circuited")));
}

TEST(Checkers, OfDrops) {
  const auto dropped = [](double ms) {
    return check_drops(two_models(),
                       {arrived(1, 0, 1, 100), event(TraceEvent::kDropped, 0, 1, ms)});
  };
  EXPECT_THAT(dropped(90), IsEmpty());
  EXPECT_THAT(dropped(90.1), ElementsAre(HasSubstr("could start until 90 ms")));
  EXPECT_THAT(dropped(0.5), ElementsAre(HasSubstr("request 1 dropped at 0.5 ms")));
}

TEST(Checkers, OfDeferral) {
  const auto run_at = [](double ms) {
    return check_deferral(two_models(), {arrived(1, 0, 0, 100), started(0, 1, 0, ms, ms + 10),
                                         taken(1, 0, ms, ms + 10)});
  };
  EXPECT_THAT(run_at(89), IsEmpty());  // two would take 11
  EXPECT_THAT(run_at(88.9), ElementsAre(HasSubstr("its latest start is 89 ms")));
}

TEST(Checkers, OfWorkConservation) {
  EXPECT_THAT(bent(check_work_conservation,
                   [](Trace& t) {
                     t[6] = started(1, 1, 0, 13, 23);
                     t[7] = taken(3, 1, 13, 23);
                   }),
              ElementsAre(HasSubstr("from 11 ms to 13 ms a worker idles")));
}

// Two base models, 10 and 20 ms, whose ensemble is the third key.
Scenario ensemble() {
  Scenario s = two_models();
  s.models.clear();
  s.workers = {{"default", 2, 0}};
  SimulatedEnsemble e{.name = "e", .slo = Duration::millis(100)};
  for (const double ms : {10.0, 20.0}) {
    e.models.push_back({.name = "m", .latency = {LinearLatency{0, ms}}});
  }
  s.ensembles = {e};
  return s;
}

TraceEvent concluded(double ms, uint32_t subset) {
  TraceEvent e = event(TraceEvent::kConcluded, 2, 1, ms);
  e.items = subset;
  return e;
}

TEST(Checkers, OfEnsembles) {
  const Trace runs = {arrived(1, 2, 0, 100), started(0, 1, 0, 0, 10), taken(1, 2, 0, 10),
                      started(1, 1, 1, 0, 20), taken(1, 2, 0, 20)};
  const auto found = [&](std::vector<TraceEvent> more, bool serve_all = false) {
    Trace trace = runs;
    trace.insert(trace.end(), more.begin(), more.end());
    Scenario s = ensemble();
    s.ensembles[0].serve_all = serve_all;
    return check_ensembles(s, trace);
  };
  EXPECT_THAT(found({concluded(20, 3)}), IsEmpty());
  EXPECT_THAT(found({concluded(10, 1)}), IsEmpty());
  EXPECT_THAT(found({concluded(10, 3)}), ElementsAre(HasSubstr("that have not ended")));
  EXPECT_THAT(found({concluded(20, 1)}), ElementsAre(HasSubstr("without some that have")));
  EXPECT_THAT(found({concluded(5, 0)}), ElementsAre(HasSubstr("that have not ended")));
  EXPECT_THAT(found({concluded(101, 3)}), ElementsAre(HasSubstr("at its deadline")));
  EXPECT_THAT(found({concluded(101, 3)}, true), IsEmpty());
  EXPECT_THAT(found({concluded(20, 3), concluded(21, 3)}),
              ElementsAre(HasSubstr("goes on after its end")));
  EXPECT_THAT(found({started(0, 1, 0, 10, 20), taken(1, 2, 10, 20), concluded(20, 3)}),
              ElementsAre(HasSubstr("runs twice on one model")));
  EXPECT_THAT(found({event(TraceEvent::kDropped, 2, 1, 30)}),
              ElementsAre(HasSubstr("dropped while it runs")));
  const Trace unserved = {arrived(1, 2, 0, 100), event(TraceEvent::kDropped, 2, 1, 85)};
  Scenario all = ensemble();
  EXPECT_THAT(check_ensembles(all, unserved), IsEmpty());
  all.ensembles[0].serve_all = true;
  EXPECT_THAT(check_ensembles(all, unserved), ElementsAre(HasSubstr("though all are served")));
}

// A request of two children, one of which has a child of its own.
TEST(Checkers, OfTrees) {
  const auto child = [](TraceEvent e, uint64_t parent) {
    e.parent = JobId(parent);
    return e;
  };
  const auto opened = [](uint64_t job, double ms) {
    return event(TraceEvent::kOpened, 2, job, ms);
  };
  const auto closed = [](uint64_t job, double ms) {
    return event(TraceEvent::kClosed, 2, job, ms);
  };
  const Trace good = {opened(1, 0),
                      child(arrived(2, 0, 0, 50), 1),
                      taken(2, 0, 1, 10),
                      child(opened(3, 10), 1),
                      child(arrived(4, 1, 10, 50), 3),
                      event(TraceEvent::kWithdrawn, 1, 4, 11),
                      event(TraceEvent::kGivenUp, 2, 3, 11),
                      closed(1, 20)};
  const auto found = [&](auto spoil) {
    Trace bad = good;
    spoil(bad);
    return check_trees(two_models(), bad);
  };
  EXPECT_THAT(found([](Trace&) {}), IsEmpty());
  EXPECT_THAT(found([](Trace& t) { t.pop_back(); }),
              ElementsAre(HasSubstr("request 1 is never closed")));
  EXPECT_THAT(found([](Trace& t) { t.push_back(t.back()); }),
              ElementsAre(HasSubstr("request 1 ends and is not open")));
  EXPECT_THAT(found([](Trace& t) { t.erase(t.begin() + 6); }),
              testing::Contains(HasSubstr("request 1 is closed while its child 3 waits")));
  EXPECT_THAT(found([](Trace& t) { t.erase(t.begin() + 2); }),
              ElementsAre(HasSubstr("request 1 is closed while its child 2 waits")));
  EXPECT_THAT(found([](Trace& t) { std::swap(t[0], t[1]); }),
              testing::Contains(HasSubstr("request 2 is a child of one that is not open")));
  EXPECT_THAT(found([](Trace& t) { t.insert(t.begin() + 3, t[0]); }),
              testing::Contains(HasSubstr("request 1 is opened twice")));
}

// With room for one of the two variants on a worker, the second one is loaded.
TEST(Checkers, OfWorkersWithLittleMemory) {
  Scenario s = two_models();
  s.models.clear();
  s.workers = {{"default", 1, 10}};
  SimulatedVariants a{.name = "v", .slo = Duration::millis(100)};
  for (const char* name : {"m", "n"}) {
    a.variants.push_back({.name = name,
                          .latency = {LinearLatency{0, 10}},
                          .load = Duration::millis(5),
                          .memory_mb = 8});
  }
  s.variants = {a};
  const auto found = [&](bool load, double end_ms) {
    Trace trace = {started(0, 1, 0, 0, 15), started(1, 1, 0, 15, end_ms)};
    trace[0].load = true;
    trace[1].load = load;
    return check_workers(s, trace);
  };
  EXPECT_THAT(found(true, 30), IsEmpty());
  EXPECT_THAT(found(false, 30), ElementsAre(HasSubstr("does not load its variant")));
  EXPECT_THAT(found(true, 25), ElementsAre(HasSubstr("a batch of 1 ends at 25 ms")));
}

}  // namespace
}  // namespace fermata::simulate
