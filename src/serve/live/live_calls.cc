#include "serve/live/live_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "serve/http/http_front_end.h"
#include "serve/http/http_routes.h"
#include "serve/live/live_decisions.h"
#include "serve/live/live_json.h"
#include "serve/live/live_trace.h"
#include "tune/explain.h"
#include "tune/scenario.h"
#include "tune/setup.h"
#include "tune/what_if.h"

namespace fermata::serve {
namespace {

using engine::Outcome;
using tune::RecordedRequest;

constexpr size_t kLongestLiveQuestion = size_t{1} << 20;
constexpr int64_t kMostRequests = 500, kUsualRequests = 20;
constexpr std::string_view kRoot = "/v2/live/";

using Query = std::map<std::string, std::string>;

Query read_query(std::string_view target) {
  Query query;
  const size_t mark = target.find('?');
  if (mark == std::string_view::npos) return query;
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    query[decode_percent(pair.substr(0, equals))] =
        decode_percent(pair.substr(std::min(equals + 1, pair.size())));
  }
  return query;
}

absl::StatusOr<int64_t> number(const Query& query, const char* name, int64_t least, int64_t most,
                               int64_t usual) {
  const auto found = query.find(name);
  if (found == query.end()) return usual;
  int64_t value = 0;
  const std::string& text = found->second;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed == std::errc() && end == text.data() + text.size() && value >= least &&
      value <= most) {
    return value;
  }
  return invalid("{}: '{}', expected a number from {} to {}", name, text.substr(0, 40), least,
                 most);
}

std::string_view outcome_of(const RecordedRequest& request) {
  if (!request.ended()) return "running";
  switch (request.outcome) {
    case Outcome::kOnTime:
      return "on_time";
    case Outcome::kLate:
      return "late";
    case Outcome::kCancelled:
      return "cancelled";
    case Outcome::kFailed:
      return "failed";
    default:
      return "rejected";
  }
}

class RequestWriter {
 public:
  RequestWriter(const tune::Recording& recording, std::vector<tune::ServiceFacts> facts)
      : recording_(recording), explainer_(recording), facts_(std::move(facts)) {}

  const tune::Explainer& explainer() const { return explainer_; }
  Json write(const RecordedRequest& request) const {
    const std::string& service = recording_.service(request.service);
    const auto facts = std::find_if(facts_.begin(), facts_.end(),
                                    [&](const auto& each) { return each.name == service; });
    const bool known = facts != facts_.end();
    std::string by = recording_.model(request.model);
    if (known && request.subset != 0) by = tune::subset_name(facts->members, request.subset);
    Json spans = Json::array();
    for (const tune::Span& span : explainer_.spans(request)) {
      spans.push_back({{"name", name(span.kind)},
                       {"label", span.label},
                       {"service", span.service},
                       {"worker", span.worker ? Json(*span.worker) : Json(nullptr)},
                       {"batch", span.batch ? Json(*span.batch) : Json(nullptr)},
                       {"start_us", us_or_null(span.start)},
                       {"end_us", us_or_null(span.end)}});
    }
    const bool limited = !request.deadline.is_infinite();
    return {
        {"id", request.id.value()},
        {"client_id", request.client_id.empty() ? Json(nullptr) : Json(request.client_id.view())},
        {"service", service},
        {"kind", known ? name(facts->kind) : "stage"},
        {"items", request.items},
        {"arrival_us", us_or_null(request.arrival)},
        {"deadline_us", us_or_null(request.deadline)},
        {"end_us", us_or_null(request.end)},
        {"outcome", outcome_of(request)},
        {"reason", name(request.outcome)},
        {"sentence", explainer_.sentence(request)},
        {"answered_by", by},
        {"accuracy", request.accuracy > 0 ? Json(request.accuracy) : Json(nullptr)},
        {"budget_ms",
         limited ? Json((request.deadline - request.arrival).millis()) : Json(nullptr)},
        {"spans", std::move(spans)}};
  }

 private:
  const tune::Recording& recording_;
  const tune::Explainer explainer_;
  const std::vector<tune::ServiceFacts> facts_;
};

absl::Status not_recorded() {
  return error(absl::StatusCode::kFailedPrecondition,
               "nothing is recorded; say recorder: {{seconds: 60}} in fermata.yaml");
}

}  // namespace

void LiveCalls::request(HttpExchange exchange) {
  if (exchange.body().size() > kLongestLiveQuestion) {
    return exchange.respond(error_response(invalid("the body has {} bytes, expected at most {}",
                                                   exchange.body().size(), kLongestLiveQuestion)));
  }
  if (waiting_.fetch_add(1) >= kMostWaiting) {
    waiting_.fetch_sub(1);
    return exchange.respond(error_response(
        error(absl::StatusCode::kResourceExhausted,
              "{} questions wait for an answer already; ask again in a second", kMostWaiting)));
  }
  std::string_view path = exchange.target();
  path = path.substr(0, path.find('?'));
  Background& thread = path.ends_with("/what_if") ? simulations_ : background_;
  thread.post([this, exchange = std::move(exchange)]() mutable {
    give_way();
    auto text = answer(exchange.target(), exchange.body());
    HttpResponse response = text.ok() ? HttpResponse() : error_response(text.status());
    if (text.ok()) response.body = *std::move(text);
    response.headers.emplace_back("Cache-Control", "no-store");
    exchange.respond(std::move(response));
    waiting_.fetch_sub(1);
  });
}

absl::StatusOr<std::string> LiveCalls::answer(std::string_view target,
                                              std::string_view body) const {
  std::string_view path = target.substr(0, target.find('?'));
  while (path.ends_with('/')) path.remove_suffix(1);
  path.remove_prefix(std::min(path.find(kRoot) + kRoot.size(), path.size()));
  if (path == "decisions") {
    return live_text({{"decisions", decisions_json(last_decisions(engine_))},
                      {"tuning", tune::write_tuning(tuner_.status())}});
  }
  if (path.starts_with("decisions/")) return decision(path.substr(path.find('/') + 1));
  if (recorder_ == nullptr) return not_recorded();
  if (path == "requests") return requests(target);
  if (path.starts_with("requests/")) return one_request(path.substr(path.find('/') + 1));
  if (path == "what_if") return what_if(body);
  if (path == "trace") return trace_json(recording(recorder_->options().keep));
  return live_text(scenario(recorder_->options().keep));
}

tune::Recording LiveCalls::recording(Duration most) const {
  recorder_->collect();
  return recorder_->copy(most, engine_.now());
}

Json LiveCalls::scenario(Duration most) const {
  const engine::EngineSnapshot snapshot = engine_.snapshot();
  return tune::scenario_document(recording(most),
                                 {tuner_.followed(), *engine_.catalog(), snapshot.workers});
}

absl::StatusOr<std::string> LiveCalls::requests(std::string_view target) const {
  static constexpr std::string_view kPicks[] = {"latest", "slowest", "rejected", "late"};
  const Query query = read_query(target);
  ASSIGN_OR_RETURN(const int64_t limit, number(query, "limit", 1, kMostRequests, kUsualRequests));
  const auto found = query.find("pick"), of = query.find("service");
  const std::string pick = found == query.end() ? "latest" : found->second;
  if (std::find(std::begin(kPicks), std::end(kPicks), pick) == std::end(kPicks)) {
    return invalid("pick: '{}', expected latest, slowest, rejected or late", pick.substr(0, 40));
  }
  const tune::Recording recorded = recording(recorder_->options().keep);
  std::vector<const RecordedRequest*> picked;
  for (const RecordedRequest& request : recorded.requests) {
    const bool of_client = request.parent.is_none();
    if (!request.ended() || (of == query.end() && !of_client)) continue;
    if (of != query.end() && recorded.service(request.service) != of->second) continue;
    if (pick == "slowest" && !request.answered()) continue;
    if (pick == "late" && request.outcome != Outcome::kLate) continue;
    if (pick == "rejected" && outcome_of(request) != "rejected") continue;
    picked.push_back(&request);
  }
  const bool by_time = pick != "slowest";
  const auto before = [by_time](const auto* a, const auto* b) {
    return by_time ? a->end > b->end : a->end - a->arrival > b->end - b->arrival;
  };
  const size_t most = std::min(picked.size(), static_cast<size_t>(limit));
  std::partial_sort(picked.begin(), picked.begin() + static_cast<ptrdiff_t>(most), picked.end(),
                    before);
  picked.resize(most);
  const RequestWriter writer(recorded, tune::facts_of(options_, *engine_.catalog()));
  Json all = Json::array();
  for (const RecordedRequest* request : picked) all.push_back(writer.write(*request));
  return live_text({{"requests", std::move(all)}});
}

// By the server's number, else by what its client calls it.
absl::StatusOr<std::string> LiveCalls::one_request(std::string_view id) const {
  const std::string wanted = decode_percent(id);
  uint64_t value = 0;
  const auto [end, failed] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), value);
  const bool is_number = failed == std::errc() && end == wanted.data() + wanted.size();
  const tune::Recording recorded = recording(recorder_->options().keep);
  const RequestWriter writer(recorded, tune::facts_of(options_, *engine_.catalog()));
  const RecordedRequest* found = is_number ? writer.explainer().find(JobId(value)) : nullptr;
  const std::string kept = wanted.substr(0, tune::ShortText::kMost);
  for (const RecordedRequest& request : recorded.requests) {
    if (found == nullptr && !kept.empty() && request.client_id.view() == kept) found = &request;
  }
  if (found == nullptr) {
    return not_found("no request '{}' in the last {:.0f} s; GET /v2/live/requests lists some",
                     wanted.substr(0, 40), recorder_->options().keep.seconds());
  }
  return live_text({{"requests", Json::array({writer.write(*found)})}});
}

absl::StatusOr<std::string> LiveCalls::decision(std::string_view id) const {
  const std::string wanted = decode_percent(id);
  for (const Decided& each : last_decisions(engine_)) {
    if (each.id == wanted) return live_text(each.problem);
  }
  return not_found("no decision '{}'; GET /v2/live/decisions lists them", wanted.substr(0, 80));
}

absl::StatusOr<std::string> LiveCalls::what_if(std::string_view body) const {
  const Time began = engine_.now();
  ASSIGN_OR_RETURN(Document question, Document::parse(body.empty() ? "{}" : body));
  ASSIGN_OR_RETURN(const tune::Question asked, question.read(tune::read_question));
  const Duration most =
      std::min(asked.last.value_or(recorder_->options().keep), recorder_->options().keep);
  ASSIGN_OR_RETURN(Json answer, tune::what_if(scenario(most), asked.cases, asked.on_time));
  answer["took_ms"] = (engine_.now() - began).millis();
  return live_text(answer);
}

void LiveCalls::more_workers(Duration most, Told tell) {
  simulations_.post([this, most, tell = std::move(tell)]() mutable {
    give_way();
    const Time began = engine_.now();
    const Json document = scenario(std::min(most, recorder_->options().keep));
    auto answer = tune::what_if(document, tune::more_workers(document));
    const Duration took = engine_.now() - began;
    if (answer.ok()) {
      (*answer)["at_us"] = us_or_null(began);
      (*answer)["took_ms"] = took.millis();
    }
    tell(std::move(answer), took);
  });
}

}  // namespace fermata::serve
