#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "pick/response_time.h"

namespace fermata::pick {

// Which server of several gets a request, and whether any can answer it in time, by what a gateway
// sees: what it has sent to whom, and when the answers came. Pure; one thread at a time.
class Picker {
 public:
  struct Ask {
    std::string service;            // whose requests take about as long as each other
    std::string tenant;             // whose requests share what there is; anyone may invent some
    Duration budget;                // from now to when the answer is of use
    std::vector<std::string> only;  // of these servers; empty: of all
  };
  enum class Refusal {
    kNobody,     // no server is known, or none that is asked for
    kSaturated,  // none is sure enough to answer in time
    kUnfair,     // more is under way of its tenant than its share, and others wait
  };
  struct Verdict {
    std::optional<Refusal> refused;
    std::string server;  // else
    uint64_t ticket = 0;
    Duration expected;  // until the answer of the best server, which 95 of 100 are not beyond
  };
  enum class End {
    kAnswered,
    kRefused,  // by the server, since it has too much to do
    kFailed,   // another way
    kGone,     // nobody waits any longer
  };

  // Who there is from now on. Of servers that stay, what is known is kept.
  void set_servers(const std::vector<std::string>& servers);
  std::vector<std::string> servers() const;
  Verdict pick(Time now, const Ask& ask);
  // Of a request that was sent; once.
  void ended(uint64_t ticket, Time now, End end);

  uint64_t under_way() const { return sent_.size(); }

 private:
  struct Server {
    ResponseTime time;
    ResponseTime answered;  // the same without what was refused
    double ahead = 0;       // weight under way
    uint64_t count = 0;     // requests under way
    // When they should have ended, with their tickets; without those that hold up nobody.
    std::set<std::pair<Time, uint64_t>> ends;
    std::set<uint64_t> late;     // tickets of those in `ends` that come before `looked`
    Time looked;                 // at `ends`, for what is late
    Time sent;                   // the last one
    double failing = 0;          // share of the last answers that failed
    std::optional<Time> failed;  // last
    bool there = true;
  };
  struct Sent {
    std::string server, service, tenant;
    Time at, end;
    Duration budget;
    double own = 0, ahead = 0;
  };
  struct Estimate {
    double seconds = 0, lateness = 0;
  };

  struct Choice {
    std::map<std::string, Server>::iterator server;  // the end: none
    Estimate estimate = {};
  };

  // The one with the least expected lateness; `idle`: of those that have nothing to do.
  Choice choose(Time now, const Ask& ask, double own, bool idle);
  Verdict send(const Choice& to, Time now, const Ask& ask, double own, Duration expected);
  // `trusts`: what should have ended long ago may hold up what comes after it.
  Estimate estimate(const Server& server, Time now, double own, double budget, bool trusts) const;
  static bool is_tried_again(const Server& server, Time now);
  enum class Standing { kNothing, kBelow, kWithin, kAbove };  // its share of what is under way
  Standing standing(const std::string& tenant, Time now);
  void count_answer(const std::string& tenant, Time now);
  void forget_tenants(Time now);
  double weight_of(const std::string& service) const;
  void remember(const std::string& service);
  void learn(Server& server, const Sent& sent, double seconds);
  void pass_by(Server& server, uint64_t ticket, Time now);

  std::map<std::string, Server> servers_;
  struct Weight {
    double value = 1;      // times as long as the mean
    uint32_t answers = 1;  // half as many each time that others needed the room
  };
  std::map<std::string, Weight> weights_;  // by service
  // Answers, of which the older count less.
  struct Answers {
    double as_of(Time now) const;
    void add(Time now);
    double count = 0;
    Time at;
  };
  struct Tenant {
    uint64_t under_way = 0;
    Time asked;  // last
    Answers answers;
    std::set<std::pair<Time, uint64_t>> ends;  // as a server's
    std::map<std::string, Time> refused;       // by server: the last time
  };
  static bool is_refused(const Tenant& tenant, const std::string& server, Time now);
  std::map<std::string, Tenant> tenants_;  // that have asked lately, or have something under way
  // Those who have a share each, since they have had a good part of the answers; all others have
  // one share together, however many names they give themselves.
  std::set<std::string> proven_;
  Answers answers_;     // of all
  double pressed_ = 0;  // share of the last requests of which half of the time would be gone
  Time forget_at_;
  std::map<uint64_t, Sent> sent_;
  uint64_t next_ = 0;
};

}  // namespace fermata::pick
