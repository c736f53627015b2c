#include "cluster/frontend/frontend_streams.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "base/clock.h"
#include "base/status.h"
#include "cluster/wire/stream_messages.h"
#include "engine/deadline.h"

namespace fermata::cluster {
namespace {

static_assert(kMostDivisions <= 64);
constexpr Duration kTellOperators = Duration::seconds(1);
constexpr Duration kSilence = Duration::seconds(60);  // long after its clients are forgotten

bool is_offered(const Offer& offer, const std::string& service) {
  return absl::c_any_of(offer.index, [&service](const engine::ModelStatus& row) {
    return row.name == service && row.state == engine::ModelState::kReady;
  });
}

}  // namespace

FrontendStreams::All::const_iterator FrontendStreams::find(const All& all,
                                                           const std::string& service) {
  return absl::c_find_if(all, [&](const Served& each) { return each.face->name() == service; });
}

std::vector<std::shared_ptr<const engine::Service>> FrontendStreams::serve(
    const engine::Catalog& catalog, const std::vector<const Offer*>& offers) {
  std::vector<std::shared_ptr<const engine::Service>> seen;
  auto served = std::make_shared<All>();
  const auto before = served_.read();
  for (const engine::ServiceOptions& service : services_) {
    const auto by = absl::c_find_if(
        offers, [&service](const Offer* offer) { return is_offered(*offer, service.name); });
    std::shared_ptr<const engine::StreamFace> known;
    if (auto face = engine::StreamFace::make(service, catalog); face.ok()) {
      known = std::make_shared<const engine::StreamFace>(*std::move(face));
    } else if (const auto last = find(*before, service.name); last != before->end()) {
      known = last->face;  // one that is unloaded leaves the others serving
    }
    if (by == offers.end() || known == nullptr) {
      seen.push_back(engine::StreamFace::waiting(service, catalog));
      continue;
    }
    seen.push_back(known->service());
    served->push_back({std::move(known), static_cast<uint32_t>(by - offers.begin())});
  }
  served_.publish(std::move(served));
  return seen;
}

bool FrontendStreams::route(JobId id, engine::InferRequest& request, engine::Reply& reply) {
  const auto all = served_.read();
  const auto known = find(*all, request.service);
  if (known == all->end()) {
    request.frame.reset();  // of other services only the network time is of interest
    return true;
  }
  const std::shared_ptr<const engine::StreamFace>& face = known->face;
  if (request.frame == nullptr) {
    face->pass_on(request);
    reply = [face, reply = std::move(reply)](engine::ReplyPart part) mutable {
      face->sign(part);
      reply(std::move(part));
    };
    return true;
  }
  const policy::StreamFrame& frame = *request.frame;
  if (absl::Status wrong = policy::StreamSessions::check_id(frame); !wrong.ok()) {
    reply(face->ended(std::move(wrong), request.id, face->reply_to_stranger(request.arrival)));
    return false;
  }
  if (!request.inputs.empty()) face->read_tensors(request);
  const uint64_t owner = frame.owner;
  request.timeout.reset();  // its client's objective counts
  HeldRequests::Request held{
      .variant = face->service()->versions.back(), .stream = face, .division = known->division};
  held.deadline = engine::deadline_of(request, frame.slo ? frame.slo : face->slo());
  held.reply = [face, arrival = request.arrival,
                reply = std::move(reply)](engine::ReplyPart part) mutable {
    if (part.stream == nullptr) part.stream = face->reply_to_stranger(arrival);
    reply(std::move(part));
  };
  held.request = std::move(request);
  host_.hold(id, std::move(held));
  // It may have closed meanwhile, or before: then it is silent from now on.
  const std::lock_guard lock(mutex_);
  Owner& of = owners_[owner];
  of.divisions |= uint64_t{1} << known->division;
  of.spoke = monotonic_now();
  return false;
}

void FrontendStreams::directed(const Directed& said) {
  auto held = requests_.take_frame(said.key());
  if (!held) return;
  hand_on(said, *std::move(held));
  if (requests_.let_go(said.key())) host_.cancel(JobId(said.key()));
}

void FrontendStreams::hand_on(const Directed& said, HeldRequests::Request held) {
  engine::InferRequest request = std::move(held.request);
  auto read = read_directed(said);
  if (!read.ok()) read = engine::StreamDirection{.status = internal("{}", message(read.status()))};
  const engine::StreamDirection& direction = *read;
  const auto told = [arrival = request.arrival, advice = direction.advice] {
    return std::make_shared<const engine::StreamReply>(
        engine::StreamReply{advice, monotonic_now() - arrival});
  };
  held.bytes = HeldBytes();  // which the variant counts
  if (direction.service.empty()) {
    return held.reply(held.stream->ended(direction.status, request.id, told()));
  }
  request.service = direction.service;
  request.timeout = direction.timeout;
  request.network_time = direction.network_time;
  request.start_from = request.arrival + direction.start_after;
  request.frame.reset();
  host_.submit(
      JobId(said.key()), std::move(request),
      [face = held.stream, told, reply = std::move(held.reply)](engine::ReplyPart part) mutable {
        face->sign(part);
        part.stream = told();
        reply(std::move(part));
      });
}

void FrontendStreams::close(uint64_t owner) {
  uint64_t divisions = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto known = owners_.find(owner);
    if (known == owners_.end()) return;
    divisions = known->second.divisions;
    owners_.erase(known);
  }
  for (uint32_t division = 0; division < kMostDivisions; ++division) {
    if ((divisions >> division & 1) == 0) continue;
    host_.say(division, [owner](Asked& asked) {
      asked.add_closed(owner);
      return sizeof(owner);
    });
  }
}

void FrontendStreams::close_silent(Time now) {
  std::vector<uint64_t> silent;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [owner, known] : owners_) {
      if (now - known.spoke > kSilence) silent.push_back(owner);
    }
  }
  for (const uint64_t owner : silent) close(owner);
}

void FrontendStreams::tell_operators(Time now, absl::FunctionRef<Duration(const std::string&)> of) {
  if (now - told_operators_ < kTellOperators) return;
  told_operators_ = now;
  close_silent(now);
  for (const Served& each : *served_.read()) {
    std::vector<Duration> by_variant;
    bool any = false;
    for (size_t v = 0; v < each.face->variants(); ++v) {
      by_variant.push_back(of(each.face->variant(v)));
      any = any || by_variant.back() > Duration();
    }
    if (!any) continue;
    OperatorTimes times;
    write_operators(each.face->name(), by_variant, times);
    host_.say(each.division, [&times](Asked& asked) {
      *asked.add_operators() = times;
      return times.ByteSizeLong();
    });
  }
}

}  // namespace fermata::cluster
