#include "cluster/frontend_engine.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/status.h"
#include "cluster/random_number.h"
#include "cluster/replies.h"
#include "engine/deadline.h"

namespace fermata::cluster {
namespace {

constexpr Duration kLook = Duration::millis(10);

Offer nothing() { return {.catalog = std::make_shared<const engine::Catalog>()}; }

void reject(const engine::InferRequest& request, engine::Reply& reply, absl::Status why,
            engine::Outcome outcome) {
  reply({.status = std::move(why),
         .model = request.service,
         .version = request.version,
         .id = request.id,
         .why = {.outcome = outcome}});
}

uint64_t bytes_of(const engine::InferRequest& request) {
  uint64_t sum = 0;
  for (const Tensor& input : request.inputs) sum += input.data.bytes.size();
  return sum;
}

std::map<std::string, Duration> slos_of(const engine::EngineOptions& options) {
  std::map<std::string, Duration> slos;
  for (const engine::ServiceOptions& service : options.services) {
    if (service.slo) slos[service.name] = *service.slo;
  }
  return slos;
}

}  // namespace

FrontendEngine::FrontendEngine(Options options)
    : options_(std::move(options)),
      slos_(slos_of(options_.engine)),
      budget_(std::make_shared<ByteBudget>(options_.engine.limits.held_bytes)),
      offer_(std::make_shared<const Offer>(nothing())),
      requests_(random_number() >> 2),
      holder_(requests_, options_.link.tls) {}

absl::StatusOr<std::unique_ptr<FrontendEngine>> FrontendEngine::make(Options options) {
  auto made = std::unique_ptr<FrontendEngine>(new FrontendEngine(std::move(options)));
  const Options& own = made->options_;
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
  requests_.end_all(error(absl::StatusCode::kUnavailable, "the server is shutting down"));
  link_.reset();
}

engine::Counters& FrontendEngine::counters(const std::string& service, const std::string& version) {
  const std::lock_guard lock(mutex_);
  auto& place = counters_[{service, version}];
  if (place == nullptr) place = std::make_unique<engine::Counters>();
  return *place;
}

engine::Reply FrontendEngine::counted(const HeldRequests::Request& request, engine::Reply reply) {
  return
      [&of = counters(request.request.service, request.variant->version),
       arrival = request.request.arrival, deadline = request.deadline,
       items = request.admitted.items, reply = std::move(reply)](engine::ReplyPart part) mutable {
        const Time now = monotonic_now();
        if (part.status.ok()) {  // its outputs may have come later than the scheduler's word
          part.why.outcome = now <= deadline ? engine::Outcome::kOnTime : engine::Outcome::kLate;
        }
        of.count_end(part.why.outcome, {.arrival = arrival,
                                        .deadline = deadline,
                                        .ended = now,
                                        .queueing = part.why.queueing,
                                        .run = part.why.run,
                                        .items = items});
        reply(std::move(part));
      };
}

JobId FrontendEngine::submit(engine::InferRequest request, engine::Reply reply) {
  const auto offer = offer_.read();
  auto variant = offer->catalog->find(request.service, request.version);
  if (!variant.ok()) {
    unknown_.fetch_add(1, std::memory_order_relaxed);
    const bool away = absl::IsUnavailable(variant.status());
    reject(request, reply, variant.status(),
           away ? engine::Outcome::kUnavailable : engine::Outcome::kInvalid);
    return JobId::none();
  }
  HeldRequests::Request held{.variant = *std::move(variant)};
  absl::StatusOr<engine::Admitted> admitted = engine::admit(
      request, held.variant->signature,
      {std::max(held.variant->signature.max_batch, 1u), options_.engine.limits.request_parts});
  const uint64_t bytes = bytes_of(request);
  held.request = std::move(request);
  if (admitted.ok()) held.admitted = *std::move(admitted);
  if (const auto slo = slos_.find(held.request.service); slo != slos_.end()) {
    held.deadline = engine::deadline_of(held.request, slo->second);
  } else {
    held.deadline = engine::deadline_of(held.request, std::nullopt);
  }
  held.reply = counted(held, std::move(reply));
  if (!admitted.ok()) {
    reject(held.request, held.reply, admitted.status(), engine::Outcome::kInvalid);
    return JobId::none();
  }
  if (!budget_->take(bytes)) {
    reject(held.request, held.reply,
           error(absl::StatusCode::kResourceExhausted,
                 "memory limit reached (limits.held_mb): requests in flight hold {} bytes, no room "
                 "for {} more; retry later",
                 budget_->used(), bytes),
           engine::Outcome::kRejectedQueue);
    return JobId::none();
  }
  held.bytes = HeldBytes(budget_, bytes);
  const uint64_t session = link_->session();
  return JobId(requests_.add(std::move(held), session,
                             [&](uint64_t key, const auto& of) { ask(session, key, of); }));
}

void FrontendEngine::ask(uint64_t session, uint64_t key, const HeldRequests::Request& request) {
  link_->say(session, [&](Asked& asked) {
    write_submit(key, request.request, request.admitted, *asked.add_submits());
  });
}

void FrontendEngine::cancel(JobId job) {
  if (!requests_.cancel(job.value())) return;
  link_->say(link_->session(), [&](Asked& asked) { asked.add_cancels(job.value()); });
}

void FrontendEngine::told(const Told& told) {
  if (told.has_offered()) {
    if (auto offer = read_offered(told.offered()); offer.ok()) {
      offer_.publish(std::make_shared<const Offer>(*std::move(offer)));
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
    requests_.told(each.key(), *std::move(reply), now);
  }
}

// Not from where replies are heard: a scheduler that rejects much at once is read while it is
// asked.
void FrontendEngine::look() {
  const uint64_t session = link_->session();
  const auto asks = [&](uint64_t key, const auto& request) { ask(session, key, request); };
  if (session != 0 && std::exchange(asked_session_, session) != session) {
    requests_.ask_again(session, asks);
  }
  requests_.look(monotonic_now(), session, asks, [&](uint64_t key) {
    link_->say(session, [key](Asked& asked) { asked.add_cancels(key); });
  });
}

std::vector<engine::ModelStatus> FrontendEngine::unserved() const {
  if (link_->session() != 0) return offer_.read()->unserved;
  return {
      {"scheduler", "", engine::ModelState::kUnavailable,
       fmt::format("none of {} takes this frontend", fmt::join(options_.link.schedulers, ", "))}};
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
  for (const auto& [name, counters] : counters_) {
    engine::ServiceStatistics row = counters->snapshot();
    row.service = name.first;
    row.version = name.second;
    snapshot.services.push_back(std::move(row));
  }
  return snapshot;
}

}  // namespace fermata::cluster
