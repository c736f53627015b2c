// Who is active, of schedulers that end, hang and wake, and of a file that is deleted.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "base/check.h"
#include "cluster/lock/scheduler_lock.h"
#include "cluster_simulated/apart.h"
#include "cluster_simulated/world.h"
#include "engine/fixture.h"

namespace fermata::simulated {
namespace {

constexpr Duration kLease = Duration::millis(600);
constexpr Duration kSoon = Duration::millis(50);  // two looks at the file

// Schedulers that do nothing but be active, or not: what becomes of them is written down.
class Locks {
 public:
  explicit Locks(std::string file) : file_(std::move(file)) { wait(kSoon); }

  // `heard`: by it, from parts.
  Process& start(const std::string& name, uint64_t heard = 0) {
    const auto process = world_.make_process(name, 1);
    world_.start(*process, [this, name, heard]() -> void* {
      const auto lock = cluster::SchedulerLock::of_file(
          file_, kLease,
          {.held = [this, name](uint64_t epoch) { said_ += fmt::format("{} {}, ", name, epoch); },
           .lost = [this, name] { said_ += name + " lost, "; },
           .heard = [heard] { return heard; }});
      FERMATA_CHECK(lock.ok());
      while (true) world_.sleep(world_.now() + Duration::seconds(3600));
    });
    wait(kSoon);
    return *process;
  }
  void wait(Duration duration) { world_.sleep(world_.now() + duration); }
  World& world() { return world_; }
  const std::string& said() const { return said_; }
  const std::string& file() const { return file_; }

 private:
  const std::string file_;
  World world_{1};
  std::string said_;
};

class SchedulerLocks : public testing::Test {
 protected:
  std::string run(const std::function<void(Locks&)>& story) const {
    return Apart([&] {
             spdlog::set_level(spdlog::level::off);
             Locks locks((folder_.path() / "lock").string());
             story(locks);
             return locks.said();
           })
        .wait();
  }
  engine::TemporaryFolder folder_;
};

TEST_F(SchedulerLocks, TheNextIsActiveWhenTheProcessEnds) {
  const std::string said = run([](Locks& locks) {
    Process& first = locks.start("first");
    locks.start("second");
    locks.wait(kLease + kLease);
    locks.world().kill(first);
    locks.wait(kSoon);
  });
  EXPECT_EQ(said, "first 1, second 2, ");
}

TEST_F(SchedulerLocks, OneThatHangsIsFollowedAndFindsThatWhenItWakes) {
  const std::string said = run([](Locks& locks) {
    Process& first = locks.start("first");
    locks.start("second");
    locks.world().stop(first);
    locks.wait(kLease + kSoon);
    locks.world().go_on(first);
    locks.wait(kSoon);
  });
  EXPECT_EQ(said, "first 1, second 2, first lost, ");
}

TEST_F(SchedulerLocks, OneThatHangsForLessThanALeaseStays) {
  const std::string said = run([](Locks& locks) {
    Process& first = locks.start("first");
    locks.start("second");
    for (int i = 0; i < 5; ++i) {
      locks.world().stop(first);
      locks.wait(kLease - kSoon);
      locks.world().go_on(first);
      locks.wait(kSoon);
    }
  });
  EXPECT_EQ(said, "first 1, ");
}

TEST_F(SchedulerLocks, OfTwoThatStandByOneFollows) {
  const std::string said = run([](Locks& locks) {
    Process& first = locks.start("first");
    locks.start("second");
    locks.start("third");
    locks.world().stop(first);
    locks.wait(kLease + kLease);
  });
  EXPECT_EQ(said.substr(0, 9), "first 1, ");
  EXPECT_EQ(said.find("lost"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '2'), 1) << said;
}

TEST_F(SchedulerLocks, OneThatHangsWhileItTakesTheLockIsFollowedToo) {
  const std::string said = run([](Locks& locks) {
    Process& first = locks.start("first");
    Process& second = locks.start("second");
    locks.world().kill(first);
    locks.wait(kSoon);
    locks.world().stop(second);
    locks.start("third");
    locks.wait(kLease + kSoon);
  });
  EXPECT_EQ(said, "first 1, second 2, third 3, ");
}

TEST_F(SchedulerLocks, ADeletedFileDoesNotMakeTwo) {
  const std::string said = run([](Locks& locks) {
    locks.start("first");
    locks.start("second");
    ::unlink(locks.file().c_str());
    locks.wait(kLease + kLease);
    locks.start("third");
    locks.wait(kLease + kLease);
  });
  EXPECT_EQ(said, "first 1, ");
}

TEST_F(SchedulerLocks, EpochsGoOnWhereTheFileIsDeletedWithItsHolder) {
  const std::string said = run([](Locks& locks) {
    Process& first = locks.start("first");
    locks.start("second");
    locks.world().kill(first);
    ::unlink(locks.file().c_str());
    locks.wait(kLease + kLease);
  });
  EXPECT_EQ(said, "first 1, second 2, ");
}

TEST_F(SchedulerLocks, AFileThatAnotherHasWrittenAnewIsNotWrittenByWhoHeldTheOldOne) {
  const std::string said = run([](Locks& locks) {
    Process& first = locks.start("first");
    locks.world().stop(first);
    ::unlink(locks.file().c_str());
    locks.start("second");
    locks.world().go_on(first);
    locks.wait(kLease + kLease);
  });
  EXPECT_EQ(said, "first 1, second 1, first lost, ");
}

TEST_F(SchedulerLocks, EpochsGoOnWhereTheFileIsDeletedWithAllThatKnewThem) {
  const std::string said = run([](Locks& locks) {
    Process& first = locks.start("first", 7);
    locks.start("second");
    locks.world().stop(first);
    locks.wait(kLease + kSoon);
    locks.world().go_on(first);
    locks.wait(kSoon);
  });
  EXPECT_EQ(said, "first 1, first 8, second 9, first lost, ");
}

}  // namespace
}  // namespace fermata::simulated
