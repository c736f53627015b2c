#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policy/scheduler.h"

namespace fermata::policy {

// What a scheduler was told and what it decided, whoever drives it: a test by hand, the simulator
// or the engine. Services and models go by a number of their own, since their keys may come again.
struct Happened {
  enum Kind : uint8_t { kArrived, kTaken, kFreed, kDropped, kConcluded, kWithdrawn };
  Kind kind = kArrived;
  JobId job{};
  uint32_t service = 0;
  uint32_t model = 0;  // of the batch: kTaken, kFreed
  WorkerId worker{};
  uint64_t batch = 0;
  bool no_answer = false;  // kFreed: for this job
  plan::Subset ran = 0;    // kConcluded
  Time finish, deadline;   // kTaken: of the batch as expected, of the job
  Time at;                 // kArrived
};
struct Story {
  std::vector<Happened> happened;
  // By service: the models that may answer it; of an ensemble all together. A model's own: none.
  std::map<uint32_t, std::vector<uint32_t>> answers;
  std::set<uint32_t> ensembles;
  Time until = Time::infinite();  // who arrives later may still wait at its end
  bool refuses_late = true;       // plain models' requests are not bound beyond their deadlines

  bool is_plain(uint32_t service) const { return !answers.contains(service); }
};

// Judges that know nothing of any policy: what they found wrong, a line each.
using Findings = std::vector<std::string>;

// Every task ends once: in a batch, or as its kind may otherwise.
inline Findings check_ends(const Story& story) {
  std::map<JobId, int> open;
  std::set<JobId> late;
  Findings found;
  for (const Happened& h : story.happened) {
    const std::string job = std::to_string(h.job.value());
    if (h.kind == Happened::kArrived) ++open[h.job];
    if (h.kind == Happened::kArrived && h.at >= story.until) late.insert(h.job);
    const bool ends = h.kind == Happened::kTaken
                          ? !story.ensembles.contains(h.service)
                          : h.kind != Happened::kArrived && h.kind != Happened::kFreed;
    if (ends && --open[h.job] < 0) found.push_back(job + " ends twice");
  }
  for (const auto& [job, count] : open) {
    if (count > 0 && !late.contains(job))
      found.push_back(std::to_string(job.value()) + " never ends");
  }
  return found;
}

// Batches hold whom they may answer.
inline Findings check_batches(const Story& story) {
  Findings found;
  for (const Happened& h : story.happened) {
    if (h.kind != Happened::kTaken || h.service == h.model) continue;
    const auto of = story.answers.find(h.service);
    const bool may = of != story.answers.end() &&
                     std::find(of->second.begin(), of->second.end(), h.model) != of->second.end();
    if (!may) found.push_back(std::to_string(h.job.value()) + " is in another's batch");
  }
  return found;
}

// One worker runs one batch, and one more at most that was bound ahead.
inline Findings check_workers(const Story& story) {
  Findings found;
  std::map<WorkerId, std::set<uint64_t>> running;
  for (const Happened& h : story.happened) {
    if (h.kind == Happened::kTaken) running[h.worker].insert(h.batch);
    if (h.kind == Happened::kFreed) running[h.worker].erase(h.batch);
    if (running[h.worker].size() > 2) {
      found.push_back("worker " + std::to_string(h.worker.value()) + " runs three batches");
    }
  }
  return found;
}

// A query runs once on each of its models and is answered by those that had an answer by then.
inline Findings check_queries(const Story& story) {
  Findings found;
  std::map<JobId, plan::Subset> ran, answered;
  for (const Happened& h : story.happened) {
    if (!story.ensembles.contains(h.service)) continue;
    const std::string job = std::to_string(h.job.value());
    if (h.kind == Happened::kTaken || h.kind == Happened::kFreed) {
      const auto& models = story.answers.at(h.service);
      const auto at = std::find(models.begin(), models.end(), h.model) - models.begin();
      const plan::Subset bit = plan::Subset{1} << at;
      if (h.kind == Happened::kFreed) {
        if (!h.no_answer) answered[h.job] |= bit;
      } else if ((ran[h.job] & bit) != 0) {
        found.push_back(job + " runs twice on a model");
      }
      ran[h.job] |= bit;
    } else if (h.kind == Happened::kConcluded && h.ran != answered[h.job]) {
      found.push_back(job + " is answered by others than have answered");
    } else if (h.kind == Happened::kDropped && ran[h.job] != 0) {
      found.push_back(job + " is dropped although it ran");
    }
  }
  return found;
}

// Who asks a plain model by a deadline is not run beyond it.
inline Findings check_deadlines(const Story& story) {
  Findings found;
  for (const Happened& h : story.happened) {
    if (h.kind != Happened::kTaken || !story.is_plain(h.service) || !story.refuses_late) continue;
    if (h.finish > h.deadline) {
      found.push_back(std::to_string(h.job.value()) + " is run beyond its deadline");
    }
  }
  return found;
}

using Check = Findings (*)(const Story&);
inline constexpr Check kChecks[] = {check_ends, check_batches, check_workers, check_queries,
                                    check_deadlines};

// Hands on all that it is told, and writes the story.
class Teller final : public Scheduler {
 public:
  Teller(std::unique_ptr<Scheduler> inner, Story& story)
      : inner_(std::move(inner)), story_(story) {}

  KeyId add_key(KeyInfo info) override {
    const KeyId key = inner_->add_key(std::move(info));
    service_[key] = ++services_;
    return key;
  }
  KeyId add_service(const ServiceInfo& info) override {
    const KeyId key = inner_->add_service(info);
    service_[key] = ++services_;
    std::vector<uint32_t>& models = story_.answers[services_];
    if (const auto* ensemble = std::get_if<EnsembleInfo>(&info)) {
      story_.ensembles.insert(services_);
      for (const KeyId model : ensemble->models) models.push_back(service_.at(model));
    } else {
      for (const auto& v : std::get<VariantsInfo>(info).variants) {
        models.push_back(service_.at(v.key));
      }
    }
    return key;
  }
  void remove_key(KeyId key) override { inner_->remove_key(key); }
  void update_latency(KeyId key, LatencyByType latency, Time now, Decisions& out) override {
    listen(out, [&] { inner_->update_latency(key, std::move(latency), now, out); });
  }
  void set_delay_bound(DelayBound bound) override { inner_->set_delay_bound(bound); }
  bool set_rules(const Rules& rules, Time now, Decisions& out) override {
    bool taken = false;
    listen(out, [&] { taken = inner_->set_rules(rules, now, out); });
    return taken;
  }
  WorkerId add_worker(Time now, Decisions& out, uint32_t type, int64_t memory) override {
    WorkerId worker;
    listen(out, [&] { worker = inner_->add_worker(now, out, type, memory); });
    return worker;
  }
  bool workers_may_leave() const override { return inner_->workers_may_leave(); }
  void planned(const Plan& plan, Time now, Decisions& out) override {
    listen(out, [&] { inner_->planned(plan, now, out); });
  }
  bool serves(Kind kind) const override { return inner_->serves(kind); }
  void learned(const Task& task, const Estimate& estimate, Time now, Decisions& out) override {
    listen(out, [&] { inner_->learned(task, estimate, now, out); });
  }
  void nominate(const Task& task, Time now, Decisions& out) override {
    tell({.kind = Happened::kArrived, .at = now}, task);
    listen(out, [&] { inner_->nominate(task, now, out); });
  }
  bool withdraw(const Task& task, Time now, Decisions& out) override {
    bool gone = false;
    const size_t at = story_.happened.size();
    listen(out, [&] { gone = inner_->withdraw(task, now, out); });
    if (gone) {
      Happened h{.kind = Happened::kWithdrawn, .job = task.job};
      h.service = service_.at(task.key);
      story_.happened.insert(story_.happened.begin() + static_cast<ptrdiff_t>(at), h);
    }
    return gone;
  }
  void ended(const BatchEnd& batch, Time now, Decisions& out) override {
    std::vector<Running>& running = running_[batch.worker];
    Running ended = std::move(running.front());
    running.erase(running.begin());
    for (Happened& h : ended) {
      h.kind = Happened::kFreed;
      for (const Task& task : batch.failed) h.no_answer = h.no_answer || task.job == h.job;
      story_.happened.push_back(h);
    }
    listen(out, [&] { inner_->ended(batch, now, out); });
  }
  void tick(Time now, Decisions& out) override {
    listen(out, [&] { inner_->tick(now, out); });
  }
  Time next_wake() const override { return inner_->next_wake(); }
  uint64_t waiting_items(KeyId key) const override { return inner_->waiting_items(key); }
  std::vector<Problem> last_problems() const override { return inner_->last_problems(); }

 private:
  using Running = std::vector<Happened>;  // what was taken by one batch

  void tell(Happened h, const Task& task) {
    h.job = task.job;
    h.service = service_.at(task.key);
    h.deadline = task.deadline;
    story_.happened.push_back(h);
  }
  // `out` may hold what was decided before.
  template <class Call>
  void listen(Decisions& out, Call call) {
    const size_t bound = out.bound.size(), dropped = out.dropped.size(),
                 concluded = out.concluded.size();
    call();
    for (size_t i = bound; i < out.bound.size(); ++i) take(out.bound[i]);
    for (size_t i = dropped; i < out.dropped.size(); ++i) {
      tell({.kind = Happened::kDropped}, out.dropped[i].task);
    }
    for (size_t i = concluded; i < out.concluded.size(); ++i) {
      tell({.kind = Happened::kConcluded, .ran = out.concluded[i].ran}, out.concluded[i].task);
    }
  }
  void take(const Batch& batch) {
    Running& running = running_[batch.worker].emplace_back();
    ++batches_;
    for (const Task& task : batch.tasks) {
      tell({.kind = Happened::kTaken,
            .model = service_.at(batch.key),
            .worker = batch.worker,
            .batch = batches_,
            .finish = batch.finish},
           task);
      running.push_back(story_.happened.back());
    }
  }

  const std::unique_ptr<Scheduler> inner_;
  Story& story_;
  std::map<KeyId, uint32_t> service_;  // that has the key now
  uint32_t services_ = 0;
  uint64_t batches_ = 0;
  std::map<WorkerId, std::vector<Running>> running_;
};

}  // namespace fermata::policy
