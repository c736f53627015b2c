#include "plan/variants/group_tables.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/random.h"

namespace fermata::plan {
namespace {

double variance(std::span<const double> values) {  // of the population
  const auto count = static_cast<double>(values.size());
  double mean = 0, squares = 0;
  for (const double v : values) mean += v;
  mean /= count;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return squares / count;
}

}  // namespace

void GroupTables::prepare(const GroupProblem& problem) {
  problem_ = &problem;
  const bool sneakpeek = problem.policy == GroupPolicy::kSneakPeek;
  data_aware_ = problem.data_aware.value_or(sneakpeek);
  short_circuit_ = problem.short_circuit.value_or(sneakpeek);
  most_variants_ = 0;
  for (const GroupService& a : problem.services) {
    most_variants_ = std::max(most_variants_, static_cast<uint32_t>(a.variants.size()));
  }
  accuracy_.resize(problem.requests.size() * most_variants_);
  label_.assign(problem.requests.size(), 0);
  for (uint32_t r = 0; r < problem.requests.size(); ++r) believe(r);
  prioritise();
}

// Where no recall is known, as of a service that does not look at the data, labels say nothing
// of its variants, and splitting by them would only break batches.
void GroupTables::believe(uint32_t request) {
  const GroupRequest& r = problem_->requests[request];
  const GroupService& a = service(request);
  const bool by_data = data_aware_ && r.evidence.has_value() &&
                       absl::c_any_of(a.variants, [](const auto& v) { return !v.recall.empty(); });
  belief_.set(a.prior, by_data ? problem_->evidence_of(r) : std::span<const double>());
  if (const auto label = estimate::likely_class(belief_.theta())) {
    label_[request] = static_cast<uint32_t>(*label) + 1;
  }
  double* out = &accuracy_[size_t{request} * most_variants_];
  for (const GroupVariant& v : a.variants) *out++ = belief_.accuracy(v.accuracy, v.recall);
}

// The exponent counts from the earliest deadline instead of from now: that scales every
// priority alike and keeps the exponential in range however late or far deadlines are.
void GroupTables::prioritise() {
  Time earliest = Time::infinite();
  for (const GroupRequest& r : problem_->requests) earliest = std::min(earliest, r.deadline);
  priority_.resize(problem_->requests.size());
  for (uint32_t i = 0; i < priority_.size(); ++i) {
    const size_t variants = service(i).variants.size();
    const double spread =
        variance(std::span(accuracy_).subspan(size_t{i} * most_variants_, variants));
    const Duration later = problem_->requests[i].deadline - earliest;
    priority_[i] = (1 + spread) * portable_exp(-later.seconds());
  }
}

// Far deadlines underflow to priority 0; among those the earlier deadline has the higher one.
bool GroupTables::before(uint32_t a, uint32_t b) const {
  if (priority_[a] != priority_[b]) return priority_[a] > priority_[b];
  if (priority_[a] == 0) {
    const Time x = problem_->requests[a].deadline, y = problem_->requests[b].deadline;
    if (x != y) return x < y;
  }
  return a < b;
}

bool GroupTables::may_short_circuit(uint32_t request) const {
  return short_circuit_ && problem_->requests[request].evidence &&
         service(request).short_circuit.has_value();
}

double GroupTables::short_circuit_utility(uint32_t request) const {
  const GroupRequest& r = problem_->requests[request];
  const GroupService& a = service(request);
  return a.short_circuit->accuracy *
         (1 - a.penalty(r.deadline - r.arrival, problem_->now - r.arrival));
}

double GroupTables::utility(uint32_t request, uint32_t variant, Time finish) const {
  const GroupRequest& r = problem_->requests[request];
  const Penalty& penalty = service(request).penalty;
  return accuracy(request, variant) * (1 - penalty(r.deadline - r.arrival, finish - r.arrival));
}

void GroupTables::prepare_groups() {
  form_groups();
  sort_groups();
  split_large_groups();
}

void GroupTables::form_groups() {
  const auto& services = problem_->services;
  slot_base_.resize(services.size());
  uint32_t slots = 0;
  for (size_t a = 0; a < services.size(); ++a) {
    slot_base_[a] = slots;
    slots += static_cast<uint32_t>(services[a].prior.size()) + 1;
  }
  slots_.assign(slots, 0);
  groups_.clear();
  group_of_.resize(problem_->requests.size());
  const bool split = problem_->policy == GroupPolicy::kSneakPeek;
  for (uint32_t r = 0; r < group_of_.size(); ++r) {
    const uint32_t service = problem_->requests[r].service;
    uint32_t& slot = slots_[slot_base_[service] + (split ? label_[r] : 0)];
    if (slot == 0) {
      groups_.push_back({.service = service});
      slot = static_cast<uint32_t>(groups_.size());
    }
    group_of_[r] = slot - 1;
    RequestGroup& group = groups_[slot - 1];
    ++group.count;
  }
}

void GroupTables::sort_groups() {
  uint32_t first = 0;
  for (RequestGroup& g : groups_) {
    g.first = first;
    first += std::exchange(g.count, 0);
  }
  order_.resize(first);
  for (uint32_t r = 0; r < first; ++r) {
    RequestGroup& g = groups_[group_of_[r]];
    order_[g.first + g.count++] = r;
  }
  for (const RequestGroup& g : groups_) {
    const auto begin = order_.begin() + g.first;
    std::sort(begin, begin + g.count, [this](uint32_t a, uint32_t b) { return before(a, b); });
  }
}

void GroupTables::split_large_groups() {
  parts_.clear();
  for (const RequestGroup& g : groups_) {
    for (uint32_t done = 0; done < g.count;) {
      RequestGroup part = {.service = g.service, .first = g.first + done};
      part.count = std::min(problem_->max_group, g.count - done);
      done += part.count;
      for (const uint32_t r : requests_of(part)) {
        part.priority += priority_[r];
        part.short_circuit = part.short_circuit && may_short_circuit(r);
      }
      part.priority /= part.count;
      parts_.push_back(part);
    }
  }
  groups_.swap(parts_);
}

}  // namespace fermata::plan
