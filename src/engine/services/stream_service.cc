#include "engine/services/stream_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace fermata::engine {
namespace {

constexpr Duration kCosts = Duration::seconds(1);  // between two looks
constexpr Duration kSaid = Duration::seconds(5);   // what another process said is believed

// How many of the variants a worker holds, whichever they are; 0 where there is nothing to load
// ahead: not all are models of their own, or workers hold what they run, or only one of them.
uint32_t room_for(const ServiceOptions& options, const StreamService::Loading& loading) {
  if (!std::isfinite(loading.memory_mb)) return 0;
  std::vector<double> memory_mb;
  std::set<VariantId> loads;
  for (const StreamOptions::Variant& v : options.stream->variants) {
    const std::shared_ptr<const Variant> model = loading.model(v.service);
    if (model == nullptr || !loads.insert(model->loads()).second) return 0;
    memory_mb.push_back(model->memory.static_mb + model->memory.dynamic_mb);
  }
  std::sort(memory_mb.rbegin(), memory_mb.rend());
  uint32_t room = 0;
  for (double used = 0; room < memory_mb.size(); ++room) {
    if ((used += memory_mb[room]) > loading.memory_mb) break;
  }
  if (room > 1) return room;
  spdlog::warn(
      "service '{}': workers.memory_mb fits one variant: each switch loads a model when its first "
      "frame has arrived, and frames wait for that",
      options.name);
  return 0;
}

// None costs less than a smaller one (section 7.1).
absl::StatusOr<std::vector<StreamCost>> costs_now(StreamCosts& costs,
                                                  const ServiceOptions& options) {
  std::vector<std::string> names;
  for (const StreamOptions::Variant& v : options.stream->variants) names.push_back(v.service);
  auto found = costs.look(names);
  if (!found.ok()) {
    return error(found.status().code(), "service '{}': {}", options.name, message(found.status()));
  }
  std::map<uint32_t, double> slowest;  // by batch size, of the smaller variants
  for (StreamCost& cost : *found) {
    TableLatency table;
    for (uint32_t b = 1; b <= cost.latency->max_batch(); ++b) {
      table.points_ms[b] = slowest[b] = std::max((*cost.latency)(b).millis(), slowest[b]);
    }
    ASSIGN_OR_RETURN(cost.latency, LatencyTable::make(table, cost.latency->max_batch()));
  }
  return found;
}

}  // namespace

uint32_t StreamService::planned_workers(uint32_t workers) {
  return std::min(workers, plan::StreamProblem::kMostWorkers);
}

absl::StatusOr<std::unique_ptr<StreamService>> StreamService::make(
    const ServiceOptions& options, const Catalog& catalog, uint32_t workers, const Loading& loading,
    const StreamCosts::Sources& sources) {
  policy::StreamSettings settings = options.stream->settings;
  settings.workers = planned_workers(workers);
  settings.slo = options.slo;
  ASSIGN_OR_RETURN(StreamFace face, StreamFace::make(options, catalog));
  for (const StreamOptions::Variant& v : options.stream->variants) {
    settings.variants.push_back({v.service, v.input_size, v.accuracy, v.request_kb, nullptr, {}});
  }
  StreamCosts costs(sources);
  ASSIGN_OR_RETURN(const std::vector<StreamCost> first, costs_now(costs, options));
  for (size_t v = 0; v < first.size(); ++v) {
    settings.variants[v].latency = first[v].latency;
    settings.variants[v].delay = first[v].delay;
  }
  return std::unique_ptr<StreamService>(
      new StreamService(options, std::move(settings), std::move(face), loading, std::move(costs)));
}

StreamService::StreamService(ServiceOptions options, policy::StreamSettings settings,
                             StreamFace face, const Loading& loading, StreamCosts costs)
    : options_(std::move(options)),
      loading_(loading),
      face_(std::move(face)),
      sessions_(std::move(settings)),
      costs_(std::move(costs)),
      costs_seen_(monotonic_now()) {
  if (const uint32_t room = room_for(options_, loading_); room > 0) {
    const auto variants = static_cast<uint32_t>(options_.stream->variants.size());
    const std::scoped_lock lock(mutex_);
    residents_.emplace(sessions_.settings().workers, variants, room);
    for (const StreamOptions::Variant& v : options_.stream->variants) {
      models_.push_back(loading_.model(v.service)->id);
    }
    for (uint32_t w = 0; w < sessions_.settings().workers; ++w) residents_->want(w, 0);
    carry_out();
  }
}

void StreamService::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
}

void StreamService::want(uint32_t worker, uint32_t variant) {
  const std::optional<bool> there = residents_->want(worker, variant);
  if (!there) return;
  ++switches_;
  prefetched_ += *there;
}

void StreamService::notice_reloads() {
  for (uint32_t v = 0; v < models_.size(); ++v) {
    const auto model = loading_.model(options_.stream->variants[v].service);
    const VariantId now = model == nullptr ? VariantId::none() : model->id;
    if (std::exchange(models_[v], now) != now) residents_->replaced(v);
  }
}

void StreamService::carry_out() {
  for (auto orders = residents_->take_orders(); !orders.empty();
       orders = residents_->take_orders()) {
    for (const auto& [worker, v, load] : orders) {
      const auto model = loading_.model(options_.stream->variants[v].service);
      if (model != nullptr && load) {
        loading_.load(worker, model, [this, w = worker, v = v](const absl::Status& status) {
          loaded(w, v, status);
        });
      } else if (model != nullptr) {
        loading_.let_go(worker, model);
      } else if (load) {
        residents_->loaded(worker, v, false);
      }
    }
  }
}

void StreamService::loaded(uint32_t worker, uint32_t variant, const absl::Status& status) {
  const std::scoped_lock lock(mutex_);
  if (stopped_) return;
  if (!status.ok()) {
    spdlog::error("service '{}': worker {} cannot load '{}': {}", options_.name, worker,
                  options_.stream->variants[variant].service, message(status));
  }
  residents_->loaded(worker, variant, status.ok());
  carry_out();
}

absl::Status StreamService::route(InferRequest& request, bool& answered) {
  if (request.frame == nullptr) {
    face_.pass_on(request);
    return absl::OkStatus();
  }
  policy::StreamFrame& frame = *request.frame;
  const std::scoped_lock lock(mutex_);
  answered = frame.hello || frame.leave;
  if (frame.leave) {
    sessions_.leave(frame.client, frame.owner);
    return absl::OkStatus();
  }
  if (frame.hello) return sessions_.hello(frame, request.arrival);
  if (!request.inputs.empty()) face_.read_tensors(request);  // else who has them has done so
  ASSIGN_OR_RETURN(const policy::StreamRoute route, sessions_.frame(frame, request.arrival));
  const auto& variants = sessions_.settings().variants;
  const uint32_t runs = residents_ ? residents_->serving(route.variant) : route.variant;
  stale_ += residents_ && residents_->awaited(route.planned);
  if (runs != route.variant && !face_.fits(request, runs)) {
    return error(absl::StatusCode::kUnavailable,
                 "no worker holds '{}' now, which takes frames of {}", variants[route.variant].name,
                 variants[route.variant].input_size);
  }
  request.service = variants[runs].name;
  request.timeout = route.deadline - request.arrival;
  // The deadline has what the client's link is believed to take; where it says more, that counts.
  request.network_time = std::max(request.network_time - route.network, Duration());
  request.start_from = route.start_from;
  return absl::OkStatus();
}

std::shared_ptr<const StreamReply> StreamService::reply_to(const policy::StreamFrame* frame,
                                                           Time arrival) const {
  if (frame == nullptr) return nullptr;
  const std::scoped_lock lock(mutex_);
  policy::StreamAdvice advice = sessions_.advice(frame->client, frame->owner);
  if (residents_) advice.input_size = size_that_is_there(advice.input_size);
  return std::make_shared<const StreamReply>(StreamReply{advice, monotonic_now() - arrival});
}

// Clients go on with the old DNN's until the new one is loaded.
uint32_t StreamService::size_that_is_there(uint32_t size) const {
  const auto& variants = sessions_.settings().variants;
  for (uint32_t v = 0; v < variants.size(); ++v) {
    if (variants[v].input_size == size) return variants[residents_->serving(v)].input_size;
  }
  return size;
}

void StreamService::close(uint64_t owner) {
  const std::scoped_lock lock(mutex_);
  sessions_.close(owner);
}

void StreamService::look_at_costs(Time now) {
  if (now < costs_seen_ + kCosts) return;
  costs_seen_ = now;
  const auto costs = costs_now(costs_, options_);
  if (!costs.ok()) return;  // one is being loaded anew: what was known stays
  const std::scoped_lock lock(mutex_);
  std::erase_if(elsewhere_, [now](const auto& each) { return each.second.said + kSaid < now; });
  for (uint32_t v = 0; v < costs->size(); ++v) {
    const Duration delay = operators_elsewhere(v).value_or((*costs)[v].delay);
    sessions_.learned(v, (*costs)[v].latency, delay);
  }
}

void StreamService::operators_take(uint64_t process, std::vector<Duration> by_variant) {
  const std::scoped_lock lock(mutex_);
  if (by_variant.size() != sessions_.settings().variants.size()) return;  // another configuration
  elsewhere_[process] = {std::move(by_variant), monotonic_now()};
}

std::optional<Duration> StreamService::operators_elsewhere(uint32_t variant) const {
  std::optional<Duration> longest;
  for (const auto& [process, said] : elsewhere_) {
    longest = std::max(longest.value_or(Duration()), said.operators[variant]);
  }
  return longest;
}

bool StreamService::wants_plan() {
  const Time now = monotonic_now();
  look_at_costs(now);
  const std::scoped_lock lock(mutex_);
  return sessions_.wants_plan(now);
}

plan::StreamProblem StreamService::problem(uint32_t workers) {
  const std::scoped_lock lock(mutex_);
  plan::StreamProblem problem = sessions_.problem(monotonic_now());
  problem.workers = std::min(problem.workers, workers);
  problem.current.resize(problem.workers);
  return problem;
}

void StreamService::planned(const plan::StreamProblem& problem, const plan::StreamPlan& plan) {
  const std::scoped_lock lock(mutex_);
  sessions_.planned(problem, plan);
  if (residents_) {
    notice_reloads();
    std::set<uint32_t> workers;  // in parts of one, the first part's
    for (const auto& worker : plan.workers) {
      if (workers.insert(worker.worker).second) want(worker.worker, worker.variant);
    }
    carry_out();
  }
  mapped_ = plan.served;
  mean_accuracy_ = plan.mean_accuracy;
}

StreamStatistics StreamService::statistics() const {
  const std::scoped_lock lock(mutex_);
  const policy::StreamTotals& totals = sessions_.totals();
  return {options_.name,     sessions_.clients(), mapped_,        totals.frames,
          totals.mismatches, totals.unmapped,     totals.flooded, totals.plans,
          mean_accuracy_,    switches_,           prefetched_,    stale_};
}

}  // namespace fermata::engine
