#include "pick/picker.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"

namespace fermata::pick {
namespace {

constexpr size_t kMostServices = 1024;      // whose weights are known; further ones have 1
constexpr uint32_t kMostAnswers = 1 << 16;  // that are counted of a service
constexpr double kWeightLearns = 0.05, kLightest = 1.0 / 64, kHeaviest = 64;
constexpr double kRefusedTakes = 1.5;  // times what answers take, at most: clients choose budgets
constexpr double kFailureLearns = 0.2;
constexpr double kFailureForgotten = 5;  // seconds until a failure counts half
constexpr double kFailureCosts = 10;     // budgets
constexpr Duration kTriedAgain =
    Duration::seconds(1);          // at the soonest, one that is stuck or refuses
constexpr double kPressure = 0.5;  // of the budget: from here on tenants share
constexpr Duration kLately = Duration::seconds(2);
constexpr double kPartOfProven = 1.0 / 16;  // of the last answers
constexpr double kPressureLearns = 0.02;
constexpr double kSure = 1.65;  // spreads: 95 of 100 answers take less
constexpr double kLateBy = 2;   // spreads beyond what was expected until a server is stuck

// Expected excess of a normal variable over `limit`.
double excess(double mean, double deviation, double limit) {
  if (deviation <= 0) return std::max(0.0, mean - limit);
  const double z = (limit - mean) / deviation;
  constexpr double kRootTwo = 1.4142135623730951, kDensity = 0.3989422804014327;
  const double above = std::erfc(z / kRootTwo) / 2;
  return std::max(0.0, deviation * (kDensity * std::exp(-z * z / 2) - z * above));
}

}  // namespace

void Picker::set_servers(const std::vector<std::string>& servers) {
  for (auto& [_, server] : servers_) server.there = false;
  for (const std::string& name : servers) servers_[name].there = true;
  // What is under way there still ends.
  std::erase_if(servers_,
                [](const auto& entry) { return !entry.second.there && entry.second.count == 0; });
}

std::vector<std::string> Picker::servers() const {
  std::vector<std::string> names;
  for (const auto& [name, server] : servers_) {
    if (server.there) names.push_back(name);
  }
  return names;
}

double Picker::weight_of(const std::string& service) const {
  const auto known = weights_.find(service);
  return known == weights_.end() ? 1 : known->second.value;
}

// Where there is no room, those with the fewest answers are forgotten: anyone may invent some.
void Picker::remember(const std::string& service) {
  if (weights_.size() >= kMostServices) {
    for (auto& [_, weight] : weights_) weight.answers /= 2;
    std::erase_if(weights_, [](const auto& entry) { return entry.second.answers == 0; });
  }
  if (weights_.size() < kMostServices) weights_.try_emplace(service);
}

Picker::Estimate Picker::estimate(const Server& server, Time now, double own, double budget,
                                  bool trusts) const {
  Estimate estimate{.seconds = server.time.expected(own, server.ahead)};
  if (trusts && !server.ends.empty() && server.ends.begin()->first < now) {
    estimate.seconds += (now - server.ends.begin()->first).seconds();
  }
  estimate.lateness = excess(estimate.seconds, server.time.spread() * estimate.seconds, budget);
  if (server.failing > 0 && server.failed) {
    const double since = (now - *server.failed).seconds() / kFailureForgotten;
    estimate.lateness += kFailureCosts * budget * server.failing * std::exp2(-since);
  }
  return estimate;
}

double Picker::Answers::as_of(Time now) const {
  return count * std::exp2(-(now - at).seconds() / kLately.seconds());
}

void Picker::Answers::add(Time now) {
  count = as_of(now) + 1;
  at = now;
}

// Looked for once in that time.
void Picker::forget_tenants(Time now) {
  if (now < forget_at_) return;
  forget_at_ = now + kLately;
  std::erase_if(tenants_, [this, now](const auto& entry) {
    const bool gone = entry.second.under_way == 0 && now - entry.second.asked > kLately;
    if (gone) proven_.erase(entry.first);
    return gone;
  });
}

void Picker::count_answer(const std::string& tenant, Time now) {
  Answers& own = tenants_.at(tenant).answers;
  own.add(now);
  answers_.add(now);
  if (own.count >= kPartOfProven * answers_.count) proven_.insert(tenant);
}

// O(1 / kPartOfProven) and those who are not proven any more, once each.
Picker::Standing Picker::standing(const std::string& tenant, Time now) {
  uint64_t others = sent_.size();  // under way of all who are not proven
  const double least = kPartOfProven * answers_.as_of(now);
  std::erase_if(proven_, [&](const std::string& name) {
    const Tenant& known = tenants_.at(name);
    if (known.answers.as_of(now) < least) return true;
    others -= known.under_way;
    return false;
  });
  const bool is_proven = proven_.contains(tenant);
  const uint64_t own = is_proven ? tenants_.at(tenant).under_way : others;
  const size_t shares = proven_.size() + (is_proven && others == 0 ? 0 : 1);
  if (shares == 1 || own * shares == sent_.size()) return Standing::kWithin;
  if (own == 0 && sent_.size() >= shares) return Standing::kNothing;
  return own * shares > sent_.size() ? Standing::kAbove : Standing::kBelow;
}

bool Picker::is_tried_again(const Server& server, Time now) {
  const Duration wait = std::max(kTriedAgain, Duration::from_seconds(server.time.alone()));
  return !server.ends.empty() && std::max(server.ends.begin()->first, server.sent) + wait < now;
}

// A moment ago: its requests are better off elsewhere.
bool Picker::is_refused(const Tenant& tenant, const std::string& server, Time now) {
  const auto last = tenant.refused.find(server);
  return last != tenant.refused.end() && now - last->second < kTriedAgain;
}

Picker::Choice Picker::choose(Time now, const Ask& ask, double own, bool idle) {
  Choice best{.server = servers_.end()};
  // That requests of others do not end may be their clients' doing: a tenant believes that a server
  // is stuck when one of its own should have ended.
  const auto tenant = tenants_.find(ask.tenant);
  const bool trusts = tenant != tenants_.end() && !tenant->second.ends.empty() &&
                      tenant->second.ends.begin()->first < now;
  const auto key = [](const Choice& of) {
    return std::tuple(of.estimate.lateness, of.estimate.seconds, of.server->second.ahead);
  };
  for (auto each = servers_.begin(); each != servers_.end(); ++each) {
    if (!each->second.there || (idle && each->second.count > 0)) continue;
    if (!ask.only.empty() && !absl::c_linear_search(ask.only, each->first)) continue;
    Choice here{each, estimate(each->second, now, own, ask.budget.seconds(), trusts)};
    if (tenant != tenants_.end() && is_refused(tenant->second, each->first, now)) {
      here.estimate.lateness += ask.budget.seconds();
    }
    if (best.server == servers_.end() || key(here) < key(best)) best = here;
  }
  return best;
}

Picker::Verdict Picker::pick(Time now, const Ask& ask) {
  const double own = weight_of(ask.service), budget = ask.budget.seconds();
  tenants_[ask.tenant].asked = now;
  forget_tenants(now);
  const Choice best = choose(now, ask, own, false);
  if (best.server == servers_.end()) return {.refused = Refusal::kNobody};
  // Whoever may be late costs nobody anything in a burst, but in overload who comes next.
  pressed_ += kPressureLearns * ((best.estimate.seconds > kPressure * budget) - pressed_);
  const double surely =
      best.estimate.seconds * (1 + kSure * pressed_ * best.server->second.time.spread());
  const Duration expected = Duration::from_seconds(surely);
  // Nothing is learned of a server to which nothing is sent: an idle one gets a request, however
  // slow it was, and one that is stuck gets one now and then.
  const Server& server = best.server->second;
  if (server.count == 0 || is_tried_again(server, now)) return send(best, now, ask, own, expected);
  std::optional<Refusal> refused;
  if (surely > kPressure * budget) {
    // That others' requests take long, or not as long as expected, may be their clients' doing: who
    // has less than its share is not refused for the latter, and who has nothing under way is sent.
    const Standing has = standing(ask.tenant, now);
    const double most = has == Standing::kBelow ? best.estimate.seconds : surely;
    if (most > budget && has != Standing::kNothing) {
      refused = Refusal::kSaturated;
    } else if (has == Standing::kAbove && best.estimate.seconds >= kPressure * budget) {
      refused = Refusal::kUnfair;
    }
  }
  if (!refused) return send(best, now, ask, own, expected);
  const Choice idle = choose(now, ask, own, true);
  if (idle.server != servers_.end()) return send(idle, now, ask, own, expected);
  return {.refused = refused, .expected = expected};
}

Picker::Verdict Picker::send(const Choice& to, Time now, const Ask& ask, double own,
                             Duration expected) {
  Server& server = to.server->second;
  const double alone = server.time.expected(own, server.ahead);
  const Time end = server.time.alone() + server.time.each() > 0
                       ? now + Duration::from_seconds(alone * (1 + kLateBy * server.time.spread()))
                       : Time::infinite();
  const uint64_t ticket = ++next_;
  sent_[ticket] = {to.server->first, ask.service, ask.tenant,  now, end,
                   ask.budget,       own,         server.ahead};
  server.ends.emplace(end, ticket);
  if (end < server.looked) server.late.insert(ticket);
  server.sent = now;
  server.ahead += own;
  ++server.count;
  Tenant& tenant = tenants_[ask.tenant];
  ++tenant.under_way;
  tenant.ends.emplace(end, ticket);
  return {.server = to.server->first, .ticket = ticket, .expected = expected};
}

void Picker::learn(Server& server, const Sent& sent, double seconds) {
  if (sent.own == 0) return;  // others passed it by: it waited for its client
  server.time.seen(sent.own, sent.ahead, seconds);
  if (server.time.alone() <= 0) return;
  const auto known = weights_.find(sent.service);
  if (known == weights_.end()) return remember(sent.service);
  Weight& weight = known->second;
  weight.answers = std::min(weight.answers + 1, kMostAnswers);
  if (weights_.size() == 1) return;  // all are alike
  const double here = (seconds - sent.ahead * server.time.each()) / server.time.alone();
  weight.value += kWeightLearns * (std::clamp(here, kLightest, kHeaviest) - weight.value);
}

// The server has answered this one: what came before and should have ended waits for something
// else, as for its client. Each is found late once and passed by once.
void Picker::pass_by(Server& server, uint64_t ticket, Time now) {
  for (auto each = server.ends.lower_bound({server.looked, 0});
       each != server.ends.end() && each->first < now; ++each) {
    server.late.insert(each->second);
  }
  server.looked = std::max(server.looked, now);
  while (!server.late.empty() && *server.late.begin() < ticket) {
    const uint64_t first = *server.late.begin();
    Sent& waits = sent_.at(first);
    server.ahead = std::max(0.0, server.ahead - std::exchange(waits.own, 0));
    server.ends.erase({waits.end, first});
    server.late.erase(server.late.begin());
  }
}

void Picker::ended(uint64_t ticket, Time now, End end) {
  const auto found = sent_.find(ticket);
  if (found == sent_.end()) return;
  const Sent sent = std::move(found->second);
  sent_.erase(found);
  Tenant& tenant = tenants_.at(sent.tenant);
  --tenant.under_way;
  tenant.ends.erase({sent.end, ticket});
  const auto at = servers_.find(sent.server);
  Server& server = at->second;
  server.ends.erase({sent.end, ticket});
  server.late.erase(ticket);
  server.ahead = --server.count == 0 ? 0 : std::max(0.0, server.ahead - sent.own);
  const double seconds = (now - sent.at).seconds();
  switch (end) {
    case End::kAnswered:
      if (sent.own > 0) server.answered.seen(sent.own, sent.ahead, seconds);
      learn(server, sent, seconds);
      count_answer(sent.tenant, now);
      server.failing *= 1 - kFailureLearns;
      pass_by(server, ticket, now);
      break;
    case End::kRefused: {  // it would have taken longer than there was time, which says no more
      const double most = kRefusedTakes * server.answered.expected(sent.own, sent.ahead);
      const double least = std::max(seconds, std::min(sent.budget.seconds(), most));
      if (least >= server.time.expected(sent.own, sent.ahead)) learn(server, sent, least);
      tenant.refused[sent.server] = now;  // others' requests may be in time
      break;
    }
    case End::kFailed:
      server.failing += kFailureLearns * (1 - server.failing);
      server.failed = now;
      break;
    case End::kGone:
      break;
  }
  if (!server.there && server.count == 0) servers_.erase(at);
}

}  // namespace fermata::pick
