#include "tune/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace fermata::tune {
namespace {

using engine::Outcome;

constexpr Duration kLongestRun = Duration::seconds(10);  // of a batch that may have been before it

std::string ms(Duration d) { return fmt::format("{:.1f} ms", d.millis()); }

std::string many(uint64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

}  // namespace

std::string_view name(Span::Kind kind) {
  switch (kind) {
    case Span::Kind::kNetwork:
      return "network";
    case Span::Kind::kFrontEnd:
      return "front_end";
    case Span::Kind::kQueue:
      return "queue";
    case Span::Kind::kHeld:
      return "held";
    case Span::Kind::kWorker:
      return "worker";
    case Span::Kind::kRun:
      return "run";
    case Span::Kind::kOperator:
      return "operator";
    case Span::Kind::kReply:
      break;
  }
  return "reply";
}

Explainer::Explainer(const Recording& recording) : recording_(recording) {
  for (const RecordedRequest& request : recording.requests) {
    requests_[request.id] = &request;
    if (!request.parent.is_none()) children_[request.parent].push_back(&request);
  }
  for (const RecordedBatch& batch : recording.batches) {
    for (const JobId id : batch.requests) {
      auto& own = batches_[id];
      if (own.empty() || own.back() != &batch) own.push_back(&batch);
    }
  }
  for (const RecordedOperator& ran : recording.operators) operators_[ran.request].push_back(&ran);
}

const RecordedRequest* Explainer::find(JobId id) const {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : found->second;
}

void Explainer::add_spans(const RecordedRequest& request, std::vector<Span>& spans) const {
  const std::string& service = recording_.service(request.service);
  const auto add = [&](Span::Kind kind, std::string label, Time start, Time end,
                       const RecordedBatch* batch = nullptr) {
    if (end <= start) return;
    Span& span = spans.emplace_back(Span{kind, std::move(label), service, {}, {}, start, end});
    if (batch == nullptr) return;
    span.batch = batch->id;
    if (kind == Span::Kind::kRun) span.worker = batch->worker;
  };
  const auto own = batches_.find(request.id);
  const Time until = request.ended() ? request.end : recording_.to;
  if (own == batches_.end()) {
    if (!request.has_parts) {
      add(Span::Kind::kHeld, fmt::format("waited in the queue of {}", service), request.submitted,
          until);
    }
    return;
  }
  const Time nominated = std::min(std::max(request.nominated, request.submitted), until);
  add(Span::Kind::kQueue, "came to the scheduler", request.submitted, nominated);
  for (const RecordedBatch* batch : own->second) {
    const Time start = batch->start.is_infinite() ? batch->expected_start : batch->start;
    const Time end = batch->end.is_infinite() ? recording_.to : batch->end;
    const Time wanted = std::clamp(batch->wanted, std::min(nominated, start), start);
    add(Span::Kind::kHeld, fmt::format("held for more requests of {}", service), nominated, wanted,
        batch);
    add(Span::Kind::kWorker, "waited for a worker", wanted, start, batch);
    add(Span::Kind::kRun,
        fmt::format("ran: {} x {} on worker {}", recording_.model(batch->model), batch->items,
                    batch->worker),
        start, end, batch);
  }
}

std::vector<Span> Explainer::spans(const RecordedRequest& request) const {
  std::vector<Span> spans;
  const std::string& service = recording_.service(request.service);
  const auto network = Duration::from_millis(request.network_ms);
  if (network > Duration()) {
    spans.push_back({Span::Kind::kNetwork,
                     "on its way here, as the client told",
                     service,
                     {},
                     {},
                     request.arrival - network,
                     request.arrival});
  }
  if (request.submitted > request.arrival) {
    spans.push_back({Span::Kind::kFrontEnd,
                     "read and checked",
                     service,
                     {},
                     {},
                     request.arrival,
                     request.submitted});
  }
  add_spans(request, spans);
  if (const auto own = children_.find(request.id); own != children_.end()) {
    for (const RecordedRequest* child : own->second) add_spans(*child, spans);
  }
  if (const auto own = operators_.find(request.id); own != operators_.end()) {
    for (const RecordedOperator* ran : own->second) {
      const std::string& stage = recording_.service(ran->service);
      const Time from = ran->from + ran->waited;
      if (ran->waited > Duration()) {
        spans.push_back({Span::Kind::kQueue,
                         fmt::format("{} waited for a thread", stage),
                         stage,
                         {},
                         {},
                         ran->from,
                         from});
      }
      if (ran->ran > Duration()) {
        spans.push_back({Span::Kind::kOperator,
                         fmt::format("ran: {}", stage),
                         stage,
                         {},
                         {},
                         from,
                         from + ran->ran});
      }
    }
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.start < b.start; });
  Time last = request.submitted;
  for (const Span& span : spans) last = std::max(last, span.end);
  if (request.answered() && request.end > last) {
    spans.push_back(
        {Span::Kind::kReply, "answers put together and sent", service, {}, {}, last, request.end});
  }
  return spans;
}

// From the end back: what ended last, then what ended last before that began. Where several went on
// until then, the one that ended there is what it waited for, not those that ran on beside it.
std::map<Span::Kind, Duration> critical_path(const std::vector<Span>& spans) {
  std::map<Span::Kind, Duration> sums;
  Time until = Time::infinite();
  while (true) {
    const Span* last = nullptr;
    for (const Span& span : spans) {
      if (span.start >= until) continue;
      const Time end = std::min(span.end, until);
      const Time latest = last == nullptr ? Time() : std::min(last->end, until);
      if (last == nullptr || end > latest || (end == latest && span.end < last->end)) last = &span;
    }
    if (last == nullptr) return sums;
    sums[last->kind] += std::min(last->end, until) - last->start;
    until = last->start;
  }
}

std::string Explainer::parts(const RecordedRequest& request) const {
  const std::map<Span::Kind, Duration> sums = critical_path(spans(request));
  std::vector<std::string> said;
  const auto say = [&](Span::Kind kind, std::string_view text) {
    const auto own = sums.find(kind);
    if (own != sums.end() && own->second >= Duration::micros(50))
      said.push_back(fmt::format("{} {}", ms(own->second), text));
  };
  say(Span::Kind::kHeld, "held for more requests");
  say(Span::Kind::kWorker, "waiting for a worker");
  say(Span::Kind::kRun, "running");
  say(Span::Kind::kOperator, "in operators");
  return said.empty() ? std::string() : fmt::format(": {}", fmt::join(said, ", "));
}

// Who ran, and how many of its own service waited, when it was rejected.
std::string Explainer::around(const RecordedRequest& request) const {
  std::map<std::string, uint32_t> running;
  std::set<uint32_t> workers;
  for (auto it = recording_.batches.rbegin(); it != recording_.batches.rend(); ++it) {
    if (it->bound > request.end) continue;
    if (it->bound < request.end - kLongestRun) break;
    if (it->end < request.end || !workers.insert(it->worker).second) continue;
    ++running[recording_.model(it->model)];
  }
  uint64_t waiting = 0;
  for (auto it = recording_.requests.rbegin(); it != recording_.requests.rend(); ++it) {
    if (it->arrival > request.end) continue;
    if (it->arrival < request.arrival - kLongestRun) break;
    const bool waits = it->end > request.end && (it->nominated.is_infinite() || it->batch == 0);
    waiting += waits && it->service == request.service && it->id != request.id ? 1 : 0;
  }
  std::vector<std::string> said;
  for (const auto& [model, count] : running)
    said.push_back(fmt::format("{} ran '{}'", many(count, "worker"), model));
  std::string text;
  if (!said.empty()) text = fmt::format(" At that moment {}.", fmt::join(said, ", "));
  if (waiting > 0)
    text += fmt::format(" {} of this service waited.", many(waiting, "other request"));
  return text;
}

std::string Explainer::rejection(const RecordedRequest& request) const {
  const Duration budget = request.deadline - request.arrival;
  const Duration left = request.deadline - request.end;
  if (request.run > budget) {
    return fmt::format(
        "Rejected: its budget was {}, and it runs {} even alone, so no worker could have saved it. "
        "Give it at least {}.",
        ms(budget), ms(request.run), ms(request.run.scaled(1.2)));
  }
  std::string text = fmt::format(
      "Rejected after {}, because it could no longer end in time: of its budget of {} there were "
      "{} left, and it needs {} to run",
      ms(request.end - request.arrival), ms(budget), ms(std::max(left, Duration())),
      ms(request.run));
  text += request.queueing > Duration()
              ? fmt::format(" after an expected wait of {}.", ms(request.queueing))
              : std::string(".");
  const Duration own = left - request.queueing - request.run;
  if (own > Duration()) {
    text += fmt::format(" The server allows more than {} for its own delay.", ms(own));
  }
  text += around(request);
  text +=
      " A longer deadline or fewer requests would have saved it; a what-if says whether more "
      "workers would.";
  return text;
}

std::string Explainer::sentence(const RecordedRequest& request) const {
  const std::string& service = recording_.service(request.service);
  const Duration took = request.end - request.arrival;
  if (!request.ended()) return "It is still under way.";
  switch (request.outcome) {
    case Outcome::kOnTime:
      if (request.deadline.is_infinite()) {
        return fmt::format("Answered after {}; it has no deadline{}.", ms(took), parts(request));
      }
      return fmt::format("Answered after {} of its budget of {}{}.", ms(took),
                         ms(request.deadline - request.arrival), parts(request));
    case Outcome::kLate:
      return fmt::format(
          "Answered {} late, after {}{}. Its run took longer, or began later, than "
          "was expected when it was started.",
          ms(request.end - request.deadline), ms(took), parts(request));
    case Outcome::kRejectedDeadline:
      return rejection(request);
    case Outcome::kRejectedQueue:
      return fmt::format(
          "Rejected because the queue of '{}' was full.{} Raise queue_limit, or send "
          "fewer requests.",
          service, around(request));
    case Outcome::kUnavailable:
      return fmt::format(
          "'{}' could not be served: its model was not loaded, or was unloaded. See "
          "the repository index for the reason.",
          service);
    case Outcome::kInvalid:
      return fmt::format(
          "It did not fit the inputs of '{}', or the model rejected their values; the reply says "
          "which.",
          service);
    case Outcome::kCancelled:
      return fmt::format("The client went away after {}{}.", ms(took), parts(request));
    case Outcome::kFailed:
      break;
  }
  return fmt::format("'{}' failed on it after {}{}; the reply says why.", service, ms(took),
                     parts(request));
}

}  // namespace fermata::tune
