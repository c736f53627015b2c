// Services of all kinds on one pool of 1 to 64 workers, at its worst: batches end early or late or
// without an answer for some, clients leave, latencies change, services and models are reloaded.
// What happened is written down, and judged by checkers that know nothing of any policy.
#include <gmock/gmock.h>

#include <map>

#include "base/random.h"
#include "policy/any_rules.h"
#include "policy/hand.h"
#include "policy/story.h"

namespace fermata::policy {
namespace {

using testing::IsEmpty;
using testing::Not;

class MixedStorm {
 public:
  MixedStorm(std::string_view policy, uint64_t seed)
      : hand_(policy), random_(seed), workers_(uint64_t{1} << random_.below(7)) {
    hand_.scheduler = std::make_unique<Teller>(std::move(hand_.scheduler), story_);
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
    if (what == 0 && services_.size() < 12) add_service(static_cast<Kind>(random_.below(2)));
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
  void change_rules() {
    if (random_.below(8) != 0) return;
    EXPECT_TRUE(hand_.scheduler->set_rules(any_rules(random_), at_ms(now_), hand_.out));
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
  const Story& story() const { return story_; }

 private:
  KeyId any(const std::vector<KeyId>& keys) { return keys[random_.below(keys.size())]; }
  LatencyByType latency() { return linear(0.2 + 2 * random_.uniform(), 4 * random_.uniform(), 12); }
  void add_model() {
    const uint32_t id = variants_++;
    models_.push_back(hand_.scheduler->add_key(
        {.name = "m" + std::to_string(id), .latency = latency(), .variant = VariantId(id)}));
  }
  void add_service(Kind kind) {
    const std::vector<KeyId> of(models_.begin(), models_.begin() + 2 + random_.below(2));
    ServiceInfo info = VariantsInfo{
        .name = "a",
        .variants = {},
        .penalty = {random_.below(2) == 0 ? plan::PenaltyShape::kStep : plan::PenaltyShape::kNone},
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
    services_.push_back(key);
    if (kind == Kind::kEnsemble) ensembles_.insert(key);
  }
  // A service that nobody waits for goes, and another comes, under a key that may be the same.
  void reload() {
    const KeyId key = any(services_);
    if (hand_.scheduler->waiting_items(key) > 0) return;
    for (const auto& [job, task] : waiting_) {
      if (task.key == key) return;
    }
    const bool ensemble = ensembles_.erase(key) > 0;
    hand_.scheduler->remove_key(key);
    std::erase(services_, key);
    add_service(ensemble ? Kind::kEnsemble : Kind::kVariants);
  }
  void arrive() {
    const KeyId key = random_.below(3) == 0 ? any(models_) : any(services_);
    const Task task = random_.below(10) == 0 ? hand_.task(key, now_, 3000)
                                             : hand_.task(key, now_, 60 * random_.uniform());
    waiting_.emplace(task.job, task);
    hand_.scheduler->nominate(task, at_ms(now_), hand_.out);
    note();
    if (random_.below(2) == 0) return;
    const auto c = static_cast<uint32_t>(random_.below(6));
    Estimate estimate = Evidence{c, 5 - c};
    if (random_.below(2) == 0) {
      estimate = Difficulty{.bin = c < 4 ? c % 2 : Difficulty::kUnknown, .score = 0.5};
    }
    hand_.scheduler->learned(task, estimate, at_ms(now_), hand_.out);
  }
  void withdraw() {
    if (waiting_.empty()) return;
    const auto at =
        std::next(waiting_.begin(), static_cast<ptrdiff_t>(random_.below(waiting_.size())));
    const Task task = at->second;
    if (!hand_.scheduler->withdraw(task, at_ms(now_), hand_.out)) return;
    waiting_.erase(task.job);
  }
  void end_batches(bool all) {
    for (uint32_t w = 0; w < running_.size(); ++w) {
      auto& own = running_[w];
      if (own.empty() || (!all && own[0].finish > at_ms(now_ + 2) && random_.below(4) != 0)) {
        continue;
      }
      const Batch ended = std::move(own.front());
      own.erase(own.begin());
      std::vector<Task> failed;
      for (const Task& task : ended.tasks) {
        const bool fails = ensembles_.contains(task.key) && random_.below(6) == 0;
        if (fails) failed.push_back(task);
      }
      hand_.scheduler->ended({WorkerId(w), failed}, at_ms(now_), hand_.out);
      note();
    }
  }
  void note() {
    for (const Batch& batch : hand_.out.bound) {
      running_[batch.worker.index()].push_back(batch);
      for (const Task& task : batch.tasks) {
        if (!ensembles_.contains(task.key)) waiting_.erase(task.job);
      }
    }
    for (const Dropped& dropped : hand_.out.dropped) waiting_.erase(dropped.task.job);
    for (const Concluded& c : hand_.out.concluded) waiting_.erase(c.task.job);
    hand_.out.clear();
  }

  Hand hand_;
  Random random_;
  const size_t workers_;
  double now_ = 0;
  uint32_t variants_ = 0;
  std::vector<KeyId> models_, services_;
  std::set<KeyId> ensembles_;
  std::vector<std::vector<Batch>> running_;
  std::map<JobId, Task> waiting_;
  Story story_;
};

TEST(MixedStorm, CheckersFindNothing) {
  for (const char* policy : {"fermata", "deferred", "eager"}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      MixedStorm storm(policy, seed);
      for (int i = 0; i < 1500; ++i) storm.step();
      storm.calm();
      for (const Check check : kChecks) {
        ASSERT_THAT(check(storm.story()), IsEmpty()) << policy << " " << seed;
      }
    }
  }
}

TEST(MixedStorm, CheckersFindNothingWhileRulesChange) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    MixedStorm storm("fermata", seed);
    for (int i = 0; i < 1500; ++i) {
      storm.step();
      storm.change_rules();
    }
    storm.calm();
    for (const Check check : kChecks) ASSERT_THAT(check(storm.story()), IsEmpty()) << seed;
  }
}

// One story that is right, and what makes each checker speak.
TEST(MixedStorm, CheckersRejectBadStories) {
  const JobId query(1), plain(2);
  const WorkerId w(0);
  const uint32_t first = 1, other = 2, ensemble = 9;
  const Story good = {
      .happened = {{.kind = Happened::kArrived, .job = query, .service = ensemble},
                   {.kind = Happened::kArrived, .job = plain, .service = first},
                   {.kind = Happened::kTaken,
                    .job = query,
                    .service = ensemble,
                    .model = first,
                    .worker = w,
                    .batch = 1,
                    .finish = at_ms(9),
                    .deadline = at_ms(5)},
                   {.kind = Happened::kTaken,
                    .job = plain,
                    .service = first,
                    .model = first,
                    .worker = w,
                    .batch = 1,
                    .finish = at_ms(9),
                    .deadline = at_ms(9)},
                   {.kind = Happened::kFreed,
                    .job = query,
                    .service = ensemble,
                    .model = first,
                    .worker = w,
                    .batch = 1},
                   {.kind = Happened::kConcluded, .job = query, .service = ensemble, .ran = 1}},
      .answers = {{ensemble, {first, other}}},
      .ensembles = {ensemble}};
  for (const Check check : kChecks) EXPECT_THAT(check(good), IsEmpty());
  const auto spoilt = [&good](auto spoil) {
    Story bad = good;
    spoil(bad.happened);
    return bad;
  };
  using Events = std::vector<Happened>;
  const std::pair<Check, Story> bad[] = {
      {check_ends, spoilt([](Events& e) { e.push_back(e.back()); })},
      {check_ends, spoilt([](Events& e) { e.pop_back(); })},
      {check_batches, spoilt([](Events& e) { e[3].model = 2; })},
      {check_batches, spoilt([](Events& e) { e[2].model = 5; })},
      {check_workers, spoilt([](Events& e) {
         e.erase(e.begin() + 4);
         for (uint64_t b = 2; b <= 3; ++b) e.push_back(e[3]), e.back().batch = b;
       })},
      {check_queries, spoilt([](Events& e) { e.back().ran = 3; })},
      {check_queries, spoilt([](Events& e) { e[4].no_answer = true; })},
      {check_queries, spoilt([](Events& e) { e.insert(e.begin() + 4, Happened(e[2])); })},
      {check_queries, spoilt([](Events& e) { e.back().kind = Happened::kDropped; })},
      {check_deadlines, spoilt([](Events& e) { e[3].deadline = at_ms(8); })},
  };
  for (const auto& [check, story] : bad) EXPECT_THAT(check(story), Not(IsEmpty()));
}

}  // namespace
}  // namespace fermata::policy
