#include "simulate/streams.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <utility>

#include "base/random.h"
#include "base/status.h"
#include "estimate/uplink.h"
#include "plan/streams/stream_planner.h"
#include "policy/scheduler.h"
#include "policy/stream/stream_residents.h"
#include "simulate/stream_link.h"

namespace fermata::simulate {
namespace {

constexpr Duration kLook = Duration::millis(25);  // whether a plan is wanted, as the server does
constexpr Duration kSlack = Duration::millis(2);
constexpr double kNoNetworkMbps = 1e5;

class StreamSimulation {
 public:
  explicit StreamSimulation(const StreamRun& run) : run_(run), random_(run.seed) {}
  absl::Status set_up();
  StreamRunResult go();

 private:
  struct Sender {
    Link link;
    estimate::Uplink uplink;
    uint32_t size = 0;  // variant whose size it sends, as it was told
    Duration shift;
    Time moved;  // when its frames were last shifted
  };
  // Workers that serve the same frames: all, or one each.
  struct Pool {
    std::unique_ptr<policy::Scheduler> scheduler;
    std::vector<std::vector<KeyId>> keys;  // by variant, by the largest batch
    policy::Decisions decisions;
  };
  // Where a client's frames go, as planned last.
  struct Place {
    uint32_t worker = 0, batch = 0;
  };
  struct Frame {
    uint32_t client = 0, size = 0, variant = 0;
    uint64_t bytes = 0;
    Time sent, arrival;
    bool measured = false;
    size_t kept = 0;  // its place in what the result keeps
  };
  using Event = std::function<void(Time)>;
  struct Entry {
    Time at;
    uint64_t order;
    Event event;
    bool operator<(const Entry& o) const {
      return std::pair(at, order) > std::pair(o.at, o.order);  // the first on top
    }
  };

  void at(Time when, Event event) { events_.push({when, order_++, std::move(event)}); }
  static Time second(double s) { return Time() + Duration::from_seconds(s); }
  static double seconds(Time t) { return (t - Time()).seconds(); }

  absl::Status add_pool(uint32_t workers);
  bool aligned() const {
    return run_.mode == StreamMode::kPlanned || run_.mode == StreamMode::kFixed;
  }
  void send(uint32_t client, Time now);
  std::optional<uint32_t> size_to_send(Sender& sender, const StreamRun::Client& client, Time now);
  void arrive(uint64_t id, Time now);
  void act(Pool& pool, Time now);
  void end_batch(Pool& pool, policy::Batch batch, Time now);
  void answered(uint64_t id, bool served, Time now);  // at the client
  void reply(uint64_t id, bool served, Time now);
  void look(Time now);
  void load(Time now);  // what the residents order

  const StreamRun& run_;
  std::deque<Pool> pools_;
  std::vector<Place> places_;  // by client
  std::unique_ptr<policy::StreamSessions> sessions_;
  std::optional<policy::StreamResidents> residents_;
  Random random_;
  std::vector<Sender> senders_;
  std::vector<uint64_t> size_bytes_;
  std::priority_queue<Entry> events_;
  uint64_t order_ = 0, frames_ = 0;
  std::map<uint64_t, Frame> under_way_;
  std::map<uint64_t, policy::StreamAdvice> advice_;
  StreamRunResult result_;
  std::vector<double> errors_;
  Duration busy_;
  double accuracy_ = 0;
};

absl::Status StreamSimulation::add_pool(uint32_t workers) {
  Pool& pool = pools_.emplace_back();
  ASSIGN_OR_RETURN(pool.scheduler, policy::make_scheduler(run_.scheduler));
  for (const plan::StreamVariant& v : run_.variants) {
    std::vector<KeyId>& keys = pool.keys.emplace_back();
    const auto add = [&](std::shared_ptr<const LatencyTable> latency) {
      keys.push_back(
          pool.scheduler->add_key({.name = v.name, .latency = LatencyByType(std::move(latency))}));
    };
    TableLatency points;
    for (uint32_t most = 1; run_.dispatch == StreamDispatch::kBatches; ++most) {
      if (most >= v.latency->max_batch()) break;
      points.points_ms[most] = (*v.latency)(most).millis();
      ASSIGN_OR_RETURN(auto latency, LatencyTable::make(points, most));
      add(std::move(latency));
    }
    add(v.latency);
  }
  for (uint32_t w = 0; w < workers; ++w) pool.scheduler->add_worker(Time(), pool.decisions);
  return absl::OkStatus();
}

absl::Status StreamSimulation::set_up() {
  const bool pooled = run_.dispatch == StreamDispatch::kPool;
  for (uint32_t p = 0; p < (pooled ? 1 : run_.workers); ++p) {
    RETURN_IF_ERROR(add_pool(pooled ? run_.workers : 1));
  }
  policy::StreamSettings settings;
  const bool alone = run_.mode == StreamMode::kDnnAlone;
  for (const plan::StreamVariant& v : run_.variants) {
    const double kb = alone ? run_.variants[run_.variant].request_kb : v.request_kb;
    settings.variants.push_back(
        {v.name, v.input_size, v.accuracy, kb * (1 + run_.size_spread), v.latency});
    size_bytes_.push_back(static_cast<uint64_t>(v.request_kb * 1000 * (1 + run_.size_spread)));
  }
  settings.workers = run_.workers;
  settings.phases = run_.phases;
  settings.phased_wait = run_.phased_wait;
  settings.solver = run_.solver;
  settings.slack = kSlack;
  settings.most_clients = plan::StreamProblem::kMostClients;
  sessions_ = std::make_unique<policy::StreamSessions>(std::move(settings));
  const auto count = static_cast<uint32_t>(run_.variants.size());
  if (run_.room > 0) {
    residents_.emplace(run_.workers, count, run_.room);
  }
  for (uint32_t c = 0; c < run_.clients.size(); ++c) {
    const StreamRun::Client& client = run_.clients[c];
    senders_.push_back({Link(run_.traces_mbps[client.trace], run_.hold_s, client.start_s), {}});
    senders_[c].uplink.echoed(Duration::from_millis(client.rtt_ms));
    places_.push_back({c % run_.workers, 0});
    at(second(client.first_frame_s), [this, c](Time now) { send(c, now); });
  }
  result_.frames_by_variant.resize(run_.variants.size());
  at(Time() + kLook, [this](Time now) { look(now); });
  return absl::OkStatus();
}

void StreamSimulation::look(Time now) {
  if (sessions_->wants_plan(now)) {
    const plan::StreamProblem problem = sessions_->problem(now);
    const plan::StreamPlan plan = plan::plan_streams(problem);
    sessions_->planned(problem, plan);
    for (const plan::StreamPlan::Worker& worker : plan.workers) {
      for (const uint32_t c : worker.clients) {
        places_[std::stoul(problem.clients[c].id)] = {worker.worker, worker.batch};
      }
      if (!residents_) continue;
      const auto there = residents_->want(worker.worker, worker.variant);
      result_.prefetched += there == true;
      result_.fetched += there == false;
    }
    load(now);
  }
  at(now + kLook, [this](Time later) { look(later); });
}

std::optional<uint32_t> StreamSimulation::size_to_send(Sender& sender,
                                                       const StreamRun::Client& client, Time now) {
  const bool told = run_.mode == StreamMode::kPlanned, any = !told && !aligned();
  const uint32_t most = told  ? sender.size
                        : any ? static_cast<uint32_t>(size_bytes_.size()) - 1
                              : run_.variant;
  const auto sizes = absl::MakeConstSpan(size_bytes_).subspan(0, most + 1);
  const auto size =
      sender.uplink.choose(sizes, client.rate_rps, Duration::from_millis(client.slo_ms), now);
  if (!size) return std::nullopt;
  if (run_.mode == StreamMode::kDnnAlone) return run_.variant;
  if (told) return static_cast<uint32_t>(*size);
  const std::optional<double> mbps = sender.uplink.mbps(now);
  auto sent = static_cast<uint32_t>(estimate::back_off(sizes, client.rate_rps, mbps));
  const double left_ms = client.slo_ms * (1 - run_.compute_share) - client.rtt_ms;
  if (run_.mode == StreamMode::kObjectiveAlone && mbps) {
    while (sent > 0 && static_cast<double>(sizes[sent]) * 8e-3 > left_ms * *mbps) --sent;
  }
  return sent;
}

void StreamSimulation::send(uint32_t client, Time now) {
  const StreamRun::Client& who = run_.clients[client];
  Sender& sender = senders_[client];
  const Duration interval = Duration::from_seconds(1 / who.rate_rps);
  const Duration shift = run_.phases ? std::exchange(sender.shift, Duration()) : Duration();
  if (shift != Duration()) sender.moved = now + Duration::nanos(1);
  at(now + std::max(interval / 2, interval + shift), [this, client](Time t) { send(client, t); });

  Frame frame{.client = client, .sent = now};
  frame.measured = seconds(now) >= run_.warmup_s && seconds(now) < run_.duration_s;
  result_.offered += frame.measured;
  const std::optional<uint32_t> size = size_to_send(sender, who, now);
  if (!size) {
    result_.dropped += frame.measured;
    return;
  }
  frame.size = *size;
  const double spread = run_.size_spread * (2 * random_.uniform() - 1);
  frame.bytes =
      static_cast<uint64_t>(run_.variants[frame.size].request_kb * 1000 * (1 + spread)) + 1;
  const double actual_mbps = sender.link.mbps(seconds(now));
  const std::optional<double> mbps = sender.uplink.mbps(now);
  if (mbps && frame.measured) errors_.push_back(std::abs(*mbps / actual_mbps - 1));
  if (run_.keep_sent && frame.measured) {
    frame.kept = result_.sent.size();
    result_.sent.push_back({client, frame.size, seconds(now), actual_mbps, mbps.value_or(0)});
  }
  const double left = sender.link.send(static_cast<double>(frame.bytes), seconds(now));
  frame.arrival = second(left + who.rtt_ms * 5e-4);
  const uint64_t id = frames_++;
  const Time arrival = frame.arrival;
  under_way_.emplace(id, frame);
  sender.uplink.sent(frame.bytes, now);
  at(arrival, [this, id](Time t) { arrive(id, t); });
  at(arrival + Duration::from_millis(who.rtt_ms / 2),
     [this, client](Time t) { senders_[client].uplink.acknowledged(Duration(), t); });
}

void StreamSimulation::load(Time now) {
  if (!residents_) return;
  for (const policy::StreamResidents::Order& order : residents_->take_orders()) {
    if (!order.load) continue;
    at(now + Duration::from_millis(run_.load_ms), [this, order](Time end) {
      residents_->loaded(order.worker, order.variant, true);
      load(end);
    });
  }
}

void StreamSimulation::arrive(uint64_t id, Time now) {
  Frame& frame = under_way_.at(id);
  const StreamRun::Client& client = run_.clients[frame.client];
  Sender& sender = senders_[frame.client];
  policy::StreamFrame meta;
  meta.client = std::to_string(frame.client);
  meta.rate_rps = client.rate_rps;
  meta.slo = Duration::from_millis(client.slo_ms);
  meta.bandwidth_mbps = sender.uplink.mbps(now);
  meta.sure_mbps = sender.uplink.sure_mbps(now);
  meta.round_trip = sender.uplink.round_trip();
  meta.bytes = frame.bytes;
  if (aligned()) meta.input_size = run_.variants[frame.size].input_size;
  const bool divided = !aligned() && run_.mode != StreamMode::kDnnAlone;
  if (divided) {  // as far as plans know, the network takes no time of what is left for DNNs
    meta.slo = Duration::from_millis(client.slo_ms * run_.compute_share);
    meta.bandwidth_mbps = meta.sure_mbps = kNoNetworkMbps;
    meta.round_trip = Duration();
  }
  auto route = sessions_->frame(meta, now);
  if (!route.ok()) return reply(id, false, now);
  if (divided) {
    route->deadline =
        frame.sent + Duration::from_millis(client.slo_ms - client.rtt_ms / 2) - kSlack;
  }
  frame.variant = run_.mode == StreamMode::kFixed ? run_.variant
                  : residents_                    ? residents_->serving(route->variant)
                                                  : route->variant;
  result_.stale += frame.measured && residents_ && residents_->awaited(route->variant);
  const Place place = places_[frame.client];
  Pool& pool = pools_[pools_.size() == 1 ? 0 : place.worker];
  const std::vector<KeyId>& keys = pool.keys[frame.variant];
  const KeyId key = keys.size() == 1 || place.batch == 0
                        ? keys.back()
                        : keys[std::min<size_t>(place.batch, keys.size()) - 1];
  pool.scheduler->nominate({JobId(id), key, now, route->deadline, 1, route->start_from}, now,
                           pool.decisions);
  act(pool, now);
}

void StreamSimulation::act(Pool& pool, Time now) {
  policy::Decisions decided = std::exchange(pool.decisions, {});
  for (policy::Batch& batch : decided.bound) {
    const Duration run = batch.finish - batch.start;
    busy_ += run;
    ++result_.batches;
    result_.batched += batch.items;
    const Time end = std::max(now, batch.start) + run;
    at(end, [this, &pool, batch = std::move(batch)](Time t) mutable {
      end_batch(pool, std::move(batch), t);
    });
  }
  for (const policy::Dropped& dropped : decided.dropped) {
    reply(dropped.task.job.value(), false, now);
  }
  const Time wake = pool.scheduler->next_wake();
  if (wake.is_infinite()) return;
  at(std::max(wake, now), [this, &pool](Time t) {
    if (pool.scheduler->next_wake() > t) return;
    pool.scheduler->tick(t, pool.decisions);
    act(pool, t);
  });
}

void StreamSimulation::end_batch(Pool& pool, policy::Batch batch, Time now) {
  for (const policy::Task& task : batch.tasks) reply(task.job.value(), true, now);
  pool.scheduler->ended(batch.worker, now, pool.decisions);
  act(pool, now);
}

void StreamSimulation::reply(uint64_t id, bool served, Time now) {
  const Frame& frame = under_way_.at(id);
  advice_[id] = sessions_->advice(std::to_string(frame.client), 0);
  const Duration way = Duration::from_millis(run_.clients[frame.client].rtt_ms / 2);
  const Duration in_server = now - frame.arrival;
  at(now + way, [this, id, served, in_server](Time t) {
    senders_[under_way_.at(id).client].uplink.answered(in_server);
    answered(id, served, t);
  });
}

void StreamSimulation::answered(uint64_t id, bool served, Time now) {
  const Frame frame = under_way_.extract(id).mapped();
  const policy::StreamAdvice advice = advice_.extract(id).mapped();
  Sender& sender = senders_[frame.client];
  if (frame.sent >= sender.moved) sender.shift = advice.shift;
  for (uint32_t v = 0; v < run_.variants.size(); ++v) {
    if (run_.variants[v].input_size == advice.input_size) sender.size = v;
  }
  if (!frame.measured) return;
  if (served) result_.latencies_ms.push_back((now - frame.sent).millis());
  if (!served) {
    ++result_.rejected;
  } else if (now - frame.sent > Duration::from_millis(run_.clients[frame.client].slo_ms)) {
    ++result_.late;
  } else {
    ++result_.on_time;
    if (run_.keep_sent) result_.sent[frame.kept].on_time = true;
    // A frame that was sent smaller than the DNN's input is worth what its size is worth.
    const uint32_t worth = std::min(frame.variant, frame.size);
    accuracy_ += run_.variants[worth].accuracy;
    ++result_.frames_by_variant[frame.variant];
  }
}

StreamRunResult StreamSimulation::go() {
  const Time end = second(run_.duration_s + 5);  // what is under way ends
  while (!events_.empty() && events_.top().at <= end) {
    Entry entry = events_.top();
    events_.pop();
    entry.event(entry.at);
  }
  const auto& totals = sessions_->totals();
  result_.mismatches = totals.mismatches;
  result_.plans = totals.plans;
  result_.switches = totals.switches;
  result_.near_switches = totals.near_switches;
  if (result_.on_time > 0) result_.accuracy = accuracy_ / static_cast<double>(result_.on_time);
  result_.utilization = busy_.seconds() / (run_.duration_s + 5) / run_.workers;
  if (!errors_.empty()) {
    const auto middle = errors_.begin() + static_cast<std::ptrdiff_t>(errors_.size() / 2);
    std::nth_element(errors_.begin(), middle, errors_.end());
    result_.estimate_error = *middle;
  }
  std::sort(result_.latencies_ms.begin(), result_.latencies_ms.end());
  return std::move(result_);
}

}  // namespace

absl::StatusOr<StreamRunResult> run_streams(const StreamRun& run) {
  StreamSimulation simulation(run);
  RETURN_IF_ERROR(simulation.set_up());
  return simulation.go();
}

}  // namespace fermata::simulate
