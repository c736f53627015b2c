// Hosts that die, hang, leave, answer nonsense or twice, as a seed says, under an engine that is
// asked meanwhile: over real connections and in real time, so that a seed gives the same faults and
// not the same run. FERMATA_STORMS says how many (make cluster: thousands).
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "cluster/made_up_host.h"
#include "cluster/scheduler/hosts.h"
#include "engine/engine.h"
#include "engine/fixture.h"
#include "places/places.h"

namespace fermata::cluster {
namespace {

constexpr std::chrono::minutes kStormPatience{2};  // of what is waited for
constexpr size_t kHostsAtOnce = 3;
constexpr int kSteps = 30;
constexpr int64_t kRows = 10;

// The value of each row, ten times its number; as its model would answer.
Outgoing answer_to(const Frame& frame, uint64_t number, size_t less) {
  engine::BatchResult result;
  const auto* row = reinterpret_cast<const int64_t*>(frame.payload.get());
  for (const Part& part : frame.message.batch().parts()) {
    std::vector<float> values;
    for (uint32_t i = 0; i < part.items(); ++i)
      values.push_back(10.0F * static_cast<float>(*row++));
    values.resize(values.size() - less);
    Shape shape{static_cast<int64_t>(values.size()), 1};
    result.parts.emplace_back(
        std::vector{Tensor{"value", DataType::kFp32, shape, payload_of(std::move(values))}});
  }
  return write_ended(number, Duration(), result);
}

// It does with each batch what the seed says, until its session is over.
class StormHost {
 public:
  StormHost(uint16_t port, const std::string& name, uint64_t seed, bool good)
      : host_(port, name), random_(seed), good_(good), thread_([this] { work(); }) {}
  ~StormHost() {
    host_.die();
    thread_.join();
  }
  bool over() const { return over_; }
  void die() { host_.die(); }

 private:
  void work() {
    for (auto frame = host_.next(); frame.ok(); frame = host_.next()) {
      if (!frame->message.has_batch()) {
        Message answer;
        answer.mutable_loaded();
        (void)host_.send(answer);
        continue;
      }
      run(*frame);
    }
    over_ = true;
  }
  void run(const Frame& frame) {
    const uint64_t number = frame.message.batch().number();
    const uint64_t what = good_ ? 100 : random_.below(24);
    if (what == 0) return host_.die();
    if (what == 1) return host_.fall_silent();
    const Outgoing out = answer_to(frame, what == 2 ? number + 1 : number, what == 3 ? 1 : 0);
    (void)host_.send(out.message, out.payload);
    if (what == 4) (void)host_.send(out.message, out.payload);
    if (what == 5) host_.die();
    if (what == 6) host_.leave();
  }

  MadeUpHost host_;
  Random random_;
  const bool good_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

class StormOfFaults {
 public:
  StormOfFaults() {
    folder_.copy_model("gather", "gather");
    hosts_ =
        std::make_shared<Hosts>(Options{.host = "127.0.0.1", .silence = Duration::millis(300)});
    engine::EngineOptions options;
    options.repository = folder_.path();
    options.probe_program = fermata_command();
    options.workers.types = {
        engine::WorkerType{.name = "far", .count = 2 * kHostsAtOnce, .remote = true}};
    options.workers.remote = hosts_;
    engine_ = *engine::make_engine(options);
    EXPECT_TRUE(hosts_->listen().ok());
  }

  void run(uint64_t seed) {
    Random random(seed);
    asked_.clear();
    for (int i = 0; i < kSteps; ++i) {
      std::erase_if(there_, [](const auto& host) { return host.over(); });
      if (there_.size() < kHostsAtOnce && random.below(2) == 0) bring(random.below(1 << 30), false);
      const uint64_t what = random.below(12);
      if (what == 0 && !there_.empty()) there_.front().die();
      if (what == 1 && !asked_.empty()) engine_->cancel(any(random).id);
      if (what == 2) await([this] { return open_ < 4; }, std::chrono::milliseconds(20));
      if (what > 2) ask(random);
    }
    there_.clear();
    const auto end = std::chrono::steady_clock::now() + kStormPatience;
    while (!await([this] { return open_ == 0; }, std::chrono::milliseconds(20))) {
      std::erase_if(there_, [](const auto& host) { return host.over(); });
      if (there_.empty()) bring(seed, true);  // which a busy machine may take for gone
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "seed " << seed;
    }
    there_.clear();
    check(seed);
  }
  Duration latest() const { return latest_; }

 private:
  struct Asked {
    JobId id;
    int64_t row = 0;
    Time deadline;
    bool cancelled = false;
    int replies = 0;
    Time at;
    engine::ReplyPart reply;
  };

  void bring(uint64_t seed, bool good) {
    there_.emplace_back(hosts_->port(), "host" + std::to_string(++named_), seed, good);
  }
  Asked& any(Random& random) {
    auto it = asked_.begin();
    std::advance(it, static_cast<int64_t>(random.below(asked_.size())));
    it->cancelled = true;
    return *it;
  }
  void ask(Random& random) {
    Asked& asked = asked_.emplace_back();
    asked.row = static_cast<int64_t>(random.below(kRows));
    engine::InferRequest request;
    request.service = "gather";
    request.arrival = engine_->now();
    if (random.below(2) == 0) request.timeout = Duration::millis(20 + 20 * random.below(10));
    asked.deadline = request.timeout ? request.arrival + *request.timeout : Time::infinite();
    request.inputs = {
        {"index", DataType::kInt64, {1, 1}, payload_of(std::vector<int64_t>{asked.row})}};
    {
      const std::lock_guard lock(mutex_);
      ++open_;
    }
    asked.id = engine_->submit(std::move(request), [this, &asked](engine::ReplyPart reply) {
      const std::lock_guard lock(mutex_);
      asked.at = engine_->now();
      asked.reply = std::move(reply);
      if (asked.replies++ == 0) --open_;
      changed_.notify_all();
    });
  }
  bool await(const std::function<bool()>& is_so, std::chrono::nanoseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, is_so);
  }
  void check(uint64_t seed) {
    const std::lock_guard lock(mutex_);
    for (const Asked& asked : asked_) {
      ASSERT_EQ(asked.replies, 1) << "seed " << seed;
      const absl::Status& status = asked.reply.status;
      if (status.ok()) {
        const Tensor& value = asked.reply.outputs.at(0);
        const float got = *reinterpret_cast<const float*>(value.data.bytes.data());
        EXPECT_EQ(got, 10.0F * static_cast<float>(asked.row)) << "seed " << seed;
      } else {
        const bool may = (absl::IsDeadlineExceeded(status) && !asked.deadline.is_infinite()) ||
                         (absl::IsCancelled(status) && asked.cancelled) ||
                         absl::IsInternal(status);  // two hosts died of it, or one said nonsense
        EXPECT_TRUE(may) << "seed " << seed << ": " << status;
      }
      if (!asked.deadline.is_infinite()) {
        latest_ = std::max(latest_, asked.at - asked.deadline);
      }
    }
  }

  engine::TemporaryFolder folder_;
  std::shared_ptr<Hosts> hosts_;
  std::unique_ptr<engine::Engine> engine_;
  std::list<StormHost> there_;
  uint64_t named_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Asked> asked_;
  int open_ = 0;
  Duration latest_ = -Duration::seconds(3600);  // beyond a deadline
};

TEST(ClusterStorm, EveryRequestEndsOnceWithItsOwnAnswer) {
  const char* wanted = std::getenv("FERMATA_STORMS");
  const uint64_t seeds = wanted == nullptr ? 20 : std::strtoull(wanted, nullptr, 10);
  StormOfFaults storm;
  for (uint64_t seed = 0; seed < seeds && !testing::Test::HasFailure(); ++seed) storm.run(seed);
  RecordProperty("most_beyond_a_deadline_ms", std::to_string(storm.latest().millis()));
  if (wanted != nullptr) std::printf("most beyond a deadline: %.1f ms\n", storm.latest().millis());
}

}  // namespace
}  // namespace fermata::cluster
