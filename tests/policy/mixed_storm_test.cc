// Services of all kinds on one pool of 1 to 64 workers, at its worst: batches end early or late or
// without an answer for some, clients leave, latencies change, services and models are reloaded.
// What happened is written down, and judged by checkers that know nothing of any policy.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "base/random.h"
#include "policy/hand.h"

namespace fermata::policy {
namespace {

using testing::IsEmpty;
using testing::Not;

struct Happened {
  enum Kind : uint8_t { kArrived, kTaken, kFreed, kDropped, kAnswered, kConcluded, kWithdrawn };
  Kind kind = kArrived;
  Task task{};
  KeyId key{};  // of the batch: kTaken, kFreed
  WorkerId worker{};
  uint64_t batch = 0;
  bool no_answer = false;  // kFreed: for this task
  plan::Subset ran = 0;    // kConcluded
};
using Story = std::vector<Happened>;

// By key of a service: the keys that may answer it; of an ensemble all together.
struct World {
  std::map<KeyId, std::vector<KeyId>> answers;
  std::set<KeyId> ensembles;
};

bool ends(const World& world, const Happened& h) {
  if (h.kind == Happened::kTaken) return !world.ensembles.contains(h.task.key);
  return h.kind != Happened::kArrived && h.kind != Happened::kFreed;
}

std::vector<std::string> check_ends(const World& world, const Story& story) {
  std::map<JobId, int> open;
  std::vector<std::string> found;
  for (const Happened& h : story) {
    const std::string job = std::to_string(h.task.job.value());
    if (h.kind == Happened::kArrived) ++open[h.task.job];
    if (ends(world, h) && --open[h.task.job] < 0) found.push_back(job + " ends twice");
  }
  for (const auto& [job, count] : open) {
    if (count > 0) found.push_back(std::to_string(job.value()) + " never ends");
  }
  return found;
}

// Batches hold whom they may answer; who wants a step by the deadline is not run beyond it.
std::vector<std::string> check_batches(const World& world, const Story& story) {
  std::vector<std::string> found;
  for (const Happened& h : story) {
    if (h.kind != Happened::kTaken || h.task.key == h.key) continue;
    const auto of = world.answers.find(h.task.key);
    const bool may = of != world.answers.end() &&
                     std::find(of->second.begin(), of->second.end(), h.key) != of->second.end();
    if (!may) found.push_back(std::to_string(h.task.job.value()) + " is in another's batch");
  }
  return found;
}

// One worker runs one batch, and one more at most that was bound ahead.
std::vector<std::string> check_workers(const World&, const Story& story) {
  std::vector<std::string> found;
  std::map<WorkerId, std::set<uint64_t>> running;
  for (const Happened& h : story) {
    if (h.kind == Happened::kTaken) running[h.worker].insert(h.batch);
    if (h.kind == Happened::kFreed) running[h.worker].erase(h.batch);
    if (running[h.worker].size() > 2) {
      found.push_back("worker " + std::to_string(h.worker.value()) + " runs three batches");
    }
  }
  return found;
}

// A query runs once on each of its models and is answered by those that had an answer by then.
std::vector<std::string> check_queries(const World& world, const Story& story) {
  std::vector<std::string> found;
  std::map<JobId, plan::Subset> ran, answered;
  for (const Happened& h : story) {
    if (!world.ensembles.contains(h.task.key)) continue;
    const std::string job = std::to_string(h.task.job.value());
    if (h.kind == Happened::kTaken || h.kind == Happened::kFreed) {
      const auto& models = world.answers.at(h.task.key);
      const auto at = std::find(models.begin(), models.end(), h.key) - models.begin();
      const plan::Subset bit = plan::Subset{1} << at;
      if (h.kind == Happened::kFreed) {
        if (!h.no_answer) answered[h.task.job] |= bit;
      } else if ((ran[h.task.job] & bit) != 0) {
        found.push_back(job + " runs twice on a model");
      }
      ran[h.task.job] |= bit;
    } else if (h.kind == Happened::kConcluded && h.ran != answered[h.task.job]) {
      found.push_back(job + " is answered by others than have answered");
    } else if (h.kind == Happened::kDropped && ran[h.task.job] != 0) {
      found.push_back(job + " is dropped although it ran");
    }
  }
  return found;
}

class MixedStorm {
 public:
  MixedStorm(std::string_view policy, uint64_t seed)
      : hand_(policy), random_(seed), workers_(uint64_t{1} << random_.below(7)) {
    if (random_.below(3) == 0) {
      hand_.scheduler->set_delay_bound({Duration::micros(300), Duration::micros(30)});
    }
    for (int i = 0; i < 3; ++i) add_model();
    for (size_t w = 0; w < workers_; ++w) hand_.worker();
    running_.resize(workers_);
    add_service(Kind::kVariants);
    add_service(Kind::kEnsemble);
  }

  void step() {
    now_ += random_.exponential(0.5 * static_cast<double>(workers_) / 4);
    const uint64_t what = random_.below(24);
    if (what == 0 && world_.answers.size() < 12) add_service(static_cast<Kind>(random_.below(2)));
    if (what == 1) reload();
    if (what == 2) withdraw();
    if (what == 3) {
      hand_.scheduler->update_latency(any(models_), latency(), at_ms(now_), hand_.out);
    }
    if (what >= 4 && what < 9) end_batches(/*all=*/false);
    if (what >= 9 && what < 12) hand_.tick(now_);
    if (what >= 12) arrive();
    note();
  }
  void calm() {
    for (int i = 0; i < 4000 && !waiting_.empty(); ++i) {
      now_ += 2;
      end_batches(/*all=*/true);
      note();
      hand_.tick(now_);
      note();
    }
  }
  const World& world() const { return world_; }
  const Story& story() const { return story_; }

 private:
  struct Running {
    Batch batch;
    uint64_t id = 0;
  };

  KeyId any(const std::vector<KeyId>& keys) { return keys[random_.below(keys.size())]; }
  LatencyByType latency() { return linear(0.2 + 2 * random_.uniform(), 4 * random_.uniform(), 12); }
  void add_model() {
    const uint32_t id = variants_++;
    models_.push_back(hand_.scheduler->add_key(
        {.name = "m" + std::to_string(id), .latency = latency(), .variant = VariantId(id)}));
  }
  void add_service(Kind kind) {
    const std::vector<KeyId> of(models_.begin(), models_.begin() + 2 + random_.below(2));
    ServiceInfo info = VariantsInfo{.name = "a",
                                    .variants = {},
                                    .penalty = {plan::PenaltyShape::kStep},
                                    .prior = {0.5, 0.5},
                                    .short_circuit = 0.6};
    if (kind == Kind::kVariants) {
      for (const KeyId key : of) {
        std::get<VariantsInfo>(info).variants.push_back(
            {key, 0.7, {0.5 + key.value() % 5 / 10.0, 0.9}});
      }
    } else {
      std::vector<double> utility(size_t{1} << of.size());
      for (size_t s = 1; s < utility.size(); ++s) utility[s] = 0.5 + 0.06 * static_cast<double>(s);
      info = EnsembleInfo{.name = "e", .models = of, .utility = {utility}, .share = {1}};
    }
    const KeyId key = hand_.scheduler->add_service(info);
    world_.answers[key] = of;
    services_.push_back(key);
    if (kind == Kind::kEnsemble) world_.ensembles.insert(key);
  }
  // A service that nobody waits for goes, and another comes, under a key that may be the same.
  void reload() {
    const KeyId key = any(services_);
    if (hand_.scheduler->waiting_items(key) > 0) return;
    for (const auto& [job, task] : waiting_) {
      if (task.key == key) return;
    }
    if (std::any_of(story_.begin(), story_.end(),
                    [key](const Happened& h) { return h.task.key == key; })) {
      return;  // the checkers know one service by each key
    }
    const bool ensemble = world_.ensembles.erase(key) > 0;
    hand_.scheduler->remove_key(key);
    world_.answers.erase(key);
    std::erase(services_, key);
    add_service(ensemble ? Kind::kEnsemble : Kind::kVariants);
  }
  void arrive() {
    const KeyId key = random_.below(3) == 0 ? any(models_) : any(services_);
    const Task task = random_.below(10) == 0 ? hand_.task(key, now_, 3000)
                                             : hand_.task(key, now_, 60 * random_.uniform());
    waiting_.emplace(task.job, task);
    story_.push_back({.kind = Happened::kArrived, .task = task});
    hand_.scheduler->nominate(task, at_ms(now_), hand_.out);
    note();
    if (random_.below(2) == 0) return;
    const auto c = static_cast<uint32_t>(random_.below(6));
    Estimate estimate = Evidence{c, 5 - c};
    if (random_.below(2) == 0) estimate = Difficulty{.bin = c % 2, .score = 0.5};
    hand_.scheduler->learned(task, estimate, at_ms(now_), hand_.out);
  }
  void withdraw() {
    if (waiting_.empty()) return;
    const auto at =
        std::next(waiting_.begin(), static_cast<ptrdiff_t>(random_.below(waiting_.size())));
    const Task task = at->second;
    if (!hand_.scheduler->withdraw(task, at_ms(now_), hand_.out)) return;
    story_.push_back({.kind = Happened::kWithdrawn, .task = task});
    waiting_.erase(task.job);
  }
  void end_batches(bool all) {
    for (uint32_t w = 0; w < running_.size(); ++w) {
      auto& own = running_[w];
      if (own.empty() || (!all && own[0].batch.finish > at_ms(now_ + 2) && random_.below(4) != 0)) {
        continue;
      }
      const Running ended = std::move(own.front());
      own.erase(own.begin());
      for (const Task& task : ended.batch.tasks) {
        const bool fails = world_.ensembles.contains(task.key) && random_.below(6) == 0;
        if (fails) hand_.scheduler->failed(WorkerId(w), task);
        story_.push_back({.kind = Happened::kFreed,
                          .task = task,
                          .key = ended.batch.key,
                          .worker = WorkerId(w),
                          .batch = ended.id,
                          .no_answer = fails});
      }
      hand_.freed(WorkerId(w), now_);
      note();
    }
  }
  void end(Happened::Kind kind, const Task& task, plan::Subset ran = 0) {
    story_.push_back({.kind = kind, .task = task, .ran = ran});
    waiting_.erase(task.job);
  }
  void note() {
    for (const Batch& batch : hand_.out.bound) {
      running_[batch.worker.index()].push_back({batch, ++batches_});
      for (const Task& task : batch.tasks) {
        story_.push_back({.kind = Happened::kTaken,
                          .task = task,
                          .key = batch.key,
                          .worker = batch.worker,
                          .batch = batches_});
        if (!world_.ensembles.contains(task.key)) waiting_.erase(task.job);
      }
    }
    for (const Dropped& dropped : hand_.out.dropped) end(Happened::kDropped, dropped.task);
    for (const Task& task : hand_.out.short_circuited) end(Happened::kAnswered, task);
    for (const Concluded& c : hand_.out.concluded) end(Happened::kConcluded, c.task, c.ran);
    hand_.out.clear();
  }

  Hand hand_;
  Random random_;
  const size_t workers_;
  double now_ = 0;
  uint32_t variants_ = 0;
  uint64_t batches_ = 0;
  std::vector<KeyId> models_, services_;
  std::vector<std::vector<Running>> running_;
  std::map<JobId, Task> waiting_;
  World world_;
  Story story_;
};

using Check = std::vector<std::string> (*)(const World&, const Story&);
constexpr Check kChecks[] = {check_ends, check_batches, check_workers, check_queries};

TEST(MixedStorm, CheckersFindNothing) {
  for (const char* policy : {"fermata", "deferred", "eager"}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      MixedStorm storm(policy, seed);
      for (int i = 0; i < 1500; ++i) storm.step();
      storm.calm();
      for (const Check check : kChecks) {
        ASSERT_THAT(check(storm.world(), storm.story()), IsEmpty()) << policy << " " << seed;
      }
    }
  }
}

// One story that is right, and what makes each checker speak.
TEST(MixedStorm, CheckersRejectBadStories) {
  const World world{.answers = {{KeyId(9), {KeyId(0), KeyId(1)}}}, .ensembles = {KeyId(9)}};
  const Task query{JobId(1), KeyId(9), at_ms(0), at_ms(50)},
      plain{JobId(2), KeyId(0), at_ms(0), at_ms(50)};
  const WorkerId w(0);
  const Story good = {
      {.kind = Happened::kArrived, .task = query},
      {.kind = Happened::kArrived, .task = plain},
      {.kind = Happened::kTaken, .task = query, .key = KeyId(0), .worker = w, .batch = 1},
      {.kind = Happened::kTaken, .task = plain, .key = KeyId(0), .worker = w, .batch = 1},
      {.kind = Happened::kFreed, .task = query, .key = KeyId(0), .worker = w, .batch = 1},
      {.kind = Happened::kConcluded, .task = query, .ran = 1},
  };
  for (const Check check : kChecks) EXPECT_THAT(check(world, good), IsEmpty());
  Story bad = good;
  bad.push_back(bad.back());
  EXPECT_THAT(check_ends(world, bad), Not(IsEmpty()));
  bad = good;
  bad.pop_back();
  EXPECT_THAT(check_ends(world, bad), Not(IsEmpty()));
  bad = good;
  bad[3].key = KeyId(1);
  EXPECT_THAT(check_batches(world, bad), Not(IsEmpty()));
  bad = good;
  bad[2].key = KeyId(5);
  EXPECT_THAT(check_batches(world, bad), Not(IsEmpty()));
  bad = good;
  for (uint64_t b = 2; b <= 3; ++b) {
    bad.push_back(
        {.kind = Happened::kTaken, .task = plain, .key = KeyId(0), .worker = w, .batch = b});
  }
  bad.erase(bad.begin() + 4);
  EXPECT_THAT(check_workers(world, bad), Not(IsEmpty()));
  bad = good;
  bad.back().ran = 3;
  EXPECT_THAT(check_queries(world, bad), Not(IsEmpty()));
  bad = good;
  bad[4].no_answer = true;
  EXPECT_THAT(check_queries(world, bad), Not(IsEmpty()));
  bad = good;
  bad.insert(bad.begin() + 4, bad[2]);
  EXPECT_THAT(check_queries(world, bad), Not(IsEmpty()));
  bad = good;
  bad.back().kind = Happened::kDropped;
  EXPECT_THAT(check_queries(world, bad), Not(IsEmpty()));
}

}  // namespace
}  // namespace fermata::policy
