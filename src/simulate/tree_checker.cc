#include <fmt/format.h>

#include <map>
#include <set>

#include "simulate/checkers.h"

namespace fermata::simulate {
namespace {

// A request under way that has children: those of them that wait, or are open themselves.
struct Parent {
  Time arrival;
  std::set<uint64_t> waiting;
};

}  // namespace

Findings check_trees(const Scenario& scenario, const Trace& trace) {
  Findings found;
  std::map<uint64_t, Parent> open;
  std::map<uint64_t, uint64_t> parent_of;
  const auto say = [&found](const TraceEvent& e, std::string_view what) {
    found.push_back(fmt::format("request {} {}", e.job.value(), what));
  };
  for (const TraceEvent& e : trace) {
    const uint64_t job = e.job.value();
    const bool opens = e.kind == TraceEvent::kOpened;
    if ((opens || e.kind == TraceEvent::kArrived) && !e.parent.is_none()) {
      const auto parent = open.find(e.parent.value());
      if (parent == open.end()) {
        say(e, "is a child of one that is not open");
      } else {
        parent->second.waiting.insert(job);
        parent_of[job] = e.parent.value();
      }
    }
    if (opens && !open.emplace(job, Parent{e.at, {}}).second) say(e, "is opened twice");
    if (opens || e.kind == TraceEvent::kArrived || e.kind == TraceEvent::kStarted) continue;
    if (e.kind == TraceEvent::kClosed || e.kind == TraceEvent::kGivenUp) {
      const auto own = open.find(job);
      if (own == open.end()) {
        say(e, "ends and is not open");
        continue;
      }
      if (e.kind == TraceEvent::kClosed && !own->second.waiting.empty()) {
        say(e, fmt::format("is closed while its child {} waits", *own->second.waiting.begin()));
      }
      open.erase(own);
    }
    if (const auto place = parent_of.find(job); place != parent_of.end()) {
      if (const auto own = open.find(place->second); own != open.end()) {
        own->second.waiting.erase(job);
      }
    }
  }
  const Time from = Time() + scenario.warmup, until = from + scenario.duration;
  for (const auto& [job, own] : open) {
    if (own.arrival < from || own.arrival >= until) continue;
    found.push_back(fmt::format("request {} is never closed", job));
  }
  return found;
}

}  // namespace fermata::simulate
