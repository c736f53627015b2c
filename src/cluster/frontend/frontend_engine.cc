#include "cluster/frontend/frontend_engine.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/status.h"
#include "cluster/wire/random_number.h"
#include "cluster/wire/replies.h"
#include "engine/deadline.h"
#include "engine/schedule/entry.h"
#include "engine/schedule/learn.h"
#include "engine/services/pipeline.h"

namespace fermata::cluster {
namespace {

constexpr Duration kLook = Duration::millis(10);

uint64_t sent_bytes(const engine::InferRequest& request) {
  uint64_t sum = 0;
  for (const Tensor& input : request.inputs) sum += input.data.bytes.size();
  return sum;
}

size_t add_cancel(Asked& asked, uint64_t key) {
  asked.add_cancels(key);
  return sizeof(key);
}

// What its scheduler checks of the same configuration, as far as services are made by it here.
absl::Status put_in_order(std::vector<engine::ServiceOptions>& services) {
  std::erase_if(services, [](const auto& service) { return service.stream.has_value(); });
  for (engine::ServiceOptions& service : services) {
    if (service.pipeline) RETURN_IF_ERROR(engine::order_stages(service.name, *service.pipeline));
  }
  return engine::composites_in_order(services).status();
}

}  // namespace

FrontendEngine::FrontendEngine(Options options)
    : options_(std::move(options)),
      registry_(options_.engine),
      routes_(registry_.routes()),
      offer_(std::make_shared<const Offer>()),
      trees_({.next_id = [this] { return JobId(requests_.next_key()); },
              .submit =
                  [this](JobId id, engine::InferRequest request, engine::Reply reply) {
                    submit_as(id, std::move(request), std::move(reply), /*of_stage=*/true);
                  },
              .cancel = [this](JobId id) { cancel(id); },
              .request_parts = options_.engine.limits.request_parts,
              .workers = options_.engine.workers.count(),
              .ahead_bytes = engine::ahead_of_models(options_.engine.limits)},
             options_.engine.operator_threads),
      requests_(random_number() >> 2),
      holder_(requests_, options_.link.tls) {}

absl::StatusOr<std::unique_ptr<FrontendEngine>> FrontendEngine::make(Options options) {
  RETURN_IF_ERROR(put_in_order(options.engine.services));
  auto made = std::unique_ptr<FrontendEngine>(new FrontendEngine(std::move(options)));
  const Options& own = made->options_;
  ASSIGN_OR_RETURN(made->models_, FrontendModels::make(own.engine.services, made->registry_));
  RETURN_IF_ERROR(made->holder_.listen(own.host, own.port));
  const bool everywhere = own.host == "0.0.0.0" || own.host == "::";
  const bool is_ipv6 = own.host.find(':') != std::string::npos;
  SchedulerLink::Options link = own.link;
  link.address = fmt::format("{}:{}",
                             everywhere ? ""
                             : is_ipv6  ? "[" + own.host + "]"
                                        : own.host,
                             made->port());
  FrontendEngine* self = made.get();
  made->link_ = std::make_unique<SchedulerLink>(
      std::move(link),
      SchedulerLink::Events{.lost = [self](uint64_t session) { self->requests_.lost(session); },
                            .told = [self](const Told& told) { self->told(told); }});
  made->link_->start();
  made->timer_ = std::make_unique<engine::Periodic>(kLook, [self] { self->look(); });
  return made;
}

FrontendEngine::~FrontendEngine() {
  timer_.reset();
  trees_.stop();
  requests_.end_all(error(absl::StatusCode::kUnavailable, "the server is shutting down"));
  if (models_ != nullptr) models_->stop();
  link_.reset();
}

engine::Reply FrontendEngine::counted(const HeldRequests::Request& request,
                                      const engine::Route& route, engine::Reply reply) {
  return
      [of = route.counters, arrival = request.request.arrival, deadline = request.deadline,
       items = request.admitted.items, reply = std::move(reply)](engine::ReplyPart part) mutable {
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
  submit_as(id, std::move(request), std::move(reply), /*of_stage=*/false);
  return id;
}

// Stages have routes, and are in no catalog.
void FrontendEngine::submit_as(JobId id, engine::InferRequest request, engine::Reply reply,
                               bool of_stage) {
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
    return hold(id, std::move(request), std::move(reply), **route);
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
                          const engine::Route& route) {
  HeldRequests::Request held{.variant = route.variant,
                             .ensemble = {route.composite, route.ensemble}};
  absl::StatusOr<engine::Admitted> admitted =
      engine::admit(request, route.variant->signature, {route.part_items, route.most_parts});
  if (absl::Status said = check_submit(request); !said.ok()) admitted = std::move(said);
  const uint64_t bytes = sent_bytes(request);
  held.request = std::move(request);
  if (admitted.ok()) held.admitted = *std::move(admitted);
  held.deadline = engine::deadline_of(held.request, route.slo);
  held.reply = counted(held, route, std::move(reply));
  if (!admitted.ok()) {
    return engine::reject(held.request, held.reply, admitted.status(), engine::Outcome::kInvalid);
  }
  if (ByteBudget& budget = *route.gate->bytes; !budget.take(bytes)) {
    const absl::Status full = engine::no_room_for(bytes, route.service, budget);
    return engine::reject(
        held.request, held.reply, full,
        absl::IsOutOfRange(full) ? engine::Outcome::kInvalid : engine::Outcome::kRejectedQueue);
  }
  held.bytes = HeldBytes(route.gate->bytes, bytes);
  const uint32_t items = held.admitted.items;
  auto inputs = engine::worth_a_look(route, held.request, items);
  const uint64_t session = link_->session();
  requests_.add(id.value(), std::move(held), session,
                [&](uint64_t key, const auto& of) { ask(session, key, of); });
  engine::learn(route, std::move(inputs), items, [this, session, id](const auto& by_item) {
    if (!can_be_told(by_item)) return;
    link_->say(session, [&](Asked& asked) {
      Learned& learned = *asked.add_learned();
      write_learned(id.value(), by_item, learned);
      return learned.ByteSizeLong();
    });
  });
}

void FrontendEngine::ask(uint64_t session, uint64_t key, const HeldRequests::Request& request) {
  link_->say(session, [&](Asked& asked) {
    Submit& submit = *asked.add_submits();
    write_submit(key, request.request, request.admitted, submit);
    return submit.ByteSizeLong();
  });
}

void FrontendEngine::cancel(JobId job) {
  if (trees_.cancel(job)) return;
  if (!requests_.cancel(job.value())) return;
  link_->say(link_->session(), [&](Asked& asked) { return add_cancel(asked, job.value()); });
}

void FrontendEngine::told(const Told& told) {
  if (told.has_offered()) {
    if (auto offer = read_offered(told.offered()); offer.ok()) {
      offered(*std::move(offer));
    } else {
      spdlog::error("the scheduler offers what cannot be read: {}", message(offer.status()));
    }
  }
  const Time now = monotonic_now();
  for (const Reply& each : told.replies()) {
    auto reply = read_reply(each);
    if (!reply.ok()) {
      reply = engine::ReplyPart{.status = internal("{}", message(reply.status())),
                                .why = {.outcome = engine::Outcome::kFailed}};
    }
    HeldAnswers::Subsets answered_by(each.answered_by().begin(), each.answered_by().end());
    requests_.told(each.key(), {*std::move(reply), std::move(answered_by)}, now);
  }
}

void FrontendEngine::offered(Offer offer) {
  {
    const std::lock_guard lock(mutex_);
    models_->serve(offer.models, registry_);
    registry_.put_all(std::move(offer.models));
    routes_.publish(registry_.routes());
    if (const absl::Status wrong = registry_.composites(); !wrong.ok()) {
      spdlog::error("what the scheduler offers makes no service: {}", message(wrong));
    }
  }
  offer_.publish(std::make_shared<const Offer>(std::move(offer)));
}

// Not from where replies are heard: a scheduler that rejects much at once is read while it is
// asked.
void FrontendEngine::look() {
  const uint64_t session = link_->session();
  const auto asks = [&](uint64_t key, const auto& request) { ask(session, key, request); };
  if (session != 0 && std::exchange(asked_session_, session) != session) {
    requests_.ask_again(session, asks);
  }
  requests_.look(monotonic_now(), session, link_->heard(), asks, [&](uint64_t key) {
    link_->say(session, [key](Asked& asked) { return add_cancel(asked, key); });
  });
}

std::vector<engine::ModelStatus> FrontendEngine::unserved() const {
  if (link_->session() != 0) return offer_.read()->unserved;
  const std::string why = link_->why_none();
  return {{"scheduler", "", engine::ModelState::kUnavailable,
           fmt::format("none of {} takes this frontend{}{}",
                       fmt::join(options_.link.schedulers, ", "), why.empty() ? "" : ": ", why)}};
}

absl::Status FrontendEngine::not_here() const {
  return error(absl::StatusCode::kFailedPrecondition,
               "a frontend loads no models: ask the scheduler ({})",
               fmt::join(options_.link.schedulers, ", "));
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
