// What a worker of another host lets go since it waited there until its deadline.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/execute/absence.h"
#include "engine/execute/executor.h"
#include "engine/fixture.h"

namespace fermata::engine {
namespace {

// Another batch is always before it: it lets go what has a deadline, however often.
class Behind : public Executor {
 public:
  explicit Behind(std::vector<Time>& deadlines) : deadlines_(deadlines) {}
  ~Behind() override {
    for (std::thread& thread : threads_) thread.join();
  }
  absl::Status load(std::shared_ptr<const Variant>) override { return absl::OkStatus(); }
  void unload(VariantId) override {}
  bool comes_and_goes() const override { return true; }
  void tell_presence(Presences told) override {
    if (told) told({.there = true});
  }
  void run(BatchRun batch) override {
    threads_.emplace_back([this, batch = std::move(batch)]() mutable {
      BatchResult result{.started = monotonic_now()};
      for (const BatchPart& part : batch.parts) {
        deadlines_.push_back(part.deadline);
        if (part.deadline.is_infinite() || deadlines_.size() > 5) {
          result.parts.emplace_back(std::vector{floats("y", {1, 3}, {1, 2, 3})});
        } else {
          result.parts.emplace_back(absent(Absence::kLate, absl::DeadlineExceededError("late")));
        }
      }
      batch.done(std::move(result));
    });
  }

 private:
  std::vector<Time>& deadlines_;  // of what it was given, one at a time
  std::vector<std::thread> threads_;
};

class BehindOthers : public RemoteWorkers {
 public:
  std::unique_ptr<ExecutorFactory> executors(const WorkerType&,
                                             std::unique_ptr<ExecutorFactory> here) override {
    return std::make_unique<Factory>(deadlines, std::move(here));
  }
  ClusterStatistics statistics() const override { return {}; }
  std::vector<Time> deadlines;

 private:
  struct Factory : ExecutorFactory {
    Factory(std::vector<Time>& all, std::unique_ptr<ExecutorFactory> own)
        : deadlines(all), of_here(std::move(own)) {}
    std::shared_ptr<Executor> make() override { return std::make_shared<Behind>(deadlines); }
    absl::StatusOr<std::vector<FileSignature>> open(const Variant& variant) override {
      return of_here->open(variant);
    }
    ExecutorFactory& here() override { return *of_here; }
    std::vector<Time>& deadlines;
    const std::unique_ptr<ExecutorFactory> of_here;
  };
};

TEST(LateParts, AreNotLetGoTwice) {
  TemporaryFolder folder;
  write_emulated(folder, "m", 8, 1, 5);
  const auto workers = std::make_shared<BehindOthers>();
  EngineOptions options = options_for(folder.path());
  options.workers.executor = ExecutorKind::kEmulated;
  options.workers.types = {WorkerType{.name = "far", .count = 1, .remote = true}};
  options.workers.remote = workers;
  {
    const auto engine = make_engine(std::move(options));
    ASSERT_TRUE(engine.ok()) << engine.status();
    InferRequest request{.service = "m", .inputs = {floats("x", {1, 2}, {1, 2})}};
    request.timeout = Duration::seconds(3600);
    EXPECT_TRUE(call(**engine, std::move(request)).status.ok());
  }
  ASSERT_EQ(workers->deadlines.size(), 2u);
  EXPECT_FALSE(workers->deadlines[0].is_infinite());
  EXPECT_TRUE(workers->deadlines[1].is_infinite());
}

}  // namespace
}  // namespace fermata::engine
