#include "simulate/checkers.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

namespace fermata::simulate {
namespace {

constexpr Duration kTick = Duration::nanos(1);

double ms(Time t) { return (t - Time()).millis(); }

// What a trace's key stands for: a model, a variant, or a variants service.
struct Thing {
  LatencyByType latency;  // of nothing: a variants service or ensemble
  Duration load;
  double memory_mb = 0;
  std::vector<uint32_t> answers;  // keys whose batches may answer its requests
  const SimulatedVariants* variants = nullptr;
  const SimulatedEnsemble* ensemble = nullptr;

  // What costs nothing to load is always there.
  bool loadable() const { return load > Duration() || memory_mb > 0; }
};

// Workers are numbered group by group.
const WorkerGroup& group_of(const Scenario& scenario, WorkerId worker, uint32_t& type) {
  uint32_t before = 0;
  for (type = 0; before + scenario.workers[type].count <= worker.value(); ++type) {
    before += scenario.workers[type].count;
  }
  return scenario.workers[type];
}

std::vector<Thing> things(const Scenario& scenario) {
  std::vector<Thing> all;
  for (const SimulatedModel& m : scenario.models) {
    const auto own = static_cast<uint32_t>(all.size());
    all.push_back({.latency = *LatencyByType::make(m.latency, m.max_batch), .answers = {own}});
  }
  // A variant's batches answer its service's requests, and those for it alone, as plans name it.
  const auto add = [&all](const std::vector<SimulatedVariant>& variants, Thing thing) {
    if (has_services(variants)) return;  // which come last, as pipelines do, and run nothing
    for (const SimulatedVariant& v : variants) {
      const auto own = static_cast<uint32_t>(all.size());
      thing.answers.push_back(static_cast<uint32_t>(v.model.value_or(own)));
      if (v.model) continue;
      all.push_back({*LatencyByType::make(v.latency, v.max_batch), v.load, v.memory_mb, {own}});
    }
    all.push_back(std::move(thing));
  };
  for (const SimulatedVariants& a : scenario.variants) add(a.variants, {.variants = &a});
  for (const SimulatedEnsemble& e : scenario.ensembles) add(e.models, {.ensemble = &e});
  return all;
}

// What one worker holds, the least recently used first.
class Memory {
 public:
  // Whether the thing has to be loaded to run now.
  bool use(uint32_t key, const std::vector<Thing>& all, double memory_mb, double resident_mb) {
    if (memory_mb == 0 || !all[key].loadable()) return false;
    const bool load = std::find(held_.begin(), held_.end(), key) == held_.end();
    held_.remove(key);
    double used = resident_mb + all[key].memory_mb;
    for (const uint32_t other : held_) used += all[other].memory_mb;
    while (load && used > memory_mb && !held_.empty()) {
      used -= all[held_.front()].memory_mb;
      held_.pop_front();
    }
    held_.push_back(key);
    return load;
  }

 private:
  std::list<uint32_t> held_;
};

Duration fastest(const std::vector<Thing>& all, const Thing& thing, uint32_t items) {
  Duration least = Duration::infinite();
  for (const uint32_t key : thing.answers) least = std::min(least, all[key].latency.fastest(items));
  return least;
}

// But for those that end in a batch.
bool ends_request(const TraceEvent& e) {
  return e.kind == TraceEvent::kDropped || e.kind == TraceEvent::kShortCircuited ||
         e.kind == TraceEvent::kConcluded || e.kind == TraceEvent::kWithdrawn;
}

bool ends(const TraceEvent& e, const std::vector<Thing>& all) {
  if (e.kind == TraceEvent::kTaken) return all[e.key.index()].ensemble == nullptr;
  return ends_request(e);
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
  const auto all = things(scenario);
  Requests known = requests(trace);
  for (const TraceEvent& e : trace) {
    if (!ends(e, all)) continue;
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
    const bool measured = request.arrival >= Time() + scenario.warmup && request.arrival < end;
    const bool due =
        request.deadline < end && scenario.variants.empty() && scenario.ensembles.empty();
    if (request.ends == 0 && (measured || due)) {
      found.push_back(fmt::format("request {} never ended", job));
    }
  }
  return found;
}

Findings check_workers(const Scenario& scenario, const Trace& trace) {
  Findings found;
  const auto all = things(scenario);
  std::vector<Time> busy_until(scenario.worker_count());
  std::vector<Memory> memory(scenario.worker_count());
  double weights_mb = 0, run_mb = 0;  // of the models
  for (const SimulatedModel& m : scenario.models) {
    weights_mb += m.static_mb;
    run_mb = std::max(run_mb, m.dynamic_mb);
  }
  for (const TraceEvent& e : trace) {
    if (e.kind != TraceEvent::kStarted) continue;
    Time& until = busy_until.at(e.worker.index());
    if (e.start < until) {
      found.push_back(fmt::format("worker {} starts a batch at {} ms while it runs one until {} ms",
                                  e.worker.value(), ms(e.start), ms(until)));
    }
    if (e.start < e.at) found.push_back(fmt::format("a batch starts before {} ms", ms(e.at)));
    const Thing& thing = all.at(e.key.index());
    if (thing.latency.tables().empty()) {
      found.push_back(fmt::format("a batch of an application at {} ms", ms(e.start)));
      continue;
    }
    uint32_t type = 0;
    const WorkerGroup& group = group_of(scenario, e.worker, type);
    const bool load =
        memory[e.worker.index()].use(e.key.value(), all, group.memory_mb, weights_mb + run_mb);
    if (thing.loadable() && load != e.load) {
      found.push_back(fmt::format("a batch at {} ms {} its variant", ms(e.start),
                                  load ? "does not load" : "loads"));
    }
    if (e.end != e.start + thing.latency.on(type)(e.items) + (load ? thing.load : Duration())) {
      found.push_back(fmt::format("a batch of {} ends at {} ms", e.items, ms(e.end)));
    }
    until = e.end;
  }
  return found;
}

Findings check_batches(const Scenario& scenario, const Trace& trace) {
  Findings found;
  const auto all = things(scenario);
  const Requests known = requests(trace);
  const TraceEvent* batch = nullptr;
  for (const TraceEvent& e : trace) {
    if (e.kind == TraceEvent::kStarted) {
      batch = &e;
      if (e.items > all.at(e.key.index()).latency.slowest()->max_batch()) {
        found.push_back(fmt::format("a batch of {} at {} ms", e.items, ms(e.start)));
      }
    } else if (e.kind == TraceEvent::kTaken) {
      const auto& answers = all.at(known.at(e.job.value()).key.index()).answers;
      if (std::find(answers.begin(), answers.end(), batch->key.value()) == answers.end()) {
        found.push_back(fmt::format("request {} in a batch of another model", e.job.value()));
      }
    }
  }
  return found;
}

Findings check_deadlines(const Scenario& scenario, const Trace& trace) {
  Findings found;
  const auto all = things(scenario);
  const Requests known = requests(trace);
  for (const TraceEvent& e : trace) {
    if (e.kind != TraceEvent::kTaken && e.kind != TraceEvent::kShortCircuited) continue;
    const Request& request = known.at(e.job.value());
    if (all.at(request.key.index()).ensemble != nullptr) continue;
    const SimulatedVariants* a = all.at(request.key.index()).variants;
    if (a != nullptr && e.kind == TraceEvent::kTaken) continue;
    const bool may_be_late = a != nullptr && !a->penalty.depends_on_time();
    if (!may_be_late && e.end > request.deadline) {
      found.push_back(fmt::format("request {} ends at {} ms, deadline {} ms", e.job.value(),
                                  ms(e.end), ms(request.deadline)));
    }
  }
  return found;
}

Findings check_short_circuits(const Scenario& scenario, const Trace& trace) {
  Findings found;
  const auto all = things(scenario);
  const Requests known = requests(trace);
  for (const TraceEvent& e : trace) {
    if (e.kind != TraceEvent::kShortCircuited) continue;
    const Request& request = known.at(e.job.value());
    const SimulatedVariants* a = all.at(request.key.index()).variants;
    if (a == nullptr || !a->short_circuit || e.at < request.arrival + a->evidence_delay) {
      found.push_back(fmt::format("request {} short-circuited at {} ms", e.job.value(), ms(e.at)));
    }
  }
  return found;
}

Findings check_drops(const Scenario& scenario, const Trace& trace) {
  Findings found;
  const auto all = things(scenario);
  const Requests known = requests(trace);
  const bool bounded = scenario.network(1) == Duration() && scenario.delays.start == nullptr;
  for (const TraceEvent& e : trace) {
    if (e.kind != TraceEvent::kDropped) continue;
    const Request& request = known.at(e.job.value());
    const Thing& thing = all.at(request.key.index());
    Time alone = request.deadline - fastest(all, thing, e.items);
    if (thing.variants && thing.variants->penalty.shape != plan::PenaltyShape::kStep) {
      alone = alone + (request.deadline - request.arrival);
    }
    if (thing.variants && thing.variants->short_circuit) {
      alone = std::max(alone, request.deadline);  // its evidence could have come until then
    }
    if (e.at < request.arrival || (bounded && e.at > std::max(alone, request.arrival) + kTick)) {
      found.push_back(fmt::format("request {} dropped at {} ms, could start until {} ms",
                                  e.job.value(), ms(e.at), ms(alone)));
    }
  }
  return found;
}

Findings check_deferral(const Scenario& scenario, const Trace& trace) {
  Findings found;
  const auto all = things(scenario);
  for_each_batch(trace, requests(trace), [&](const TraceEvent& batch, Time earliest) {
    const LatencyTable& l = *all[batch.key.index()].latency.slowest();
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
  const auto all = things(scenario);
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
    if (ends(e, all)) --waiting;
    if (e.kind == TraceEvent::kStarted) free_at[e.worker.index()] = e.end;
  }
  return found;
}

Findings check_ensembles(const Scenario& scenario, const Trace& trace) {
  struct Query {
    std::set<uint32_t> taken, done;  // models' keys
    bool ended = false;
  };
  Findings found;
  const auto all = things(scenario);
  const Requests known = requests(trace);
  std::unordered_map<uint64_t, Query> queries;
  std::map<std::pair<Time, uint64_t>, std::pair<uint64_t, uint32_t>> ends;  // of running tasks
  const auto land = [&](Time now) {
    while (!ends.empty() && ends.begin()->first.first <= now) {
      const auto [job, key] = ends.begin()->second;
      queries[job].done.insert(key);
      ends.erase(ends.begin());
    }
  };
  const TraceEvent* batch = nullptr;
  uint64_t tasks = 0;
  for (const TraceEvent& e : trace) {
    if (e.kind == TraceEvent::kStarted) batch = &e;
    if (e.kind != TraceEvent::kTaken && !ends_request(e)) continue;
    const Request& request = known.at(e.job.value());
    const Thing& thing = all.at(request.key.index());
    if (thing.ensemble == nullptr) continue;
    Query& query = queries[e.job.value()];
    if (query.ended) found.push_back(fmt::format("query {} goes on after its end", e.job.value()));
    if (e.kind == TraceEvent::kTaken) {
      if (!query.taken.insert(batch->key.value()).second) {
        found.push_back(fmt::format("query {} runs twice on one model", e.job.value()));
      }
      ends[{batch->end, tasks++}] = {e.job.value(), batch->key.value()};
      continue;
    }
    query.ended = true;
    if (e.kind == TraceEvent::kWithdrawn) continue;
    land(e.at);
    if (e.kind == TraceEvent::kDropped) {
      if (!query.taken.empty()) {
        found.push_back(fmt::format("query {} dropped while it runs", e.job.value()));
      }
      if (thing.ensemble->serve_all) {
        found.push_back(fmt::format("query {} dropped, though all are served", e.job.value()));
      }
      continue;
    }
    std::set<uint32_t> said;
    for (size_t k = 0; k < thing.answers.size(); ++k) {
      if ((e.items >> k & 1) != 0) said.insert(thing.answers[k]);
    }
    if (said.empty() || said != query.done) {
      found.push_back(
          fmt::format("query {} is answered by models that have not ended, or without "
                      "some that have",
                      e.job.value()));
    }
    if (e.at > request.deadline && said.size() > 1 && !thing.ensemble->serve_all) {
      found.push_back(fmt::format("query {} was not answered at its deadline", e.job.value()));
    }
  }
  return found;
}

Findings check_always(const Scenario& scenario, const Trace& trace) {
  Findings all;
  for (const auto check : {check_conservation, check_workers, check_batches, check_deadlines,
                           check_drops, check_short_circuits, check_ensembles, check_trees}) {
    const Findings found = check(scenario, trace);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

}  // namespace fermata::simulate
