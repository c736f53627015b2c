#include "engine/services/streams.h"

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace fermata::engine {
namespace {

constexpr Duration kLook = Duration::millis(25);  // whether a plan is wanted

void add_groups(const policy::StreamPool::Service& service, const plan::StreamPlan& plan,
                std::vector<StreamDecision::Group>& to) {
  std::map<uint32_t, size_t, std::greater<>> clients;  // by size
  for (const plan::StreamPlan::Worker& worker : plan.workers) {
    clients[service.problem.variants[worker.variant].input_size] += worker.clients.size();
  }
  if (!plan.unmapped.empty()) clients[0] = plan.unmapped.size();
  for (const auto& [size, count] : clients) to.push_back({service.name, size, count});
}

}  // namespace

std::shared_ptr<StreamService> Streams::find(const Services& services, std::string_view name) {
  for (const auto& known : services) {
    if (known->name() == name) return known;
  }
  return nullptr;
}

absl::Status Streams::start(const std::vector<ServiceOptions>& services, const Catalog& catalog,
                            uint32_t workers, std::function<uint32_t()> there,
                            const StreamService::Loading& loading,
                            const StreamCosts::Sources& costs) {
  auto all = std::make_shared<Services>(*services_.read());
  const size_t before = all->size();
  absl::Status first;
  waiting_.clear();
  for (const ServiceOptions& options : services) {
    if (find(*all, options.name) != nullptr) continue;
    auto service = StreamService::make(options, catalog, workers, loading, costs);
    if (absl::IsUnavailable(service.status())) {
      waiting_[options.name] = message(service.status());
      continue;
    }
    if (!service.ok()) {
      first.Update(service.status());
      continue;
    }
    all->push_back(*std::move(service));
  }
  if (all->size() > before) services_.publish(std::move(all));
  if (before == 0 && !services_.read()->empty()) {
    workers_ = StreamService::planned_workers(workers);
    there_ = std::move(there);
    if (there_) counted_.emplace(workers_);
    pool_.emplace(workers_);
    planner_ = std::make_unique<Periodic>(kLook, [this] { plan(); });
  }
  return first;
}

void Streams::plan() {
  const std::shared_ptr<const Services> all = services_.read();
  bool wanted = false;
  for (const auto& service : *all) wanted |= service->wants_plan();
  if (!wanted) return;
  const Time start = monotonic_now();
  const uint32_t workers =
      counted_ ? counted_->plan(StreamService::planned_workers(there_()), start) : workers_;
  std::vector<policy::StreamPool::Service> problems;
  for (const auto& service : *all) problems.push_back({service->name(), service->problem(workers)});
  policy::StreamPool::Planned planned = pool_->plan(problems);
  const Duration took = monotonic_now() - start;
  std::vector<StreamDecision::Group> groups;
  for (size_t s = 0; s < all->size(); ++s) {
    (*all)[s]->planned(problems[s].problem, planned.plans[s]);
    add_groups(problems[s], planned.plans[s], groups);
  }
  if (planned.problem.clients.empty()) return;
  const std::lock_guard lock(mutex_);
  last_decision_ = {std::move(planned.problem), std::move(groups), start, took};
}

void Streams::stop() {
  planner_.reset();
  for (const auto& service : *services_.read()) service->stop();
}

bool Streams::route(InferRequest& request, Reply& reply) const {
  const std::shared_ptr<const Services> all = services_.read();
  const std::shared_ptr<StreamService> service = find(*all, request.service);
  const std::shared_ptr<policy::StreamFrame> frame = request.frame;
  if (service == nullptr) {
    request.frame.reset();  // of other services only the network time is of interest
    return true;
  }
  bool answered = false;
  const Time arrival = request.arrival;
  const absl::Status status = service->route(request, answered);
  if (!status.ok() || answered) {
    reply(service->face().ended(status, request.id, service->reply_to(frame.get(), arrival)));
    return false;
  }
  reply = [service, frame, arrival, reply = std::move(reply)](ReplyPart part) mutable {
    service->face().sign(part);
    part.stream = service->reply_to(frame.get(), arrival);
    reply(std::move(part));
  };
  return true;
}

std::optional<StreamDirection> Streams::direct(InferRequest request) const {
  const std::shared_ptr<StreamService> service = find(*services_.read(), request.service);
  if (service == nullptr) return {};
  bool answered = false;
  StreamDirection direction{.status = service->route(request, answered)};
  direction.advice = service->reply_to(request.frame.get(), request.arrival)->advice;
  if (!direction.status.ok() || answered) return direction;
  direction.service = std::move(request.service);
  direction.timeout = *request.timeout;
  direction.network_time = request.network_time;
  direction.start_after = request.start_from - request.arrival;
  return direction;
}

void Streams::operators_take(uint64_t process, std::string_view service,
                             std::vector<Duration> by_variant) const {
  const std::shared_ptr<StreamService> known = find(*services_.read(), service);
  if (known != nullptr) known->operators_take(process, std::move(by_variant));
}

void Streams::close(uint64_t owner) const {
  for (const auto& service : *services_.read()) service->close(owner);
}

std::string Streams::why_waits(const std::string& service) const {
  const auto known = waiting_.find(service);
  return known == waiting_.end() ? "" : known->second;
}

std::vector<std::shared_ptr<const Service>> Streams::faces() const {
  std::vector<std::shared_ptr<const Service>> faces;
  for (const auto& service : *services_.read()) faces.push_back(service->face().service());
  return faces;
}

std::optional<StreamDecision> Streams::last_decision() const {
  const std::lock_guard lock(mutex_);
  return last_decision_;
}

std::vector<StreamStatistics> Streams::statistics() const {
  std::vector<StreamStatistics> rows;
  for (const auto& service : *services_.read()) rows.push_back(service->statistics());
  return rows;
}

}  // namespace fermata::engine
