#include "cluster_simulated/cluster.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "cluster/frontend/frontend_engine.h"
#include "cluster/lock/scheduler_lock.h"
#include "cluster/scheduler/hosts.h"
#include "cluster/wire/beats.h"
#include "cluster/worker/worker.h"
#include "engine/engine.h"

namespace fermata::simulated {
namespace {

constexpr uint16_t kPort = 7400, kKeepsAt = 7420;
constexpr uint32_t kSlots = 2;  // of a worker
constexpr Duration kReady = Duration::seconds(2);
// Beyond a deadline nobody waits longer.
constexpr Duration kBeyond = Duration::millis(50);
constexpr Duration kRestart = Duration::millis(100);  // by whoever looks after a process

std::vector<std::string> schedulers() {
  std::vector<std::string> all;
  for (const uint32_t place : kSchedulers) {
    all.push_back(fmt::format("{}:{}", Network::address(place), kPort));
  }
  return all;
}

engine::EngineOptions engine_options(const Cluster::Options& of) {
  engine::EngineOptions options;
  options.repository = of.models;
  options.services = of.services;
  options.workers.executor = engine::ExecutorKind::kEmulated;
  options.workers.isolation = engine::Isolation::kThread;
  return options;
}

// As long as the process lives.
[[noreturn]] void live(World& world) {
  while (true) world.sleep(world.now() + Duration::seconds(3600));
}

}  // namespace

Cluster::Cluster(Options options)
    : options_(std::move(options)),
      world_(options_.seed),
      network_(world_),
      random_(options_.seed, 3) {
  const uint64_t capacities[] = {2 << 10, 64 << 10, 1 << 20};
  network_.capacity(capacities[random_.below(3)]);
  for (const uint32_t place : kSchedulers) start(place);
  for (const uint32_t place : kFrontends) start(place);
  for (const uint32_t place : kWorkers) start(place);
  world_.sleep(world_.now() + kReady);
  world_.give_way(options_.give_way);
  began_ = world_.now();
}

void Cluster::start(uint32_t place) {
  Place& at = places_[place];
  const auto offset = Duration::nanos(static_cast<int64_t>(random_.below(uint64_t{1} << 42)));
  const double drift = 1 + 1e-4 * (random_.uniform() - 0.5);  // as ClockOffset believes
  at.process = world_.make_process(fmt::format("{}.{}", place, ++at.started), place, offset, drift);
  at.leaves = false;
  world_.start(*at.process, [this, place]() -> void* {
    if (place <= 2) run_scheduler();
    if (place <= 4) run_frontend(place);
    run_worker(place);
    return nullptr;
  });
}

void Cluster::run_scheduler() {
  const auto hosts = std::make_shared<cluster::Hosts>(
      cluster::Options{.host = "it", .port = kPort, .silence = options_.silence});
  engine::EngineOptions options = engine_options(options_);
  options.inputs_elsewhere = true;
  options.workers.types = {engine::WorkerType{
      .name = "far", .count = kSlots * uint32_t{std::size(kWorkers)}, .remote = true}};
  options.workers.remote = hosts;
  const auto engine = *engine::make_engine(options);
  hosts->serve_frontends(*engine);
  hosts->begin(0);
  Process& own = world_.process();
  const auto lock = cluster::SchedulerLock::of_file(
      options_.lock, cluster::lease_of(options_.silence),
      {.held = [&hosts](uint64_t epoch) { hosts->begin(epoch); },
       .lost =
           [this, &own] {  // as `fermata scheduler` does, which somebody starts again
             const uint32_t place = own.place;
             network_.ended(own, false);
             world_.at(world_.now() + kRestart, [this, place] { bring_back(place, false); });
             world_.exit();
           },
       .heard = [&hosts] { return hosts->heard(); }});
  FERMATA_CHECK(lock.ok());
  FERMATA_CHECK(hosts->listen().ok());
  live(world_);
}

void Cluster::run_worker(uint32_t place) {
  cluster::Worker::Options options{.schedulers = schedulers(),
                                   .name = fmt::format("worker{}", place),
                                   .host = Network::address(place),
                                   .port = kKeepsAt,
                                   .engine = engine_options(options_)};
  options.engine.workers.types = {engine::WorkerType{.name = "far", .count = kSlots}};
  const auto worker = *cluster::Worker::make(std::move(options), [](uint32_t) {});
  Place& at = places_[place];
  world_.start(world_.process(), [this, &at, &worker]() -> void* {
    while (!at.leaves) world_.wait(&at.leaves);
    worker->leave();
    return nullptr;
  });
  worker->run();
  live(world_);
}

void Cluster::run_frontend(uint32_t place) {
  cluster::FrontendEngine::Options options{
      .divisions = {schedulers()},
      .link = {.name = fmt::format("frontend{}", place), .silence = options_.silence},
      .host = Network::address(place),
      .engine = engine_options(options_)};
  const auto frontend = *cluster::FrontendEngine::make(std::move(options));
  Random random(options_.seed, 100 * place + places_[place].started);
  while (!frontend->catalog()->find(options_.service, "").ok()) {
    world_.sleep(world_.now() + Duration::millis(5));
  }
  const auto ended = [this] { return began_ != Time() && world_.now() > began_ + options_.asking; };
  while (!ended()) {
    world_.sleep(world_.now() +
                 Duration::from_seconds(random.exponential(1 / options_.requests_per_second)));
    if (began_ == Time()) continue;
    Asked& asked = asked_.emplace_back();
    asked.frontend = place;
    asked.number = static_cast<uint32_t>(asked_.size());
    asked.process = places_[place].started;
    asked.at = world_.now();
    asked.id = std::to_string(asked.number);
    const uint64_t which = random.below(options_.timeouts.size() + options_.without_deadline);
    if (which < options_.timeouts.size()) asked.timeout = options_.timeouts[which];
    engine::InferRequest request;
    request.service = options_.service;
    request.id = asked.id;
    request.arrival = frontend->now();
    request.timeout = asked.timeout;
    request.inputs = {{"x", DataType::kFp32, {1, 2}, payload_of(std::vector<float>{1, 2})}};
    frontend->submit(std::move(request), [this, &asked](engine::ReplyPart reply) {
      ++asked.replies;
      asked.replied = world_.now();
      asked.status = reply.status;
      if (reply.id != asked.id) asked.status = internal("the reply of request {}", reply.id);
    });
  }
  live(world_);
}

void Cluster::end(uint32_t place, bool with_host) {
  Place& at = places_[place];
  if (at.process->dead) return;
  network_.ended(*at.process, with_host);
  world_.kill(*at.process, with_host);
}

void Cluster::bring_back(uint32_t place, bool host) {
  if (host) network_.up(place);
  if (places_[place].process->dead) start(place);
}

void Cluster::befall(const Fault& fault) {
  const Time from = began_ + fault.from, to = from + fault.length;
  const uint32_t place = fault.place, other = fault.other;
  const auto pair = [&](auto begin, auto end) {
    world_.at(from, begin);
    world_.at(to, end);
  };
  switch (fault.kind) {
    case Fault::kDies:
    case Fault::kHostDies: {
      const bool host = fault.kind == Fault::kHostDies;
      places_[place].away.emplace_back(from, to);
      return pair([this, place, host] { end(place, host); },
                  [this, place, host] { bring_back(place, host); });
    }
    case Fault::kHangs:
      places_[place].away.emplace_back(from, to);
      return pair([this, place] { world_.stop(*places_[place].process); },
                  [this, place] { world_.go_on(*places_[place].process); });
    case Fault::kCut:
    case Fault::kCutOneWay: {
      const bool both = fault.kind == Fault::kCut;
      return pair(
          [this, place, other, both] {
            network_.cut(place, other);
            if (both) network_.cut(other, place);
          },
          [this, place, other, both] {
            network_.mend(place, other);
            if (both) network_.mend(other, place);
          });
    }
    case Fault::kSlow:
      return pair([this, fault] { network_.slow(fault.place, fault.other, fault.amount); },
                  [this, fault] { network_.slow(fault.place, fault.other, {}); });
    case Fault::kLeaves:
      return pair(
          [this, place] {
            places_[place].leaves = true;
            world_.wake(&places_[place].leaves);
          },
          [this, place] {
            end(place, false);
            start(place);
          });
    case Fault::kFileGoes:
      return world_.at(from, [this] { ::unlink(options_.lock.c_str()); });
  }
}

bool Cluster::is_open() const {
  return std::any_of(asked_.begin(), asked_.end(), [this](const Asked& each) {
    return each.replies == 0 && each.process == places_.at(each.frontend).started;
  });
}

void Cluster::run(const Faults& faults) {
  for (const Fault& fault : faults) befall(fault);
  world_.sleep(began_ + options_.asking + Duration::seconds(1));
  const Time end = began_ + options_.asking + options_.settles;
  while (world_.now() < end && is_open()) world_.sleep(world_.now() + Duration::millis(50));
}

bool Cluster::was_away(const Asked& asked, Time from, Time to) const {
  const auto& away = places_.at(asked.frontend).away;
  return std::any_of(away.begin(), away.end(), [&](const auto& each) {
    return each.first <= to && each.second + kBeyond >= from;
  });
}

void Cluster::check(const Asked& asked, std::vector<std::string>& found) const {
  const auto tell = [&](const std::string& what) {
    found.push_back(fmt::format(
        "request {} of frontend {}, asked at {:.1f} ms with {}: {}", asked.number, asked.frontend,
        since_begin(asked.at).millis(),
        asked.timeout ? fmt::format("{} ms", asked.timeout->millis()) : "no deadline", what));
  };
  if (asked.replies > 1) tell(fmt::format("{} replies", asked.replies));
  if (asked.process != places_.at(asked.frontend).started) return;  // went with its frontend
  if (asked.replies == 0) return tell("no reply");
  const double took = (asked.replied - asked.at).millis();
  const Time due = asked.timeout ? asked.at + *asked.timeout : Time::infinite();
  if (asked.replied > due + kBeyond && !was_away(asked, asked.at, asked.replied)) {
    tell(fmt::format("replied after {:.1f} ms: {}", took, asked.status.ToString()));
  }
  const bool has_time = !asked.timeout || *asked.timeout > Duration::seconds(5);
  const bool may_miss = absl::IsDeadlineExceeded(asked.status) && !has_time;
  if (!asked.status.ok() && !may_miss) {
    tell(fmt::format("replied after {:.1f} ms: {}", took, asked.status.ToString()));
  }
}

std::vector<std::string> Cluster::findings() const {
  std::vector<std::string> found;
  for (const Asked& each : asked_) check(each, found);
  if (asked_.size() < 10) found.push_back(fmt::format("only {} requests", asked_.size()));
  return found;
}

}  // namespace fermata::simulated
