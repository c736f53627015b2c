#include "engine/schedule/driver.h"

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/schedule/budget_text.h"
#include "engine/schedule/driver_state.h"

namespace fermata::engine {
namespace {

constexpr size_t kMaxKeys = 256;  // of one variant
constexpr size_t kMaxEarlyCancels = 4096;
// A run that takes so many times as long as is expected of it does not end by itself.
constexpr int64_t kMostTimesExpected = 20;
constexpr Duration kLastRuns = Duration::seconds(5);  // may take, when the server stops

absl::Status shutting_down() {
  return error(absl::StatusCode::kUnavailable, "the server is shutting down");
}

}  // namespace

Driver::Driver(Shared shared, std::unique_ptr<policy::Scheduler> scheduler, double quantile,
               std::vector<NewWorker> workers,
               absl::AnyInvocable<void(std::shared_ptr<Job>)> orphan)
    : shared_(shared),
      serving_(std::min<uint32_t>(shared.serving, static_cast<uint32_t>(workers.size()))),
      control_delay_(estimate::ControlDelay().bound().nanos()),
      scheduler_(std::move(scheduler)),
      orphan_(std::move(orphan)),
      keys_(*scheduler_, quantile, kMaxKeys, shared.types) {
  const Time now = monotonic_now();
  scheduler_->set_delay_bound({.control = control_delay()});
  for (NewWorker& worker : workers) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->executor = std::move(worker.executor);
    workers_.back()->type = worker.type;
    observe_deaths(*workers_.back()->executor, static_cast<uint32_t>(workers_.size() - 1));
    const WorkerId id = scheduler_->add_worker(now, decisions_, worker.type, worker.memory_bytes);
    FERMATA_CHECK(id.index() + 1 == workers_.size());
    workers_.back()->away = workers_.back()->executor->comes_and_goes();
    remote_ = remote_ || workers_.back()->away;
    if (id.index() >= serving_ || workers_.back()->away) {
      scheduler_->planned(policy::Serving{id, false}, now, decisions_);
    }
  }
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i]->away) continue;
    workers_[i]->executor->tell_presence([this, i](Executor::Presence presence) {
      leave([this, i, presence = std::move(presence)] { came_or_went(i, presence); });
    });
  }
  turns_.call();
}

Driver::~Driver() {
  for (const auto& worker : workers_) worker->executor->tell_presence(nullptr);
  for (const auto& worker : workers_) worker->executor->end_soon(kLastRuns);
  leave([this] {
    stopping_ = true;
    withdraw_waiting([](const Route&) { return true; }, shutting_down(), monotonic_now());
  });
  turns_.join();
  while (completing_.load() > 0) std::this_thread::yield();
  // A query that has run may wait, with nothing in flight, for a moment that does not come.
  for (const auto& [id, part] : parts_) {
    part.job->end(Outcome::kUnavailable, shutting_down(), {});
  }
  for (Event late; events_.try_dequeue(late);) {
    if (auto* job = std::get_if<std::shared_ptr<Job>>(&late)) {
      (*job)->end(Outcome::kUnavailable, shutting_down(), {});
    }
  }
}

void Driver::post(Event event) {
  events_.enqueue(std::move(event));
  turns_.take();
}

void Driver::leave(Event event) {
  events_.enqueue(std::move(event));
  turns_.call();
}

void Driver::submit(std::shared_ptr<Job> job) { post(std::move(job)); }
void Driver::cancel(JobId id) { leave(Cancel{id}); }
void Driver::learned(std::shared_ptr<Job> job, std::vector<policy::Estimate> by_item) {
  post(Learned{std::move(job), std::move(by_item)});
}

void Driver::post_and_wait(absl::FunctionRef<void()> command) {
  std::promise<void> done;
  leave([&] {
    command();
    done.set_value();
  });
  done.get_future().wait();
}

void Driver::settle() {
  post_and_wait([] {});
}

void Driver::add(std::shared_ptr<const Variant> variant, Duration slo) {
  if (shared_.observer != nullptr) shared_.observer->model(variant->id, variant->model);
  post_and_wait([&] { keys_.add(std::move(variant), slo); });
}

void Driver::retire(VariantId id, bool refuse_waiting, absl::AnyInvocable<void()> gone) {
  leave([this, id, refuse_waiting, gone = std::move(gone)]() mutable {
    if (refuse_waiting) {
      // Variants services go on with what they have left, and those that wait as they are.
      withdraw_waiting([id](const Route& route) { return route.variant->id == id; },
                       error(absl::StatusCode::kUnavailable, "the model was unloaded"),
                       monotonic_now());
    }
    composites_.retire(id);
    keys_.retire(id, [this, id, gone = std::move(gone)]() mutable {
      unload(id);
      gone();
    });
  });
}

// Events in the order of each thread that brought them.
Turns::Left Driver::work(bool guest) {
  const bool all_new = next_ == count_;
  if (all_new) {
    next_ = 0;
    count_ = events_.try_dequeue_bulk(token_, taken_.begin(), taken_.size());
  }
  const bool more = !all_new || count_ == taken_.size();
  const Time now = monotonic_now();
  for (; next_ < count_; ++next_) {
    if (guest && std::holds_alternative<Command>(taken_[next_])) return {.for_resident = true};
    handle(taken_[next_], now);
    taken_[next_] = std::monostate();
    if (guest && next_ + 1 < count_ && monotonic_now() - now > Turns::kLongest) {
      ++next_;
      return {.more = true};
    }
  }
  look_aside(now);
  if (const Time due = scheduler_->next_wake(); due <= now) {
    overslept_ = now - due;
    observe_delay(overslept_, now);
    scheduler_->tick(now, decisions_);
    act(now);
    overslept_ = Duration();
  }
  if (stopping_ && in_flight_ == 0) return {.for_resident = guest, .over = !guest};
  return {.more = more, .due = std::min(scheduler_->next_wake(), next_aside())};
}

void Driver::handle(Event& event, Time now) {
  if (auto* job = std::get_if<std::shared_ptr<Job>>(&event)) {
    arrived(std::move(*job), now);
  } else if (auto* running = std::get_if<std::shared_ptr<InFlight>>(&event)) {
    batch_ended(**running, now);
  } else if (auto* cancel = std::get_if<Cancel>(&event)) {
    cancelled(cancel->id, now);
  } else if (auto* learned_of = std::get_if<Learned>(&event)) {
    learned(*learned_of, now);
  } else if (auto* command = std::get_if<Command>(&event)) {
    (*command)();
  }
  act(now);
}

void Driver::arrived(std::shared_ptr<Job> job, Time now) {
  if (!early_cancels_.empty() && early_cancels_.erase(job->id()) > 0) {
    job->end(Outcome::kCancelled, absl::CancelledError("the client went away"), {});
  }
  if (stopping_) {
    job->end(Outcome::kUnavailable, shutting_down(), {});
  }
  if (job->ended()) return job->leave_queue();
  if (!served(job->route())) return orphan_(std::move(job));
  const KeyId key = key_of(*job, now);
  if (key.is_none()) {
    job->end(Outcome::kRejectedQueue,
             error(absl::StatusCode::kResourceExhausted,
                   "{} batch shapes of '{}' are in use, a new one has to wait", kMaxKeys,
                   job->route().service),
             {});
    return job->leave_queue();
  }
  nominate(job, key, now);
}

void Driver::nominate(const std::shared_ptr<Job>& job, KeyId key, Time now) {
  const Time arrival = job->request().arrival, deadline = deadline_for(*job, key, now);
  const uint32_t most = job->route().part_items;
  const uint32_t parts = (job->items() - 1) / most + 1;
  job->waiting_parts = job->open_parts = parts;
  if (parts > 1) {
    job->split(parts);
    split_jobs_[job->id()] = job;
  }
  for (uint32_t i = 0; i < parts; ++i) {
    const JobId id = parts > 1 ? next_id() : job->id();
    if (parts > 1) job->part_ids.push_back(id);
    const policy::Task task{.job = id,
                            .key = key,
                            .arrival = std::min(arrival, now),
                            .deadline = deadline,
                            .items = std::min(most, job->items() - i * most),
                            .start_from = job->request().start_from,
                            .begun = job->request().begun};
    parts_[id] = {task, job, i, i * most, false, now};
    task_added(key);
  }
  batch_keys_.store(keys_.size(), std::memory_order_relaxed);
  if (parts == 1) {
    scheduler_->nominate(parts_.at(job->id()).task, now, decisions_);
  } else {
    for (JobId id : job->part_ids) scheduler_->nominate(parts_.at(id).task, now, decisions_);
  }
  tell(*job, now);
}

void Driver::cancelled(JobId id, Time now) {
  const std::shared_ptr<Job> job = job_of(id);
  if (job == nullptr) {
    if (early_cancels_.insert(id).second) early_order_.push_back(id);
    if (early_order_.size() > kMaxEarlyCancels) {
      early_cancels_.erase(early_order_.front());
      early_order_.pop_front();
    }
    return;
  }
  job->end(Outcome::kCancelled, absl::CancelledError("the client went away"), {});
  withdraw_parts(*job, now);
}

void Driver::act(Time now) {
  while (!decisions_.empty()) {
    std::swap(acting_, decisions_);  // acting on one may decide the next
    for (policy::Batch& batch : acting_.bound) launch(batch, now);
    for (const policy::Dropped& dropped : acting_.dropped) refuse(dropped, now);
    for (const policy::Concluded& concluded : acting_.concluded) conclude(concluded, now);
    acting_.clear();
  }
}

void Driver::launch(policy::Batch& batch, Time now) {
  auto running = std::make_shared<InFlight>();
  running->key = batch.key;
  running->worker = batch.worker;
  running->items = batch.items;
  running->load = batch.load;
  running->chosen = batch.chosen;
  running->run.choice = {.start = batch.start, .price = batch.price};
  running->due = now - overslept_;  // not batch.start, which is later by the bound that it measures
  running->shares.reserve(batch.tasks.size());
  const VariantId variant = keys_.at(batch.key).variant;
  running->variant = keys_.variant(variant);
  BatchRun run{.variant = variant};
  run.limit = std::max(shared_.run_limit, (batch.finish - batch.start) * kMostTimesExpected);
  run.most_bytes = shared_.most_bytes;
  run.parts.reserve(batch.tasks.size());
  for (const policy::Task& task : batch.tasks) {
    Part& part = parts_.at(task.job);
    if (!std::exchange(part.left, true)) left_queue(*part.job);
    part.bound = true;
    if (remote_) watch(task.job, batch.worker);
    part.job->decided = true;
    running->shares.push_back({task.job, part.job, part.index});
    running->shares.back().lost = part.lost;
    running->shares.back().cut = part.cut;
    const InferRequest& request = part.job->request();
    run.parts.push_back({&request.inputs, &request.outputs, part.first, task.items});
    BatchPart& bound = run.parts.back();
    bound.alone = bound.last = part.lost > 0;
    bound.request = task.job.value();
    // Whoever binds again what is late wants it late: then it waits however long that takes.
    if (!part.late) bound.deadline = part.task.deadline;
    bound.id = &request.id;
    bound.parameters = &request.parameters;
    bound.elsewhere = request.elsewhere.get();
    if (part.job->route().ensemble != nullptr) join_query(part, *running, run.parts.back());
  }
  run.done = [this, running](BatchResult result) { completed(running, std::move(result)); };
  observe_bound(batch, *running, now);
  keys_.task_added(batch.key);  // an ensemble's query may end before its batches do
  ++in_flight_;
  ++workers_[batch.worker.index()]->in_flight;
  workers_[batch.worker.index()]->executor->run(std::move(run));
}

void Driver::refuse(const policy::Dropped& dropped, Time now) {
  const auto it = parts_.find(dropped.task.job);
  FERMATA_CHECK(it != parts_.end());
  const std::shared_ptr<Job> job = it->second.job;
  const Duration budget = job->deadline() - job->request().arrival;
  // What decisions kept free for the reply is an allowance too.
  const Duration kept = std::max(job->deadline() - dropped.task.deadline, Duration());
  const bool refused =
      job->end(Outcome::kRejectedDeadline,
               error(absl::StatusCode::kDeadlineExceeded,
                     "cannot end in time: {}, the expected wait is {:.3f} ms, the run time {:.3f} "
                     "ms and the allowance for the server's own delay {:.3f} ms",
                     budget_text(budget, job->deadline() - now), dropped.wait.millis(),
                     dropped.run.millis(), (dropped.allowance + kept).millis()),
               {.queueing = dropped.wait, .run = dropped.run, .remaining = job->deadline() - now});
  if (refused) doubt(dropped.task, now);
  forget(dropped.task.job);
  if (job->open_parts > 0) withdraw_parts(*job, now);
}

// The owner hears of it first; where there is none, this thread is it when it has replied, since
// its worker cannot run the next batch before.
void Driver::completed(const std::shared_ptr<InFlight>& running, BatchResult result) {
  FERMATA_CHECK(result.parts.size() == running->shares.size());
  completing_.fetch_add(1);
  reply(running, std::move(result));
  completing_.fetch_sub(1);
}

void Driver::reply(const std::shared_ptr<InFlight>& running, BatchResult result) {
  running->run = {.variant = running->variant.get(),
                  .worker = shared_.first_worker + running->worker.value(),
                  .worker_type = shared_.types[workers_[running->worker.index()]->type],
                  .batch_items = running->items,
                  .started = result.started,
                  .input = result.input,
                  .run = result.run,
                  .output = result.output,
                  .choice = running->run.choice};
  running->link = result.link;
  running->moved = result.moved;
  for (const auto& part : result.parts) running->all_good = running->all_good && part.ok();
  Worker& worker = *workers_[running->worker.index()];
  worker.batches.fetch_add(1, std::memory_order_relaxed);
  worker.busy_nanos.fetch_add(result.total().nanos(), std::memory_order_relaxed);
  Counters& counters = *running->shares.front().job->route().counters;
  counters.count_batch(running->items, result.input, result.run, result.output);
  counters.count_stages(result.stages);
  observe_end(*running, result);
  for (size_t i = 0; i < result.parts.size(); ++i) {
    InFlight::Share& share = running->shares[i];
    if (share.base_model) take_answer(*running, i, std::move(result.parts[i]));
    const absl::Status& why = share.base_model ? share.answer.status() : result.parts[i].status();
    share.failed = !why.ok();
    share.absence = share.again_after(absence_of(why));
  }
  auto run = running->run;  // a copy: the owner reads the batch's from now on
  events_.enqueue(running);
  // Where the next batch would run beside these replies, it begins before them.
  const Gate& gate = *running->shares.front().job->route().gate;
  if (gate.waiting.load(std::memory_order_relaxed) > 0 && worker.executor->runs_apart()) {
    turns_.take();
  }
  const Turns::Later later(turns_);
  for (size_t i = 0; i < result.parts.size(); ++i) {
    const InFlight::Share& share = running->shares[i];
    if (share.base_model || share.absence != Absence::kNone) continue;
    run.choice.joined = i >= running->chosen;
    share.job->answered(share.index, std::move(result.parts[i]), run);
    // What a reply led to may run on another worker while this one still replies.
    if (i == 0 && result.parts.size() > 1 && serving_ > 1) turns_.call();
  }
  worker.reply_nanos.store((monotonic_now() - run.ended()).nanos(), std::memory_order_relaxed);
}

void Driver::batch_ended(InFlight& running, Time now) {
  --in_flight_;
  learn(running, now);
  const auto [failed, away] = take_answers(running);
  if (remote_) look_for_cuts(running, now);
  scheduler_->ended({running.worker, failed, away}, now, decisions_);
  Worker& worker = *workers_[running.worker.index()];
  --worker.in_flight;
  leave_if_idle(worker);
  for (size_t i = 0; i < running.shares.size(); ++i) {
    const InFlight::Share& share = running.shares[i];
    const bool runs_again = share.absence != Absence::kNone;
    if (share.base_model) {  // it ends when it is concluded
      if (runs_again) ask_again(share.part, running);
    } else if (runs_again) {
      again(running, i, now);
    }
    if (share.base_model || runs_again) continue;
    forget(share.part);
    if (share.job->ended() && share.job->open_parts > 0) {
      withdraw_parts(*share.job, now);
    }
  }
  keys_.task_ended(running.key);
}

}  // namespace fermata::engine
