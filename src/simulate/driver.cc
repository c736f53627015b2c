#include "simulate/driver.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "base/check.h"
#include "base/status.h"
#include "simulate/run.h"

namespace fermata::simulate {
namespace {

constexpr uint64_t kProgressEvery = 1 << 16;  // events
constexpr double kLatencyQuantile = 0.9;      // the server's, if nothing is configured
constexpr uint64_t kDrawn = 0x6974656d73;     // apart from the streams of arrivals

}  // namespace

Run::Run(const Scenario& scenario, const RunOptions& options,
         std::unique_ptr<policy::Scheduler> scheduler)
    : scenario_(scenario),
      options_(options),
      scheduler_(std::move(scheduler)),
      delays_(scenario.delays, scenario.network) {
  result_.duration = scenario.duration;
  result_.workers = scenario.worker_count();
  scheduler_->set_delay_bound(delays_.bound());
  add_models();
  add_variants_services();
  add_ensembles();
  add_pipelines();
  add_composites();
  next_arrival_.resize(sources_.size());
  for (size_t i = 0; i < sources_.size(); ++i) next_arrival_.set(i, sources_[i].arrivals.next());
  add_workers();
}

KeyId Run::add_key(policy::KeyInfo info, const std::vector<LatencyModel>& latency,
                   uint32_t max_batch) {
  info.latency = *LatencyByType::make(latency, max_batch);
  const std::string name = info.name;
  info.variant = VariantId(variants_++);
  const LatencyByType tables = info.latency;
  const KeyId key = scheduler_->add_key(std::move(info));
  know(key, name, sources_.size());
  latencies_.resize(names_.size());
  latencies_[key.index()] = tables;
  return key;
}

void Run::know(KeyId key, const std::string& name, size_t source) {
  names_.resize(std::max(names_.size(), key.index() + size_t{1}));
  source_of_.resize(names_.size());
  names_[key.index()] = name;
  places_.resize(names_.size());
  places_[key.index()] = KeyId(known_++);
  source_of_[key.index()] = source;
}

void Run::add_source(Source source, double share, const ArrivalProcess& process,
                     const std::string& name) {
  const size_t i = sources_.size();
  source.drawn = Random(scenario_.seed ^ kDrawn, i);
  source.arrivals = Arrivals(process, scenario_.rate_of(share), Time(), Random(scenario_.seed, i));
  sources_.push_back(std::move(source));
  result_.models.emplace_back().name = name;
}

void Run::add_models() {
  for (const SimulatedModel& model : scenario_.models) {
    const KeyId key =
        add_key({.name = model.name, .slo = model.slo, .rate_rps = scenario_.rate_of(model.share)},
                model.latency, model.max_batch);
    if (model.drift != 1 || model.measured != nullptr) {
      Drift& drift = drifts_[key];
      drift.factor = model.drift;
      drift.measured = model.measured;
      drift.learned = latencies_[key.index()];
      for (const auto& table : latencies_[key.index()].tables()) {
        drift.corrections.emplace_back(table, kLatencyQuantile, /*guessed=*/false);
      }
    }
    Source source{.slo = model.slo, .key = key, .demand = &model.demand};
    add_to_tree(source, {key}, latencies_[key.index()].slowest()->max_batch());
    add_source(std::move(source), model.share, model.arrival, model.name);
  }
}

KeyId Run::add_variant(const SimulatedVariant& variant) {
  if (variant.model) return sources_[*variant.model].key;
  return add_key(
      {.name = variant.name, .load = variant.load, .memory_bytes = variant.memory_bytes()},
      variant.latency, variant.max_batch);
}

void Run::add_workers() {
  for (size_t type = 0; type < scenario_.workers.size(); ++type) {
    // Models are resident; what variants services choose from is loaded as it is needed.
    const int64_t memory = scenario_.variants.empty()
                               ? policy::kUnlimitedMemory
                               : scenario_.bytes_for_variants(scenario_.workers[type]);
    for (uint32_t i = 0; i < scenario_.workers[type].count; ++i) {
      scheduler_->add_worker(Time(), decisions_, static_cast<uint32_t>(type), memory);
    }
  }
  for (uint32_t type = 0; type < scenario_.workers.size(); ++type) {
    workers_.resize(workers_.size() + scenario_.workers[type].count, {.type = type});
  }
  next_end_.resize(workers_.size());
  serving_ = result_.workers;
}

absl::StatusOr<Result> Run::go() {
  // Later arrivals go on until every measured request has met its deadline, so
  // that the last ones see the same load as the others; what is served late is awaited.
  Duration longest;
  for (const Source& source : sources_) {
    if (!source.slo.is_infinite()) longest = std::max(longest, source.slo);
  }
  const Time end = to_ + longest;
  stop_arrivals_at(end);
  while (failed_.ok()) {
    const Time next = std::min(
        {next_end_.top(), next_arrival_.top(), next_evidence(), adaptation_.next(), next_wake()});
    if (next > end && unended_ == 0) break;
    step();
    if (options_.progress && result_.events % kProgressEvery == 0) {
      options_.progress(std::min(1.0, (next - Time()).seconds() / (end - Time()).seconds()));
    }
  }
  RETURN_IF_ERROR(failed_);
  charge(to_);
  for (const ModelResult& m : result_.models) {
    FERMATA_CHECK(m.offered == m.on_time + m.late + m.dropped);
  }
  return std::move(result_);
}

// Who has no deadline would otherwise wait for ever where others keep coming.
void Run::stop_arrivals_at(Time end) {
  const auto waits = [](const Source& source) {
    return source.slo.is_infinite() ||
           absl::c_any_of(source.demand->slos, [](const auto& s) { return s.slo.is_infinite(); });
  };
  if (absl::c_any_of(sources_, waits)) last_arrival_ = end;
}

void Run::step() {
  ++result_.events;
  const Time end = next_end_.top(), arrival = next_arrival_.top();
  const Time wake = next_wake(), evidence = next_evidence(), adapted = adaptation_.next();
  Time now;
  if (end <= arrival && end <= wake && end <= evidence && end <= adapted) {
    end_batch(now = end);
  } else if (evidence <= arrival && evidence <= wake && evidence <= adapted) {
    learn(now = evidence);
  } else if (adapted <= arrival && adapted <= wake) {
    adapt(now = adapted);
  } else if (arrival <= wake) {
    arrive(now = arrival);
  } else {
    now = wake;
    if (tree_.next_wake() <= now) tree_.tick(now);
    if (scheduler_->next_wake() <= now) scheduler_->tick(now, decisions_);
  }
  act(now);
}

void Run::arrive(Time now) {
  const size_t i = next_arrival_.top_index();
  Source& source = sources_[i];
  const JobId id(jobs_++);
  const RecordedArrivals::Request* const recorded = source.arrivals.recorded();
  const Duration slo = recorded != nullptr && recorded->slo ? *recorded->slo : draw_slo(source);
  const Time whole = slo.is_infinite() ? Time::infinite() : now + slo;
  const uint32_t items =
      recorded != nullptr ? recorded->items : draw_items(source.demand->items, source.drawn);
  const Time deadline = planned(source, whole, items, now);
  ++arrived_;
  if (source.pipeline != nullptr)
    adaptation_.asked(i - (sources_.size() - scenario_.pipelines.size()));
  if (measured(now)) {
    ++result_.models[i].offered;
    result_.models[i].items += items;
    ++unended_;
  }
  if (source.members.empty() && items <= source.most_items) {
    if (deadline != whole) deadlines_[id] = whole;
    nominate({id, source.key, now, deadline, items}, source, now);
  } else {
    begin(id,
          {.source = i,
           .items = items,
           .started = now,
           .deadline = whole,
           .measured = measured(now),
           .result = &result_.models[i]},
          deadline, false, now);
  }
  const Time next = source.arrivals.next();
  next_arrival_.set(i, next > last_arrival_ ? Time::infinite() : next);
}

void Run::nominate(policy::Task task, Source& source, Time now) {
  draw(task, source, now);
  trace(TraceEvent::kArrived, task.job, task.key, task.items, now, task.deadline);
  scheduler_->nominate(task, now, decisions_);
}

void Run::trace(TraceEvent::Kind kind, JobId job, KeyId key, uint32_t items, Time now, Time end) {
  if (options_.trace == nullptr) return;
  const Branch* own = branch(job);
  options_.trace->push_back({.kind = kind,
                             .items = items,
                             .key = place(key),
                             .worker = WorkerId::none(),
                             .job = job,
                             .at = now,
                             .start = now,
                             .end = end,
                             .parent = own == nullptr ? JobId::none() : own->parent});
}

void Run::end_batch(Time now) {
  const size_t i = next_end_.top_index();
  WorkerState& worker = workers_[i];
  const Running ended = std::exchange(worker.batches[0], std::exchange(worker.batches[1], {}));
  next_end_.set(i, --worker.bound > 0 ? worker.batches[0].told : Time::infinite());
  if (!drifts_.empty()) measure(ended, worker.type, now);
  delays_.replied(delays_.reply(ended.end));
  if (!ended.load && delays_.started(ended.delay, now)) {
    scheduler_->set_delay_bound(delays_.bound());
  }
  scheduler_->ended(WorkerId(static_cast<uint32_t>(i)), now, decisions_);
  for (const JobId id : ended.branches)
    branch_ended(id, policy::Ending::kAnswered, branch(id)->items, now);
}

void Run::act(Time now) {
  do {
    std::swap(acting_, decisions_);  // acting on one may decide the next
    for (policy::Batch& batch : acting_.bound) start(batch, now);
    for (const policy::Dropped& dropped : acting_.dropped) drop(dropped, now);
    for (const policy::Concluded& concluded : acting_.concluded) conclude(concluded, now);
    acting_.clear();
    act_on_tree(now);
  } while (!decisions_.empty());
}

void Run::start(policy::Batch& batch, Time now) {
  WorkerState& worker = workers_[batch.worker.index()];
  FERMATA_CHECK(worker.bound < 2 && batch.start >= now);
  Duration delay;
  if (!drifts_.empty() || delays_.starts()) delay = drift_away(batch, worker, now);
  Time told = batch.finish + delays_.decision(batch.finish);
  if (worker.bound > 0) told = std::max(told, worker.batches[0].told);
  Running& running = worker.batches[worker.bound++];
  running = {batch.start, batch.finish, told, delay, batch.key, batch.items, batch.load, {}};
  std::vector<JobId>& branches = running.branches;
  next_end_.set(batch.worker.index(), worker.batches[0].told);
  counts_.busy += batch.finish - batch.start;
  result_.busy += std::max(std::min(batch.finish, to_) - std::max(batch.start, from_), Duration());
  if (options_.trace != nullptr) {
    options_.trace->push_back({TraceEvent::kStarted, batch.items, place(batch.key), batch.worker,
                               JobId::none(), now, batch.start, batch.finish, batch.load});
  }
  mix(static_cast<uint64_t>(batch.start.nanos()));
  mix(batch.worker.value());
  absl::InlinedVector<const ModelResult*, 2> counted;
  for (const policy::Task& task : batch.tasks) {
    const Branch* own = branch(task.job);
    ModelResult& result = result_of(task, own);
    const bool counts = measured(task, own);
    take(task, batch, now);
    if (own != nullptr && !result.ensemble) branches.push_back(task.job);
    if (!counts || absl::c_linear_search(counted, &result)) continue;
    counted.push_back(&result);
    auto& batches = result.batches;
    batches.resize(std::max<size_t>(batches.size(), batch.items + 1));
    ++batches[batch.items];
  }
}

void Run::take(const policy::Task& task, const policy::Batch& batch, Time now) {
  mix(task.job.value());
  if (options_.trace != nullptr) {
    options_.trace->push_back({TraceEvent::kTaken, task.items, place(task.key), batch.worker,
                               task.job, now, batch.start, batch.finish});
  }
  Branch* own = branch(task.job);
  ModelResult& model = result_of(task, own);
  const bool counts = measured(task, own);
  if (counts) model.queueing.record(batch.start - task.arrival);
  if (model.ensemble) return;  // it ends when it is concluded
  const Time answered = replied(batch.finish, own);
  ModelResult* const counted = counts ? &model : nullptr;
  if (model.variants) {
    const double right = judge(task, &names_[batch.key.index()], answered, counted);
    if (own != nullptr) own->accuracy = right;
  }
  if (own == nullptr) count_answer(task, answered, counted);
}

void Run::drop(const policy::Dropped& dropped, Time now) {
  const policy::Task& task = dropped.task;
  mix(~task.job.value());
  trace(TraceEvent::kDropped, task.job, task.key, task.items, now, now);
  examples_.erase(task.job);
  queries_.erase(task.job);
  deadlines_.erase(task.job);
  doubt(task, now);
  if (branch(task.job) != nullptr) {
    return branch_ended(task.job, policy::Ending::kRejected, 0, now);
  }
  ++(dropped.infeasible() ? counts_.infeasible : counts_.bad);
  if (!measured(task.arrival)) return;
  --unended_;
  ModelResult& result = result_.models[source_of_[task.key.index()]];
  ++result.dropped;
  result.infeasible += dropped.infeasible();
}

absl::StatusOr<Result> run(const Scenario& scenario, const RunOptions& options) {
  ASSIGN_OR_RETURN(auto scheduler, policy::make_scheduler(scenario.scheduler, scenario.groups));
  if (const std::string_view needs = scenario.missing_in(*scheduler); !needs.empty()) {
    return invalid("scheduler '{}', expected one that {}", scenario.scheduler, needs);
  }
  if (options.listener) scheduler = options.listener(std::move(scheduler));
  return Run(scenario, options, std::move(scheduler)).go();
}

}  // namespace fermata::simulate
