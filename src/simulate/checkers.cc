#include "simulate/checkers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

namespace fermata::simulate {
namespace {

constexpr Duration kTick = Duration::nanos(1);

double ms(Time t) { return (t - Time()).millis(); }

std::vector<std::shared_ptr<const LatencyTable>> tables(const Scenario& scenario) {
  std::vector<std::shared_ptr<const LatencyTable>> all;
  for (const SimulatedModel& m : scenario.models) {
    all.push_back(*LatencyTable::make(m.latency[0], m.max_batch));
  }
  return all;
}

struct Request {
  KeyId key;
  Time arrival, deadline;
  uint32_t ends = 0;
};
using Requests = std::unordered_map<uint64_t, Request>;

Requests requests(const Trace& trace) {
  Requests all;
  for (const TraceEvent& e : trace) {
    if (e.kind == TraceEvent::kArrived) all[e.job.value()] = {e.key, e.at, e.end};
  }
  return all;
}

// Calls visit(batch, its earliest deadline) for every batch.
template <class Visit>
void for_each_batch(const Trace& trace, const Requests& known, Visit visit) {
  for (size_t i = 0; i < trace.size(); ++i) {
    if (trace[i].kind != TraceEvent::kStarted) continue;
    Time earliest = Time::infinite();
    for (size_t j = i + 1; j < trace.size() && trace[j].kind == TraceEvent::kTaken; ++j) {
      earliest = std::min(earliest, known.at(trace[j].job.value()).deadline);
    }
    visit(trace[i], earliest);
  }
}

}  // namespace

Findings check_conservation(const Scenario& scenario, const Trace& trace) {
  Findings found;
  Requests known = requests(trace);
  for (const TraceEvent& e : trace) {
    if (e.kind != TraceEvent::kTaken && e.kind != TraceEvent::kDropped) continue;
    const auto request = known.find(e.job.value());
    if (request == known.end()) {
      found.push_back(fmt::format("request {} ended but never arrived", e.job.value()));
    } else if (++request->second.ends > 1) {
      found.push_back(
          fmt::format("request {} ended {} times", e.job.value(), request->second.ends));
    }
  }
  const Time end = Time() + scenario.warmup + scenario.duration;
  for (const auto& [job, request] : known) {
    if (request.ends == 0 && request.deadline < end) {
      found.push_back(fmt::format("request {} never ended", job));
    }
  }
  return found;
}

Findings check_workers(const Scenario& scenario, const Trace& trace) {
  Findings found;
  const auto latency = tables(scenario);
  std::vector<Time> busy_until(scenario.worker_count());
  for (const TraceEvent& e : trace) {
    if (e.kind != TraceEvent::kStarted) continue;
    Time& until = busy_until.at(e.worker.index());
    if (e.start < until) {
      found.push_back(fmt::format("worker {} starts a batch at {} ms while it runs one until {} ms",
                                  e.worker.value(), ms(e.start), ms(until)));
    }
    if (e.start < e.at) found.push_back(fmt::format("a batch starts before {} ms", ms(e.at)));
    if (e.end != e.start + (*latency[e.key.index()])(e.items)) {
      found.push_back(fmt::format("a batch of {} ends at {} ms", e.items, ms(e.end)));
    }
    until = e.end;
  }
  return found;
}

Findings check_batches(const Scenario& scenario, const Trace& trace) {
  Findings found;
  const auto latency = tables(scenario);
  const Requests known = requests(trace);
  for_each_batch(trace, known, [&](const TraceEvent& batch, Time earliest) {
    if (batch.items > latency[batch.key.index()]->max_batch()) {
      found.push_back(fmt::format("a batch of {} at {} ms", batch.items, ms(batch.start)));
    }
    if (batch.end > earliest) {
      found.push_back(
          fmt::format("a batch ends at {} ms, deadline {} ms", ms(batch.end), ms(earliest)));
    }
  });
  for (const TraceEvent& e : trace) {
    if (e.kind == TraceEvent::kTaken && known.at(e.job.value()).key != e.key) {
      found.push_back(fmt::format("request {} in a batch of another model", e.job.value()));
    }
  }
  return found;
}

Findings check_drops(const Scenario& scenario, const Trace& trace) {
  Findings found;
  const auto latency = tables(scenario);
  const Requests known = requests(trace);
  const bool bounded = scenario.network(1) == Duration();
  for (const TraceEvent& e : trace) {
    if (e.kind != TraceEvent::kDropped) continue;
    const Request& request = known.at(e.job.value());
    const Time alone = request.deadline - (*latency[e.key.index()])(e.items);
    if (e.at < request.arrival || (bounded && e.at > std::max(alone, request.arrival) + kTick)) {
      found.push_back(fmt::format("request {} dropped at {} ms, could start until {} ms",
                                  e.job.value(), ms(e.at), ms(alone)));
    }
  }
  return found;
}

Findings check_deferral(const Scenario& scenario, const Trace& trace) {
  Findings found;
  const auto latency = tables(scenario);
  for_each_batch(trace, requests(trace), [&](const TraceEvent& batch, Time earliest) {
    const LatencyTable& l = *latency[batch.key.index()];
    const Time latest = earliest - l(batch.items + 1);
    if (batch.items < l.max_batch() && batch.start < latest) {
      found.push_back(fmt::format("a batch of {} starts at {} ms, its latest start is {} ms",
                                  batch.items, ms(batch.start), ms(latest)));
    }
  });
  return found;
}

Findings check_work_conservation(const Scenario& scenario, const Trace& trace) {
  // Time goes on between two events: then either nothing waits or no worker idles.
  Findings found;
  std::vector<Time> free_at(scenario.worker_count());
  int64_t waiting = 0;
  Time last;
  const auto first_free = [&] { return *std::min_element(free_at.begin(), free_at.end()); };
  for (const TraceEvent& e : trace) {
    const Time idle_from = std::max(last, first_free());
    if (waiting > 0 && idle_from < e.at) {
      found.push_back(fmt::format("from {} ms to {} ms a worker idles while {} wait", ms(idle_from),
                                  ms(e.at), waiting));
    }
    last = e.at;
    if (e.kind == TraceEvent::kArrived) ++waiting;
    if (e.kind == TraceEvent::kTaken || e.kind == TraceEvent::kDropped) --waiting;
    if (e.kind == TraceEvent::kStarted) free_at[e.worker.index()] = e.end;
  }
  return found;
}

Findings check_always(const Scenario& scenario, const Trace& trace) {
  Findings all;
  for (const auto check : {check_conservation, check_workers, check_batches, check_drops}) {
    const Findings found = check(scenario, trace);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

}  // namespace fermata::simulate
