#include "policy/variants/variants_queue.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "policy/batch/instants.h"
#include "policy/lookahead/worker_time.h"

namespace fermata::policy {
namespace {

constexpr size_t kRecent = 32;  // requests that stand for those to come

}  // namespace

bool VariantsQueue::latency_changed(KeyId key) {
  bool changed = false;
  for (uint32_t a = 0; a < services_.size(); ++a) {
    const auto variant = variant_of(a, key);
    if (!variant) continue;
    problem_.services[a].variants[*variant].latency = pool_.info(key).latency.tables();
    changed = measure_fastest(a) || changed;
  }
  return changed;
}

std::optional<uint32_t> VariantsQueue::variant_of(uint32_t service, KeyId key) const {
  const auto& keys = services_[service].keys;
  const auto it = std::find(keys.begin(), keys.end(), key);
  if (it == keys.end()) return std::nullopt;
  return static_cast<uint32_t>(it - keys.begin());
}

bool VariantsQueue::measure_fastest(uint32_t service) {
  Duration least = Duration::infinite();
  for (const plan::GroupVariant& variant : problem_.services[service].variants) {
    for (const auto& latency : variant.latency) least = std::min(least, (*latency)(1));
  }
  return std::exchange(services_[service].fastest, least) != least;
}

void VariantsQueue::add_service(KeyId key, const VariantsInfo& info) {
  const auto at = static_cast<uint32_t>(services_.size());
  Service& known = services_.emplace_back();
  known.key = key;
  plan::GroupService& service = problem_.services.emplace_back();
  service = {.name = info.name, .penalty = info.penalty, .prior = info.prior};
  if (info.short_circuit)
    service.short_circuit = plan::ShortCircuit{"evidence", *info.short_circuit};
  for (const VariantInfo& variant : info.variants) {
    known.keys.push_back(variant.key);
    service.variants.push_back({pool_.residents().model_of(variant.key), variant.accuracy,
                                variant.recall, pool_.info(variant.key).latency.tables()});
  }
  service_of_[key] = at;
  (void)measure_fastest(at);
}

void VariantsQueue::remove(KeyId key) {
  FERMATA_CHECK(waiting_items(key) == 0);
  forget_service(service_of_.at(key));
  service_of_.erase(key);
}

// The last one takes its place. The last problem keeps what still means something.
void VariantsQueue::forget_service(uint32_t at) {
  const auto last = static_cast<uint32_t>(services_.size() - 1);
  auto& requests = problem_.requests;
  std::erase_if(requests, [at](const plan::GroupRequest& r) { return r.service == at; });
  if (at != last) {
    for (plan::GroupRequest& r : requests) r.service = r.service == last ? at : r.service;
    for (auto& [_, w] : waiting_) w.service = w.service == last ? at : w.service;
    service_of_[services_[last].key] = at;
    services_[at] = std::move(services_[last]);
    problem_.services[at] = std::move(problem_.services[last]);
  }
  services_.pop_back();
  problem_.services.pop_back();
  chosen_.clear();
}

VariantsQueue::Waiting& VariantsQueue::insert(const Task& task, Time now) {
  const uint32_t at = service_of_.at(task.key);
  Service& service = services_[at];
  service.rate.count(now, task.items);
  service.demand.count(task, now);
  service.waiting += task.items;
  if (!task.deadline.is_infinite()) ++urgent_, service.urgent += task.items;
  const auto [it, added] = waiting_.emplace(place_of(task), Waiting{task, at, {}});
  FERMATA_CHECK(added);
  return it->second;
}

void VariantsQueue::erase(Queue::iterator it) {
  const Waiting& w = it->second;
  Service& service = services_[w.service];
  service.waiting -= w.task.items;
  if (!w.task.deadline.is_infinite()) --urgent_, service.urgent -= w.task.items;
  remember(w);
  if (!w.moment.is_infinite()) due_.erase({w.moment, it->first});
  waiting_.erase(it);
}

void VariantsQueue::remember(const Waiting& w) {
  Service& known = services_[w.service];
  const auto variants = static_cast<uint32_t>(known.keys.size());
  const size_t at = variants * (known.gone++ % kRecent);
  known.recent.resize(std::max(known.recent.size(), at + variants));
  for (uint32_t v = 0; v < variants; ++v) known.recent[at + v] = accuracy(w, v);
}

double VariantsQueue::accuracy(const Waiting& w, uint32_t variant) {
  const plan::GroupService& service = problem_.services[w.service];
  const plan::GroupVariant& v = service.variants[variant];
  belief_.set(service.prior, std::span<const uint32_t>(w.evidence));
  return belief_.accuracy(v.accuracy, v.recall);
}

bool VariantsQueue::erase(const Task& task) {
  const auto it = waiting_.find(place_of(task));
  if (it == waiting_.end()) return false;
  erase(it);
  return true;
}

VariantsQueue::Waiting* VariantsQueue::find(const Task& task) {
  const auto it = waiting_.find(place_of(task));
  return it == waiting_.end() ? nullptr : &it->second;
}

VariantsQueue::Waiting* VariantsQueue::learned(const Task& task, Evidence evidence) {
  Waiting* waiting = find(task);
  if (waiting == nullptr) return nullptr;
  const size_t classes = problem_.services[waiting->service].prior.size();
  if (classes == 0 || evidence.size() != classes) return nullptr;
  waiting->evidence = std::move(evidence);
  return waiting;
}

uint64_t VariantsQueue::waiting_items(KeyId key) const {
  const auto it = service_of_.find(key);
  return it == service_of_.end() ? 0 : services_[it->second].waiting;
}

void VariantsQueue::set_moment(Waiting& waiting, Time moment) {
  if (moment == waiting.moment) return;
  const Place place = place_of(waiting.task);
  if (!waiting.moment.is_infinite()) due_.erase({waiting.moment, place});
  if (!moment.is_infinite()) due_.insert({moment, place});
  waiting.moment = moment;
}

Time VariantsQueue::first_moment() const {
  return due_.empty() ? Time::infinite() : due_.begin()->moment;
}

VariantsQueue::Waiting& VariantsQueue::first_due() { return waiting_.at(due_.begin()->place); }

double VariantsQueue::rate_rps(uint32_t service, Time now) {
  estimate::RateMeter& rate = services_[service].rate;
  if (rate.known()) rate.count(now, 0);
  return rate.per_second();
}

Outlook VariantsQueue::outlook(Time now) const {
  std::vector<Outlook> each;
  for (uint32_t a = 0; a < services_.size(); ++a) {
    const Service& known = services_[a];
    Duration share = known.fastest;
    for (const plan::GroupVariant& variant : problem_.services[a].variants) {
      for (const auto& latency : variant.latency) {
        share = std::min(share, share_of_batch(*latency, known.demand.slo()));
      }
    }
    each.push_back(known.demand.outlook(known.fastest, share));
  }
  return merged(each, now);
}

void VariantsQueue::add_pool(plan::GroupProblem& problem) const {
  problem.models = pool_.residents().models();
  auto& types = problem.worker_types;
  while (types.size() < pool_.types()) types.push_back(std::to_string(types.size()));
  problem.workers.clear();
}

void VariantsQueue::add_worker(WorkerId id, plan::GroupProblem& problem) const {
  plan::GroupWorker& worker = problem.workers.emplace_back();
  worker.name = std::to_string(id.value());
  worker.type = pool_.worker(id).type;
  worker.free_at = pool_.worker(id).free_at;
  pool_.residents().describe(id, worker);
}

plan::GroupProblem& VariantsQueue::problem(Time now, size_t most) {
  problem_.now = now;
  add_pool(problem_);
  for (uint32_t w = 0; w < pool_.workers().size(); ++w) {
    if (!pool_.workers()[w].away) add_worker(WorkerId(w), problem_);
  }
  add_requests(problem_, most);
  return problem_;
}

double VariantsQueue::seconds_on(uint32_t type) const {
  double sum = 0, variants = 0;
  for (const plan::GroupService& service : problem_.services) {
    for (const plan::GroupVariant& variant : service.variants) {
      sum += variant.on(type)(1).seconds();
      ++variants;
    }
  }
  return std::max(kTick.seconds(), sum / std::max(1.0, variants));
}

// Of another type the one that could answer next comes first: nothing else says whether a request
// is better off there.
void VariantsQueue::sort_others(WorkerId worker, Time start) {
  const auto& pool = pool_.workers();
  others_.clear();
  for (uint32_t w = 0; w < pool.size(); ++w) {
    if (w != worker.index() && !pool[w].away) others_.push_back(w);
  }
  std::stable_sort(others_.begin(), others_.end(), [&pool](uint32_t a, uint32_t b) {
    return std::pair(pool[a].type, pool[a].free_at) < std::pair(pool[b].type, pool[b].free_at);
  });
  const uint32_t own = pool[worker.index()].type;
  auto next = others_.end();
  double soonest = std::numeric_limits<double>::infinity();
  for (auto w = others_.begin(); w != others_.end(); ++w) {
    const WorkerView& other = pool[*w];
    if (other.type == own || (w != others_.begin() && pool[w[-1]].type == other.type)) continue;
    const double end = std::max(other.free_at - start, Duration()).seconds() + seconds_[other.type];
    if (end < soonest) soonest = end, next = w;
  }
  if (next != others_.end()) std::rotate(others_.begin(), next, next + 1);
}

void VariantsQueue::share(WorkerId worker, Time now, Time start, size_t workers, size_t most,
                          plan::GroupProblem& problem) {
  const auto& pool = pool_.workers();
  seconds_.resize(pool_.types());
  for (uint32_t type = 0; type < seconds_.size(); ++type) seconds_[type] = seconds_on(type);
  sort_others(worker, start);
  problem.now = start;
  problem.services = problem_.services;
  add_pool(problem);
  add_worker(worker, problem);
  problem.workers.front().free_at = start;
  const size_t beside = std::min(others_.size(), workers - 1);
  const size_t apart = beside > 0 && pool[others_[0]].type != pool[worker.index()].type ? 1 : 0;
  // Of what the granted one's type does in a second.
  const auto does = [&](uint32_t w) {
    return seconds_[pool[worker.index()].type] / seconds_[pool[w].type];
  };
  double part = 1, all = 1;
  for (const uint32_t w : others_) all += does(w);
  for (size_t i = 0; i < beside; ++i) {
    size_t place = 0;
    if (i >= apart) {  // the others evenly
      place = (2 * (i - apart) + 1) * (others_.size() - apart) / (2 * (beside - apart)) + apart;
    }
    const uint32_t w = others_[place];
    part += does(w);
    add_worker(WorkerId(w), problem);
    Time& free_at = problem.workers.back().free_at;
    free_at = std::max(free_at, start + Duration::nanos(1));
  }
  part /= all;
  problem.expected.clear();
  for (uint32_t a = 0; a < services_.size(); ++a) {
    const Service& known = services_[a];
    problem.expected.push_back({rate_rps(a, now) * part, known.demand.slo(),
                                static_cast<double>(known.urgent) * part, known.recent});
  }
  const double waiting = std::ceil(static_cast<double>(waiting_.size()) * part);
  add_requests(problem, std::min(most, static_cast<size_t>(waiting)));
}

void VariantsQueue::add_requests(plan::GroupProblem& problem, size_t most) {
  problem.requests.clear();
  problem.evidence.clear();
  chosen_.clear();
  auto first = waiting_.lower_bound({problem.now, JobId(0)});
  size_t ahead = 0, behind = 0;
  for (auto it = first; it != waiting_.end() && ahead < most; ++it) ++ahead;
  const size_t late = std::max(most / 3, most - ahead);
  // Whoever has waited longest for what is worth the same at any time goes first, or it might wait
  // for ever.
  const bool timeless = absl::c_any_of(
      problem.services, [](const auto& service) { return !service.penalty.depends_on_time(); });
  if (timeless) {
    for (auto it = waiting_.begin(); it != first && behind < late; ++it, ++behind) {
      add_request(problem, it->second);
    }
  } else {
    while (first != waiting_.begin() && behind < late) {
      --first;
      ++behind;
    }
    ahead += behind;
  }
  for (; problem.requests.size() < most && ahead > 0; ++first, --ahead) {
    add_request(problem, first->second);
  }
}

void VariantsQueue::add_request(plan::GroupProblem& problem, Waiting& w) {
  chosen_.push_back(&w);
  plan::GroupRequest& request = problem.requests.emplace_back();
  request.service = w.service;
  request.arrival = w.task.arrival;
  request.deadline =
      w.task.deadline.is_infinite() ? w.task.arrival + WorkerTime::kNoHurry : w.task.deadline;
  request.deadline = std::max(request.deadline, request.arrival + Duration::nanos(1));
  if (w.evidence.empty()) return;
  request.evidence = static_cast<uint32_t>(problem.evidence.size());
  problem.evidence.insert(problem.evidence.end(), w.evidence.begin(), w.evidence.end());
}

}  // namespace fermata::policy
