// The parts of a cluster, all of their code but sockets, in virtual time, and faults from a seed.
// FERMATA_SEEDS says how many, FERMATA_FIRST_SEED from which on (make cluster: thousands); of one
// that finds something the faults are taken away one by one that are not needed for it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string>

#include "cluster_simulated/apart.h"
#include "cluster_simulated/cluster.h"
#include "engine/fixture.h"

namespace fermata::simulated {
namespace {

constexpr size_t kAtOnce = 2;

uint64_t number(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class Simulated : public testing::Test {
 protected:
  Simulated() {
    engine::write_emulated(folder_, "m", 8, 1, 5);
    folder_.write("before/config.pbtxt",
                  "max_batch_size: 8\ninput { name: \"x\" data_type: TYPE_FP32 dims: 2 }\n"
                  "output { name: \"y\" data_type: TYPE_FP32 dims: 2 }\n");
    std::filesystem::create_directories(folder_.path() / "before" / "1");
    engine::write_emulated_profile(folder_, "before", 8, 1, 5);
  }

  Cluster::Options options(uint64_t seed) const {
    Cluster::Options made{.models = folder_.path().string(), .seed = seed};
    made.lock = (folder_.path() / fmt::format("lock-{}", ::getpid())).string();
    made.give_way = seed % 2 == 0 ? 0 : 0.05;
    return made;
  }
  // Of two stages: the second one's worker fetches from the first one's what that gave.
  Cluster::Options of_stages(uint64_t seed) const {
    Cluster::Options made = options(seed);
    engine::PipelineOptions pipeline;
    pipeline.stages = {{.name = "first", .service = "before"},
                       {.name = "second", .service = "m", .inputs = {{"x", "first.y"}}}};
    made.services = {{.name = "stages", .pipeline = std::move(pipeline)}};
    made.service = "stages";
    return made;
  }
  // What `say` says of a cluster that this has befallen.
  template <class Say>
  static Apart simulate(const std::function<Cluster::Options()>& options, const Faults& faults,
                        Say say) {
    return Apart([&] {
      if (std::getenv("FERMATA_TRACE") == nullptr) spdlog::set_level(spdlog::level::off);
      const Cluster::Options made = options();
      ::unlink(made.lock.c_str());
      Cluster cluster(made);
      cluster.run(faults);
      std::string text = say(cluster);
      ::unlink(made.lock.c_str());
      return text;
    });
  }
  static std::string findings(Cluster& cluster) {
    std::string text;
    for (const std::string& each : cluster.findings()) text += each + "\n";
    return text;
  }
  Apart tried(uint64_t seed, const Faults& faults) const {
    return simulate([this, seed] { return stages ? of_stages(seed) : options(seed); }, faults,
                    findings);
  }
  // Without those that are not needed.
  Faults shrunk(uint64_t seed, Faults faults) const {
    for (size_t i = faults.size(); i-- > 0;) {
      Faults less = faults;
      less.erase(less.begin() + static_cast<ptrdiff_t>(i));
      if (!tried(seed, less).wait().empty()) faults = std::move(less);
    }
    return faults;
  }
  void report(uint64_t seed) const {
    const Faults faults = shrunk(seed, faults_of(seed));
    std::string text = fmt::format("seed {}:\n", seed);
    for (const Fault& each : faults) text += each.text() + "\n";
    ADD_FAILURE() << text << tried(seed, faults).wait();
  }
  // As many seeds as are asked for.
  void storm() const {
    const uint64_t first = number("FERMATA_FIRST_SEED", 0), seeds = number("FERMATA_SEEDS", 60);
    const uint64_t most_found = number("FERMATA_FINDINGS", 3);
    std::deque<std::pair<uint64_t, Apart>> running;
    std::vector<uint64_t> found;
    for (uint64_t seed = first; seed < first + seeds || !running.empty(); ++seed) {
      if (seed < first + seeds) running.emplace_back(seed, tried(seed, faults_of(seed)));
      if (running.size() < kAtOnce && seed + 1 < first + seeds) continue;
      if (!running.front().second.wait().empty()) found.push_back(running.front().first);
      running.pop_front();
      if (found.size() >= most_found) seed = first + seeds;
    }
    for (const uint64_t seed : found) report(seed);
  }

  bool stages = false;  // what is tried

  engine::TemporaryFolder folder_;
};

TEST_F(Simulated, EveryRequestEndsOnceAndInTimeWhateverBefalls) { storm(); }

TEST_F(Simulated, SoDoThoseOfSeveralStages) {
  stages = true;
  storm();
}

// Each found a fault once.
TEST_F(Simulated, NoSeedFindsAgainWhatItFound) {
  for (const uint64_t seed : {736, 3751, 4332, 4489, 4582, 4955, 5096, 5307, 7984, 9471, 9831}) {
    EXPECT_EQ(tried(seed, faults_of(seed)).wait(), "") << "seed " << seed;
  }
}

TEST_F(Simulated, ASeedGivesTheSameRun) {
  for (const uint64_t seed : {uint64_t{4}, uint64_t{5}}) {
    const auto trace = [&] {
      return simulate([&] { return options(seed); }, faults_of(seed),
                      [](Cluster& cluster) {
                        return fmt::format("{} {}", cluster.world().switches(),
                                           cluster.world().trace());
                      })
          .wait();
    };
    EXPECT_EQ(trace(), trace()) << "seed " << seed;
  }
}

// Hosts leave a scheduler that stands still; when it goes on, it has to tell that from a death.
TEST_F(Simulated, NothingIsLostWhileASchedulerStandsStill) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Faults faults = {{.kind = Fault::kHangs,
                            .place = kSchedulers[0],
                            .from = Duration::millis(1800),
                            .length = Duration::millis(280)}};
    EXPECT_EQ(tried(seed, faults).wait(), "") << "seed " << seed;
  }
}

TEST_F(Simulated, ARequestThatTwoHostsDiedOfRunsOnAThird) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Faults faults = {{.kind = Fault::kDies,
                            .place = kWorkers[0],
                            .from = Duration::millis(1500),
                            .length = Duration::millis(100)},
                           {.kind = Fault::kDies,
                            .place = kWorkers[1],
                            .from = Duration::micros(1500'500 + 100 * static_cast<int64_t>(seed)),
                            .length = Duration::millis(100)}};
    EXPECT_EQ(tried(seed, faults).wait(), "") << "seed " << seed;
  }
}

// With a worker goes what it kept of first stages; these run again.
TEST_F(Simulated, NothingOfSeveralStagesIsLostWithAWorker) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Faults faults;
    for (int64_t i = 0; i < 3; ++i) {
      faults.push_back({.kind = Fault::kDies,
                        .place = kWorkers[i],
                        .from = Duration::millis(500 + 1000 * i + 7 * static_cast<int64_t>(seed)),
                        .length = Duration::millis(200)});
    }
    const auto made = [&] {
      Cluster::Options made = of_stages(seed);
      made.timeouts = {Duration::seconds(2)};
      made.without_deadline = false;
      made.requests_per_second = 100;
      return made;
    };
    const auto lost = [](Cluster& cluster) {
      std::string text = findings(cluster);
      for (const Asked& each : cluster.asked()) {
        if (!each.status.ok()) text += each.status.ToString() + "\n";
      }
      return text;
    };
    EXPECT_EQ(simulate(made, faults, lost).wait(), "") << "seed " << seed;
  }
}

using CutOff = Simulated;

TEST_F(CutOff, TightRequestsAreNotAnsweredLateSinceAWorkerCannotReachTheirFrontend) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Faults faults = {{.kind = Fault::kCutOneWay,
                            .place = kFrontends[0],
                            .other = kWorkers[0],
                            .from = Duration::millis(500),
                            .length = Duration::seconds(3)}};
    const auto made = [&] {
      Cluster::Options made = options(seed);
      made.timeouts = {Duration::millis(60)};
      made.without_deadline = false;
      return made;
    };
    EXPECT_EQ(simulate(made, faults, findings).wait(), "") << "seed " << seed;
  }
}

// Two of three cannot; a run takes 6 ms. What comes while nobody knows of it yet may be rejected.
TEST_F(CutOff, TightRequestsAreAnsweredByTheWorkerThatReachesTheirFrontend) {
  Faults faults;
  for (const uint32_t worker : {kWorkers[0], kWorkers[1]}) {
    faults.push_back({.kind = Fault::kCut,
                      .place = kFrontends[0],
                      .other = worker,
                      .from = Duration::millis(500),
                      .length = Duration::seconds(4)});
  }
  const auto rejected = [](Cluster& cluster) {
    std::string text = findings(cluster);
    for (const Asked& each : cluster.asked()) {
      const Duration at = cluster.since_begin(each.at);
      if (each.status.ok() || at < Duration::millis(1000)) continue;
      text += fmt::format("asked at {} ms: {}\n", at.millis(), each.status.ToString());
    }
    return text;
  };
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto made = [&] {
      Cluster::Options made = options(seed);
      made.timeouts = {Duration::millis(60)};
      made.without_deadline = false;
      return made;
    };
    EXPECT_EQ(simulate(made, faults, rejected).wait(), "") << "seed " << seed;
  }
}

TEST_F(CutOff, WhatNoWorkerReachesEndsAfterSomeTime) {
  Faults faults;
  for (const uint32_t worker : kWorkers) {
    faults.push_back({.kind = Fault::kCut,
                      .place = kFrontends[0],
                      .other = worker,
                      .from = Duration::millis(500),
                      .length = Duration::seconds(120)});
  }
  const auto made = [this] {
    Cluster::Options made = options(1);
    made.timeouts = {};
    made.asking = Duration::seconds(1);
    made.settles = Duration::seconds(100);
    return made;
  };
  const auto unlike = [](Cluster& cluster) {
    std::string text;
    size_t unreached = 0;
    for (const Asked& each : cluster.asked()) {
      const double took = (each.replied - each.at).millis();
      if (each.replies != 1)
        text += fmt::format("request {}: {} replies", each.number, each.replies);
      if (each.status.ok()) continue;
      ++unreached;
      const bool is_cut = each.frontend == kFrontends[0] && absl::IsUnavailable(each.status);
      if (!is_cut || took < 10'000)
        text += fmt::format("{} ms: {}\n", took, each.status.ToString());
    }
    if (unreached < 10) text += fmt::format("only {} could not be reached", unreached);
    return text;
  };
  EXPECT_EQ(simulate(made, faults, unlike).wait(), "");
}

// The longest time in which nothing was answered, from a moment on.
Duration longest_gap(const Cluster& cluster, Duration from) {
  std::vector<Duration> replies = {from};
  for (const Asked& each : cluster.asked()) {
    const Duration at = cluster.since_begin(each.replied);
    if (each.status.ok() && each.replies > 0 && at > from) replies.push_back(at);
  }
  std::sort(replies.begin(), replies.end());
  Duration longest;
  for (size_t i = 1; i < replies.size(); ++i) {
    longest = std::max(longest, replies[i] - replies[i - 1]);
  }
  return longest;
}

// Requests have 2 s; what is lost, and whether nothing was answered for longer than that.
std::string takeover(Cluster& cluster, Duration longest) {
  std::string text;
  for (const std::string& each : cluster.findings()) text += each + "\n";
  const auto lost = std::count_if(cluster.asked().begin(), cluster.asked().end(),
                                  [](const Asked& each) { return !each.status.ok(); });
  if (lost > 0) text += fmt::format("{} of {} lost\n", lost, cluster.asked().size());
  const Duration gap = longest_gap(cluster, Duration::seconds(1));
  if (gap > longest) text += fmt::format("nothing was answered for {} ms\n", gap.millis());
  return text;
}

class Takeover : public Simulated {
 protected:
  std::string befalls(Fault::Kind kind, Duration silence, Duration longest) const {
    std::string text;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Faults faults = {{.kind = kind,
                              .place = kSchedulers[0],
                              .from = Duration::seconds(1) + Duration::millis(7 * seed),
                              .length = Duration::millis(1700)}};
      text += simulate(
                  [&] {
                    Cluster::Options made = options(seed);
                    made.silence = silence;
                    made.timeouts = {Duration::seconds(2)};
                    made.without_deadline = false;
                    return made;
                  },
                  faults, [longest](Cluster& cluster) { return takeover(cluster, longest); })
                  .wait();
    }
    return text;
  }
};

TEST_F(Takeover, AfterASchedulerDies) {
  EXPECT_EQ(befalls(Fault::kDies, Duration::millis(300), Duration::seconds(1)), "");
}
TEST_F(Takeover, AfterASchedulerDiesWhereSilenceMayBeLong) {
  EXPECT_EQ(befalls(Fault::kDies, Duration::seconds(10), Duration::seconds(1)), "");
}
TEST_F(Takeover, AfterASchedulerDiesWithItsHost) {
  EXPECT_EQ(befalls(Fault::kHostDies, Duration::millis(300), Duration::seconds(2)), "");
}
TEST_F(Takeover, AfterASchedulerHangs) {
  EXPECT_EQ(befalls(Fault::kHangs, Duration::millis(300), Duration::seconds(2)), "");
}

}  // namespace
}  // namespace fermata::simulated
