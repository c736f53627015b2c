#include "engine/host/stream_engine.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "engine/services/adapter.h"

namespace fermata::engine {

absl::StatusOr<std::unique_ptr<Engine>> StreamEngine::make(
    std::unique_ptr<Engine> inner, const std::vector<ServiceOptions>& services, uint32_t workers) {
  const std::shared_ptr<const Catalog> catalog = inner->catalog();
  auto engine = std::unique_ptr<StreamEngine>(new StreamEngine(std::move(inner)));
  for (const ServiceOptions& options : services) {
    ASSIGN_OR_RETURN(auto service, StreamService::make(options, *catalog, workers));
    engine->services_.push_back(std::move(service));
  }
  return engine;
}

// What is under way answers through the services.
StreamEngine::~StreamEngine() { inner_.reset(); }

StreamService* StreamEngine::find(std::string_view service) const {
  for (const auto& known : services_) {
    if (known->name() == service) return known.get();
  }
  return nullptr;
}

JobId StreamEngine::submit(InferRequest request, Reply reply) {
  StreamService* service = find(request.service);
  if (service == nullptr) {
    if (request.frame == nullptr) return inner_->submit(std::move(request), std::move(reply));
    // Of other services only the network time is of interest.
    request.frame.reset();
    return inner_->submit(std::move(request), std::move(reply));
  }
  bool answered = false;
  const Time arrival = request.arrival;
  const std::shared_ptr<const policy::StreamFrame> frame = request.frame;
  const absl::Status status = service->route(request, answered);
  if (!status.ok() || answered) {
    const bool invalid_call = status.code() == absl::StatusCode::kInvalidArgument;
    reply({.status = status,
           .model = service->name(),
           .version = "1",
           .id = request.id,
           .why = {.outcome = status.ok()    ? Outcome::kOnTime
                              : invalid_call ? Outcome::kInvalid
                                             : Outcome::kUnavailable},
           .stream = service->reply_to(frame.get(), arrival)});
    return JobId::none();
  }
  return inner_->submit(std::move(request), [service, frame, arrival,
                                             reply = std::move(reply)](ReplyPart part) mutable {
    part.model = service->name();
    part.version = std::string(1, '1');
    part.stream = service->reply_to(frame.get(), arrival);
    reply(std::move(part));
  });
}

std::shared_ptr<const Catalog> StreamEngine::catalog() const {
  const std::shared_ptr<const Catalog> inner = inner_->catalog();
  const std::scoped_lock lock(mutex_);
  if (inner != seen_) {
    auto joined = std::make_shared<Catalog>(*inner);
    for (const auto& service : services_) {
      std::erase_if(joined->services, [&](const auto& s) { return s->name == service->name(); });
      joined->services.push_back(service->face());
    }
    std::sort(joined->services.begin(), joined->services.end(),
              [](const auto& a, const auto& b) { return a->name < b->name; });
    joined_ = std::move(joined);
    seen_ = inner;
  }
  return joined_;
}

std::vector<ModelStatus> StreamEngine::index() const {
  std::vector<ModelStatus> rows = inner_->index();
  for (const auto& service : services_) {
    rows.push_back({service->name(), "1", ModelState::kReady, ""});
  }
  return rows;
}

std::vector<AdapterDecision> StreamEngine::adapter_decisions() const {
  return inner_->adapter_decisions();
}

std::vector<plan::StreamProblem> StreamEngine::last_stream_problems() const {
  std::vector<plan::StreamProblem> problems;
  for (const auto& service : services_) {
    if (auto problem = service->last_problem()) problems.push_back(*std::move(problem));
  }
  return problems;
}

void StreamEngine::close_streams(uint64_t owner) {
  for (const auto& service : services_) service->close(owner);
}

EngineSnapshot StreamEngine::snapshot() const {
  EngineSnapshot snapshot = inner_->snapshot();
  for (const auto& service : services_) snapshot.streams.push_back(service->statistics());
  return snapshot;
}

}  // namespace fermata::engine
