#include "cluster/frontend/frontend_engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "cluster/frontend/joined_offer.h"
#include "cluster/wire/announced.h"
#include "cluster/wire/random_number.h"
#include "cluster/wire/replies.h"
#include "cluster/wire/stream_messages.h"
#include "engine/deadline.h"
#include "engine/schedule/entry.h"
#include "engine/schedule/learn.h"
#include "engine/services/pipeline.h"
#include "model/tensor_values.h"

namespace fermata::cluster {
namespace {

constexpr Duration kLook = Duration::millis(10);

size_t add_cancel(Asked& asked, uint64_t key) {
  asked.add_cancels(key);
  return sizeof(key);
}

std::string all_of(const std::vector<std::vector<std::string>>& divisions) {
  std::vector<std::string> each;
  for (const auto& schedulers : divisions)
    each.push_back(fmt::format("{}", fmt::join(schedulers, ", ")));
  return fmt::format("{}", fmt::join(each, "; "));
}

// What its scheduler checks of the same configuration, as far as services are made by it here.
absl::Status put_in_order(std::vector<engine::ServiceOptions>& services) {
  for (engine::ServiceOptions& service : services) {
    if (service.pipeline) RETURN_IF_ERROR(engine::order_stages(service.name, *service.pipeline));
  }
  return engine::composites_in_order(services).status();
}

}  // namespace

FrontendEngine::FrontendEngine(Options options, std::vector<engine::ServiceOptions> streams)
    : options_(std::move(options)),
      registry_(options_.engine),
      routes_(registry_.routes()),
      offer_(std::make_shared<const Offer>()),
      requests_(random_number() >> 2),
      trees_({.next_id = [this] { return JobId(requests_.next_key()); },
              .submit =
                  [this](JobId id, engine::InferRequest request, engine::Reply reply) {
                    submit_as(id, std::move(request), std::move(reply), Origin::kStage);
                  },
              .cancel = [this](JobId id) { cancel(id); },
              .request_parts = options_.engine.limits.request_parts,
              .workers = options_.engine.workers.count(),
              .ahead_bytes = engine::ahead_of_models(options_.engine.limits)},
             options_.engine.operator_threads),
      reruns_(requests_,
              {.submit =
                   [this](JobId id, engine::InferRequest request, engine::Reply reply) {
                     submit_as(id, std::move(request), std::move(reply), Origin::kStageAgain);
                   },
               .cancel = [this](JobId id) { cancel(id); },
               .go_on = [this](JobId id,
                               HeldRequests::Request request) { go_on(id, std::move(request)); }}),
      streams_(std::move(streams), requests_,
               {.hold = [this](JobId id,
                               HeldRequests::Request frame) { hold_frame(id, std::move(frame)); },
                .submit =
                    [this](JobId id, engine::InferRequest request, engine::Reply reply) {
                      submit_as(id, std::move(request), std::move(reply), Origin::kClient);
                    },
                .cancel = [this](JobId id) { cancel(id); },
                .say = [this](uint32_t division,
                              absl::FunctionRef<size_t(Asked&)> add) { say(division, add); }}),
      holder_(requests_, options_.link.tls) {}

absl::StatusOr<std::unique_ptr<FrontendEngine>> FrontendEngine::make(Options options) {
  std::vector<engine::ServiceOptions> streams = engine::take_streams(options.engine.services);
  RETURN_IF_ERROR(put_in_order(options.engine.services));
  auto made =
      std::unique_ptr<FrontendEngine>(new FrontendEngine(std::move(options), std::move(streams)));
  const Options& own = made->options_;
  FERMATA_CHECK(!own.divisions.empty() && own.divisions.size() <= kMostDivisions);
  ASSIGN_OR_RETURN(made->models_, FrontendModels::make(own.engine.services, made->registry_));
  RETURN_IF_ERROR(made->holder_.listen(own.host, own.port));
  made->connect(announced(own.host, made->port()));
  FrontendEngine* self = made.get();
  made->timer_ = std::make_unique<engine::Periodic>(kLook, [self] { self->look(); });
  return made;
}

void FrontendEngine::connect(std::string address) {
  for (const std::vector<std::string>& schedulers : options_.divisions) {
    const auto number = static_cast<uint32_t>(divisions_.size());
    SchedulerLink::Options link = options_.link;
    link.schedulers = schedulers;
    link.address = address;
    link.first_session = uint64_t{number} << 32;
    const SchedulerLink::Events events = {
        .lost = [this](uint64_t session) { requests_.lost(session); },
        .told = [this, number](const Told& told) { this->told(number, told); }};
    divisions_.push_back(std::make_unique<OfDivision>());
    divisions_.back()->link = std::make_unique<SchedulerLink>(std::move(link), events);
  }
  for (const auto& division : divisions_) division->link->start();
}

FrontendEngine::~FrontendEngine() {
  const absl::Status why = error(absl::StatusCode::kUnavailable, "the server is shutting down");
  timer_.reset();
  trees_.stop();
  requests_.end_all(why);
  if (models_ != nullptr) models_->stop();
  for (const auto& division : divisions_) division->link->stop();
}

engine::Reply FrontendEngine::counted(const HeldRequests::Request& request,
                                      const engine::Route& route, engine::Reply reply) {
  return [of = route.counters, budget = route.gate->bytes, arrival = request.request.arrival,
          deadline = request.deadline, items = request.admitted.items,
          reply = std::move(reply)](engine::ReplyPart part) mutable {
    engine::count_until_read(part.outputs, budget);
    const Time now = monotonic_now();
    if (part.status.ok()) {  // its outputs may have come later than the scheduler's word
      part.why.outcome = now <= deadline ? engine::Outcome::kOnTime : engine::Outcome::kLate;
    }
    of->count_end(part.why.outcome, {.arrival = arrival,
                                     .deadline = deadline,
                                     .ended = now,
                                     .queueing = part.why.queueing,
                                     .run = part.why.run,
                                     .items = items});
    reply(std::move(part));
  };
}

JobId FrontendEngine::submit(engine::InferRequest request, engine::Reply reply) {
  const JobId id(requests_.next_key());
  if (streams_.route(id, request, reply)) {
    submit_as(id, std::move(request), std::move(reply), Origin::kClient);
  }
  return id;
}

// Stages have routes, and are in no catalog.
void FrontendEngine::submit_as(JobId id, engine::InferRequest request, engine::Reply reply,
                               Origin origin) {
  const bool of_stage = origin != Origin::kClient;
  const auto routes = routes_.read();
  auto route = routes->find(request.service, request.version);
  if (!of_stage && routes->catalog->find(request.service) == nullptr) {
    route = routes->catalog->find(request.service, request.version).status();
  }
  if (!route.ok()) {
    if (!of_stage) unknown_.fetch_add(1, std::memory_order_relaxed);
    const bool away = of_stage || absl::IsUnavailable(route.status());
    return engine::reject(request, reply, route.status(),
                          away ? engine::Outcome::kUnavailable : engine::Outcome::kInvalid);
  }
  if ((*route)->pipeline == nullptr) {
    return hold(id, std::move(request), std::move(reply), **route, origin);
  }
  auto job = engine::let_in(id, std::move(request), std::move(reply), *std::move(route),
                            of_stage ? engine::Place::kTaken : engine::Place::kAsked);
  if (job == nullptr) return;
  auto inputs = engine::worth_a_look(job->route(), job->request(), job->items());
  trees_.submit(job);
  engine::learn(job->route(), std::move(inputs), job->items(),
                [this, job](auto by_item) { trees_.learned(job, std::move(by_item)); });
}

void FrontendEngine::hold(JobId id, engine::InferRequest request, engine::Reply reply,
                          const engine::Route& route, Origin origin) {
  HeldRequests::Request held{.variant = route.variant,
                             .ensemble = {route.composite, route.ensemble}};
  absl::StatusOr<engine::Admitted> admitted =
      engine::admit(request, route.variant->signature, {route.part_items, route.most_parts});
  const uint64_t bytes = origin == Origin::kStageAgain ? 0 : payload_bytes(request.inputs);
  held.request = std::move(request);
  if (admitted.ok()) held.admitted = *std::move(admitted);
  held.deadline = engine::deadline_of(held.request, route.slo);
  held.reply = counted(held, route, std::move(reply));
  if (!admitted.ok()) {
    return engine::reject(held.request, held.reply, admitted.status(), engine::Outcome::kInvalid);
  }
  if (ByteBudget& budget = *route.gate->bytes; bytes > 0 && !budget.take(bytes)) {
    const absl::Status full = engine::no_room_for(bytes, route.service, budget);
    return engine::reject(
        held.request, held.reply, full,
        absl::IsOutOfRange(full) ? engine::Outcome::kInvalid : engine::Outcome::kRejectedQueue);
  }
  held.bytes = HeldBytes(route.gate->bytes, bytes);
  const uint32_t items = held.admitted.items;
  auto inputs = engine::worth_a_look(route, held.request, items);
  // Of a service of several models all are in one division.
  const auto& scheduled =
      route.composite == nullptr ? route.variant : route.composite->variants.front();
  held.division = division_of(scheduled->id);
  // A pipeline of several divisions is known to none of their schedulers, but what its stages run.
  if (divisions_.size() > 1) held.asked_as = route.member;
  SchedulerLink& link = this->link(held.division);
  const uint64_t session = link.session();
  requests_.add(id.value(), std::move(held), session,
                [&](uint64_t key, const auto& of) { ask(session, key, of); });
  engine::learn(route, std::move(inputs), items, [&link, session, id](const auto& by_item) {
    if (!can_be_told(by_item)) return;
    link.say(session, [&](Asked& asked) {
      Learned& learned = *asked.add_learned();
      write_learned(id.value(), by_item, learned);
      return learned.ByteSizeLong();
    });
  });
}

void FrontendEngine::go_on(JobId id, HeldRequests::Request request) {
  const uint64_t session = link(request.division).session();
  requests_.add(id.value(), std::move(request), session,
                [&](uint64_t key, const auto& of) { ask(session, key, of); });
}

void FrontendEngine::ask(uint64_t session, uint64_t key, const HeldRequests::Request& request) {
  link(request.division).say(session, [&](Asked& asked) {
    if (request.stream != nullptr) {
      ClientFrame& frame = *asked.add_frames();
      write_frame(key, request.request, frame);
      return frame.ByteSizeLong();
    }
    Submit& submit = *asked.add_submits();
    write_submit(key, request.request, request.admitted, submit);
    if (!request.asked_as.empty()) submit.set_service(request.asked_as);
    return submit.ByteSizeLong();
  });
}

void FrontendEngine::cancel(JobId job) {
  const auto division = requests_.cancel(job.value());
  if (division) return give_up(job.value(), *division);
  reruns_.cancel(job);
  trees_.cancel(job);
}

void FrontendEngine::give_up(uint64_t key, uint32_t division) {
  say(division, [key](Asked& asked) { return add_cancel(asked, key); });
}

void FrontendEngine::say(uint32_t division, absl::FunctionRef<size_t(Asked&)> add) {
  SchedulerLink& link = this->link(division);
  link.say(link.session(), add);
}

void FrontendEngine::told(uint32_t division, const Told& told) {
  if (told.has_offered()) {
    if (auto offer = read_offered(told.offered(), division); offer.ok()) {
      offered(division, *std::move(offer));
    } else {
      spdlog::error("the scheduler offers what cannot be read: {}", message(offer.status()));
    }
  }
  for (const Directed& each : told.directed()) streams_.directed(each);
  const Time now = monotonic_now();
  for (const Reply& each : told.replies()) {
    auto reply = read_reply(each);
    if (!reply.ok()) {
      reply = engine::ReplyPart{.status = internal("{}", message(reply.status())),
                                .why = {.outcome = engine::Outcome::kFailed}};
    }
    if (absl::IsDataLoss(reply->status) && reruns_.begin(JobId(each.key()))) continue;
    HeldAnswers::Subsets answered_by(each.answered_by().begin(), each.answered_by().end());
    requests_.told(each.key(), {*std::move(reply), std::move(answered_by)}, now);
  }
}

void FrontendEngine::offered(uint32_t division, Offer offer) {
  const std::lock_guard lock(mutex_);
  divisions_[division]->offer = std::move(offer);
  std::vector<const Offer*> offers;
  for (const auto& each : divisions_) offers.push_back(&each->offer);
  Offer all = join_offers(offers);
  models_->serve(all.models, registry_);
  registry_.put_all(std::move(all.models));
  auto routes = registry_.routes();
  if (streams_.any()) {
    registry_.set_faces(streams_.serve(*routes->catalog, offers));
    routes = registry_.routes();
  }
  add_services(*routes->catalog, all.index);
  routes_.publish(routes);
  if (const absl::Status wrong = registry_.composites(); !wrong.ok()) {
    spdlog::error("what schedulers offer makes no service: {}", message(wrong));
  }
  offer_.publish(std::make_shared<const Offer>(std::move(all)));
}

// Not from where replies are heard: a scheduler that rejects much at once is read while it is
// asked.
void FrontendEngine::look() {
  std::vector<HeldRequests::Scheduler> active;
  for (const auto& each : divisions_)
    active.push_back({each->link->session(), each->link->heard()});
  const auto asks = [&](uint64_t key, const HeldRequests::Request& request) {
    ask(active[request.division].session, key, request);
  };
  for (uint32_t division = 0; division < active.size(); ++division) {
    const uint64_t session = active[division].session;
    OfDivision& of = *divisions_[division];
    if (session == 0 || session == of.asked_session) continue;
    const std::lock_guard lock(of.asking);
    requests_.ask_again(division, session, asks);
    of.asked_session = session;
  }
  const Time now = monotonic_now();
  tell_operators(now);
  requests_.look(now, active, asks, [&](uint64_t key, const HeldRequests::Request& request) {
    give_up(key, request.division);
  });
}

std::vector<engine::ModelStatus> FrontendEngine::unserved() const {
  std::vector<engine::ModelStatus> rows;
  for (size_t division = 0; division < divisions_.size(); ++division) {
    const SchedulerLink& link = *divisions_[division]->link;
    if (link.session() != 0) {
      const std::lock_guard lock(mutex_);
      const auto& more = divisions_[division]->offer.unserved;
      rows.insert(rows.end(), more.begin(), more.end());
      continue;
    }
    const std::string why = link.why_none();
    rows.push_back(
        {"scheduler", "", engine::ModelState::kUnavailable,
         fmt::format("none of {} takes this frontend{}{}",
                     fmt::join(options_.divisions[division], ", "), why.empty() ? "" : ": ", why)});
  }
  return rows;
}

absl::Status FrontendEngine::not_here() const {
  return error(absl::StatusCode::kFailedPrecondition,
               "a frontend loads no models: ask the scheduler ({})", all_of(options_.divisions));
}

absl::Status FrontendEngine::load(std::string_view, std::optional<std::string>) {
  return not_here();
}
absl::Status FrontendEngine::unload(std::string_view) { return not_here(); }

engine::EngineSnapshot FrontendEngine::snapshot() const {
  engine::EngineSnapshot snapshot{.now = now(), .started = started_, .policy = "frontend"};
  snapshot.unknown = unknown_;
  snapshot.cluster.refused = holder_.refused();
  const std::lock_guard lock(mutex_);
  snapshot.services = registry_.statistics();
  return snapshot;
}

}  // namespace fermata::cluster
