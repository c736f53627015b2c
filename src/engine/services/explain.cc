#include "engine/services/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "base/document.h"
#include "estimate/posterior.h"

namespace fermata::engine {
namespace {

struct Alternative {
  std::string_view variant;
  double accuracy = 0;
  Duration run;
};

Duration run_of(const Variant& variant, uint32_t items, uint32_t worker_type) {
  const LinearLatency& line = variant.profile_on(worker_type).linear.latency;
  return Duration::from_millis(line.alpha_ms * std::max(1u, items) + line.beta_ms);
}

std::vector<Alternative> alternatives(const Application& application,
                                      const estimate::Belief& belief, const PartRun& run) {
  std::vector<Alternative> all;
  for (size_t v = 0; v < application.variants.size(); ++v) {
    const Variant& variant = *application.variants[v];
    const policy::VariantInfo& known = application.info.variants[v];
    all.push_back({variant.model, belief.accuracy(known.accuracy, known.recall),
                   run_of(variant, run.batch_items, run.worker_type)});
  }
  return all;
}

std::string reason(const Explanation& why, const Alternative& best, const PartRun& run,
                   Time deadline) {
  if (run.variant == nullptr) return "no variant was worth more in the time that was left";
  if (why.variant == best.variant) return "the most accurate for this data";
  if (run.started + best.run > deadline) {
    return fmt::format("'{}' would have been late by {:.1f} ms", best.variant,
                       (run.started + best.run - deadline).millis());
  }
  return fmt::format("'{}' would have kept others waiting", best.variant);
}

// A base model that was left out and that would have been late behind those that ran.
const Variant* without_time(const Ensemble& ensemble, const PartRun& part, Time deadline) {
  for (size_t k = 0; k < ensemble.variants.size(); ++k) {
    const Variant& variant = *ensemble.variants[k];
    const bool ran = (part.ensemble->ran >> k & 1) != 0;
    if (!ran && part.started + part.run + run_of(variant, 1, part.worker_type) > deadline)
      return &variant;
  }
  return nullptr;
}

}  // namespace

void explain_choice(const Application& application, const policy::Evidence& evidence,
                    const PartRun& run, Time deadline, Explanation& why) {
  estimate::Belief belief;
  belief.set(application.info.prior, std::span<const uint32_t>(evidence));
  const auto all = alternatives(application, belief, run);
  const auto best = absl::c_max_element(
      all, [](const Alternative& a, const Alternative& b) { return a.accuracy < b.accuracy; });
  why.reason = reason(why, *best, run, deadline);
  why.expected_accuracy = application.info.short_circuit.value_or(0);
  Json list = Json::array();
  for (const Alternative& each : all) {
    list.push_back(
        {{"variant", each.variant}, {"accuracy", each.accuracy}, {"run_ms", each.run.millis()}});
    if (each.variant == why.variant) why.expected_accuracy = each.accuracy;
  }
  why.alternatives = list.dump();
  if (!belief.theta().empty()) why.posterior = Json(belief.theta()).dump();
}

void explain_subset(const Ensemble& ensemble, const PartRun& part, Time deadline,
                    Explanation& why) {
  const EnsembleRun& run = *part.ensemble;
  why.variant = ensemble.name_of(run.ran);
  const bool known = run.difficulty.bin < ensemble.info.utility.size();
  Json list = Json::array();
  double all = 0;
  for (plan::Subset s = 1; s < ensemble.info.utility[0].size(); ++s) {
    double accuracy = 0;
    for (size_t bin = 0; bin < ensemble.info.utility.size(); ++bin) {
      const double weight =
          known ? (bin == run.difficulty.bin ? 1.0 : 0.0) : ensemble.info.share[bin];
      accuracy += weight * ensemble.info.utility[bin][s];
    }
    list.push_back({{"subset", ensemble.name_of(s)}, {"accuracy", accuracy}});
    if (s == run.ran) why.expected_accuracy = accuracy;
    all = accuracy;  // the whole ensemble's comes last
  }
  why.alternatives = list.dump();
  if (run.ran != run.planned) {
    why.reason = fmt::format("the deadline came, or a base model failed: '{}' was planned",
                             ensemble.name_of(run.planned));
  } else if (run.ran + 1 == ensemble.info.utility[0].size()) {
    why.reason = "there was time for every base model";
  } else if (why.expected_accuracy >= all) {
    why.reason = "more base models add nothing to a query so easy";
  } else if (const Variant* slow = without_time(ensemble, part, deadline); slow != nullptr) {
    why.reason = fmt::format("no time was left for '{}'", slow->model);
  } else {
    why.reason = "others needed the time more";
  }
  if (known) why.difficulty = run.difficulty.score;
}

}  // namespace fermata::engine
