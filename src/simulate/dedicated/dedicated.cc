#include "simulate/dedicated/dedicated.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <queue>

#include "model/latency_at.h"
#include "plan/pipeline/pipeline_options.h"
#include "simulate/arrivals.h"
#include "simulate/dedicated/dedicated_account.h"
#include "simulate/dedicated/slack_fit.h"

namespace fermata::simulate {
namespace {

constexpr double kWaitMemory = 20;  // batches, of the waits that PARD's rule expects
constexpr Duration kSecond = Duration::seconds(1);

struct Item {
  Time arrival;
  double accuracy = 1;
  uint32_t row = 0;
  uint32_t left = 0;               // stages that have not ended it
  std::vector<uint8_t> waits_for;  // by stage: stages before it that have not
  bool ended = false;
};

struct Queued {
  uint32_t item;
  Time since;
};

struct StageState {
  plan::PipelineStagePlan plan;
  std::deque<Queued> queue;
  uint32_t generation = 0;  // of its replicas: a new variant has new ones
  double busy = 0;          // of them
  Time timer = Time::infinite();
  double wait_ms = 0;  // of recent batches' first items
  std::vector<double> scores;
  std::vector<uint32_t> next;  // stages after it
  std::unique_ptr<SlackFit> slack_fit;
};

struct RunningBatch {
  uint32_t stage, generation, variant;
  std::vector<uint32_t> items;
};

enum class Happens : uint8_t { kBatchEnd, kApply, kSecond, kArrival, kTimer };

struct Event {
  Time at;
  Happens what;
  uint64_t sequence;
  uint32_t which;
  auto operator<=>(const Event&) const = default;
};

class DedicatedRun {
 public:
  DedicatedRun(DedicatedOptions options, LoadForecast forecast);
  DedicatedResult run();

 private:
  void set_up_stages();
  void schedule(Time at, Happens what, uint32_t which = 0);
  void happen(const Event& event);
  void arrive(Time now);
  void second(Time now);
  void decide(Time now, double forecast);
  void apply(Time now, const std::vector<plan::PipelineStagePlan>& plans);
  void enqueue(uint32_t item, uint32_t stage, Time now);
  void dispatch(uint32_t stage, Time now);
  void drop_heads(uint32_t stage, Time now);
  bool is_infeasible(uint32_t stage, const Queued& head, Time now) const;
  double ahead_ms(uint32_t stage) const;
  plan::PipelineStagePlan chosen(uint32_t stage, Time now) const;
  void start(uint32_t stage, const plan::PipelineStagePlan& how, Time now);
  void end_batch(uint32_t batch, Time now);
  void end(Item& item, Time now, bool answered);
  double cost_of(uint32_t stage) const;
  void charge(Time now);
  double ms_of(uint32_t stage, uint32_t variant, uint32_t batch) const;

  DedicatedOptions options_;
  LoadForecast forecast_;
  plan::PipelineAdapter adapter_;
  const plan::PipelineProblem& problem_;
  Arrivals arrivals_;
  std::vector<StageState> stages_;
  std::vector<Item> items_;
  std::vector<RunningBatch> batches_;
  std::vector<uint32_t> free_batches_;
  std::vector<std::vector<plan::PipelineStagePlan>> decided_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t sequence_ = 0;
  estimate::LoadWindow window_;
  size_t seconds_ = 0;
  double arrived_ = 0;  // in this second
  DedicatedAccount account_;
};

TraceArrivals trace_of(const std::vector<double>& loads) {
  return {std::make_shared<const std::vector<double>>(loads)};
}

DedicatedRun::DedicatedRun(DedicatedOptions options, LoadForecast forecast)
    : options_(std::move(options)),
      forecast_(std::move(forecast)),
      adapter_(options_.adapter),
      problem_(options_.adapter.problem),
      arrivals_(trace_of(options_.loads), mean_rate(trace_of(options_.loads)), Time(),
                Random(options_.seed)),
      account_(options_.loads.size(), options_.series_s, options_.adapter.problem.stages.size()) {
  set_up_stages();
}

void DedicatedRun::set_up_stages() {
  stages_.resize(problem_.stages.size());
  for (uint32_t s = 0; s < stages_.size(); ++s) {
    const plan::PipelineStage& stage = problem_.stages[s];
    for (const uint32_t p : stage.after) stages_[p].next.push_back(s);
    stages_[s].scores = plan::accuracy_scores(problem_.accuracy, stage);
    auto options = plan::stage_options(problem_, stage);
    for (auto& option : options) option.ms = ms_of(s, option.variant, option.batch);
    stages_[s].slack_fit = std::make_unique<SlackFit>(std::move(options), stages_[s].scores);
  }
}

double DedicatedRun::ms_of(uint32_t stage, uint32_t variant, uint32_t batch) const {
  return *latency_ms(problem_.stages[stage].variants[variant].latency, batch);
}

void DedicatedRun::schedule(Time at, Happens what, uint32_t which) {
  if (!at.is_infinite()) events_.push({at, what, sequence_++, which});
}

DedicatedResult DedicatedRun::run() {
  const size_t first = std::min(options_.loads.size(), static_cast<size_t>(options_.interval_s));
  decide(Time(), *std::max_element(options_.loads.begin(),
                                   options_.loads.begin() + static_cast<std::ptrdiff_t>(first)));
  apply(Time(), adapter_.current());
  schedule(arrivals_.next(), Happens::kArrival);
  schedule(Time() + kSecond, Happens::kSecond);
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    happen(event);
  }
  return account_.finish();
}

void DedicatedRun::happen(const Event& event) {
  switch (event.what) {
    case Happens::kBatchEnd:
      return end_batch(event.which, event.at);
    case Happens::kApply:
      return apply(event.at, decided_[event.which]);
    case Happens::kSecond:
      return second(event.at);
    case Happens::kArrival:
      return arrive(event.at);
    case Happens::kTimer:
      if (stages_[event.which].timer != event.at) return;
      stages_[event.which].timer = Time::infinite();
      return dispatch(event.which, event.at);
  }
}

void DedicatedRun::arrive(Time now) {
  const auto id = static_cast<uint32_t>(items_.size());
  Item& item = items_.emplace_back();
  item.arrival = now;
  item.accuracy = problem_.accuracy == plan::PipelineAccuracy::kPas ? 1 : 0;
  item.row = account_.arrived(now);
  item.left = static_cast<uint32_t>(stages_.size());
  ++arrived_;
  for (const plan::PipelineStage& stage : problem_.stages) {
    item.waits_for.push_back(static_cast<uint8_t>(stage.after.size()));
  }
  for (uint32_t s = 0; s < stages_.size(); ++s) {
    if (problem_.stages[s].after.empty()) enqueue(id, s, now);
  }
  schedule(arrivals_.next(), Happens::kArrival);
}

// A whole second has passed: the monitor's, and every interval the adapter's.
void DedicatedRun::second(Time now) {
  window_.add(arrived_);
  arrived_ = 0;
  ++seconds_;
  charge(now);
  const auto& loads = options_.loads;
  const double forecast = forecast_(window_, seconds_);
  if (seconds_ % static_cast<size_t>(options_.interval_s) == 0) {
    if (seconds_ + estimate::kForecastHorizon <= loads.size()) {
      const auto* next = loads.data() + seconds_;
      account_.compared(forecast, *std::max_element(next, next + estimate::kForecastHorizon));
    }
    decide(now, forecast);
    decided_.push_back(adapter_.current());
    schedule(now + Duration::from_seconds(options_.apply_s), Happens::kApply,
             static_cast<uint32_t>(decided_.size() - 1));
  }
  if (seconds_ < loads.size()) schedule(now + kSecond, Happens::kSecond);
}

void DedicatedRun::decide(Time now, double forecast) {
  account_.decided(now, forecast, adapter_.decide(forecast));
}

void DedicatedRun::apply(Time now, const std::vector<plan::PipelineStagePlan>& plans) {
  charge(now);
  for (uint32_t s = 0; s < stages_.size(); ++s) {
    StageState& stage = stages_[s];
    if (plans[s].variant != stage.plan.variant) {  // what runs ends on the old replicas
      ++stage.generation;
      stage.busy = 0;
    }
    stage.plan = plans[s];
    dispatch(s, now);
  }
}

double DedicatedRun::cost_of(uint32_t stage) const {
  const auto& variants = problem_.stages[stage].variants;
  double cost = variants[stages_[stage].plan.variant].cost;
  if (options_.batch == BatchRule::kSlackFit) {  // every replica has room for the largest
    for (const auto& variant : variants) cost = std::max(cost, variant.cost);
  }
  return cost * stages_[stage].plan.replicas;
}

void DedicatedRun::charge(Time now) {
  std::vector<double> costs;
  for (uint32_t s = 0; s < stages_.size(); ++s) costs.push_back(cost_of(s));
  account_.charge(now, costs);
}

void DedicatedRun::enqueue(uint32_t item, uint32_t stage, Time now) {
  stages_[stage].queue.push_back({item, now});
  dispatch(stage, now);
}

// The longest rest of the pipeline after a stage, as it is now.
double DedicatedRun::ahead_ms(uint32_t stage) const {
  double longest = 0;
  for (const uint32_t next : stages_[stage].next) {
    const StageState& after = stages_[next];
    const double ms = after.wait_ms + ms_of(next, after.plan.variant, after.plan.batch);
    longest = std::max(longest, ms + ahead_ms(next));
  }
  return longest;
}

bool DedicatedRun::is_infeasible(uint32_t stage, const Queued& head, Time now) const {
  const double age = (now - items_[head.item].arrival).millis();
  switch (options_.drop) {
    case DropRule::kNever:
      return false;
    case DropRule::kPublished:
      return age > (problem_.stages[stage].after.empty() ? 2 : 1) * problem_.sla_ms;
    case DropRule::kAhead:
      return age + ms_of(stage, stages_[stage].plan.variant, 1) + ahead_ms(stage) > problem_.sla_ms;
  }
  return false;
}

void DedicatedRun::drop_heads(uint32_t stage, Time now) {
  auto& queue = stages_[stage].queue;
  while (!queue.empty()) {
    Item& item = items_[queue.front().item];
    if (!item.ended && !is_infeasible(stage, queue.front(), now)) return;
    queue.pop_front();
    if (!item.ended) end(item, now, false);
  }
}

// What the next batch of a stage is to be.
plan::PipelineStagePlan DedicatedRun::chosen(uint32_t stage, Time now) const {
  const StageState& state = stages_[stage];
  if (options_.batch == BatchRule::kPlanned) return state.plan;
  const double age = (now - items_[state.queue.front().item].arrival).millis();
  const double rest = ahead_ms(stage), own = state.plan.latency_ms;
  const double slack = (problem_.sla_ms - age) * own / (own + rest);
  const plan::StageOption& best = state.slack_fit->choose(slack);
  plan::PipelineStagePlan how = state.plan;
  how.variant = best.variant;
  how.batch = best.batch;
  how.queueing_ms = 0;  // it never waits for more
  return how;
}

void DedicatedRun::dispatch(uint32_t stage, Time now) {
  StageState& state = stages_[stage];
  while (state.busy < state.plan.replicas) {
    drop_heads(stage, now);
    if (state.queue.empty()) return;
    const plan::PipelineStagePlan how = chosen(stage, now);
    const Time full = state.queue.front().since + Duration::from_millis(how.queueing_ms);
    if (state.queue.size() < how.batch && now < full) {
      if (state.timer == full) return;
      state.timer = full;
      return schedule(full, Happens::kTimer, stage);
    }
    start(stage, how, now);
  }
}

void DedicatedRun::start(uint32_t stage, const plan::PipelineStagePlan& how, Time now) {
  StageState& state = stages_[stage];
  RunningBatch batch{stage, state.generation, how.variant, {}};
  const double waited = (now - state.queue.front().since).millis();
  state.wait_ms += (waited - state.wait_ms) / kWaitMemory;
  while (batch.items.size() < how.batch) {
    drop_heads(stage, now);
    if (state.queue.empty()) break;
    batch.items.push_back(state.queue.front().item);
    state.queue.pop_front();
  }
  if (batch.items.empty()) return;
  ++state.busy;
  account_.batch();
  const double ms = ms_of(stage, how.variant, static_cast<uint32_t>(batch.items.size()));
  uint32_t slot = static_cast<uint32_t>(batches_.size());
  if (free_batches_.empty()) {
    batches_.push_back(std::move(batch));
  } else {
    slot = free_batches_.back();
    free_batches_.pop_back();
    batches_[slot] = std::move(batch);
  }
  schedule(now + Duration::from_millis(ms), Happens::kBatchEnd, slot);
}

void DedicatedRun::end_batch(uint32_t slot, Time now) {
  const RunningBatch batch = std::move(batches_[slot]);
  free_batches_.push_back(slot);
  StageState& state = stages_[batch.stage];
  if (batch.generation == state.generation) --state.busy;
  const double score = state.scores[batch.variant];
  const bool pas = problem_.accuracy == plan::PipelineAccuracy::kPas;
  for (const uint32_t id : batch.items) {
    Item& item = items_[id];
    if (item.ended) continue;
    item.accuracy = pas ? item.accuracy * score : item.accuracy + score;
    if (--item.left == 0) end(item, now, true);
  }
  for (const uint32_t id : batch.items) {
    for (const uint32_t next : state.next) {
      if (!items_[id].ended && --items_[id].waits_for[next] == 0) enqueue(id, next, now);
    }
  }
  dispatch(batch.stage, now);
}

void DedicatedRun::end(Item& item, Time now, bool answered) {
  item.ended = true;
  if (!answered) return account_.dropped(item.row);
  const double ms = (now - item.arrival).millis();
  account_.answered(item.row, ms, ms <= problem_.sla_ms, item.accuracy);
}

}  // namespace

DedicatedResult run_dedicated(DedicatedOptions options, LoadForecast forecast) {
  return DedicatedRun(std::move(options), std::move(forecast)).run();
}

}  // namespace fermata::simulate
