#include "engine/composite/explain.h"

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

std::vector<Alternative> alternatives(const VariantsService& service,
                                      const estimate::Belief& belief, const PartRun& run) {
  std::vector<Alternative> all;
  for (size_t v = 0; v < service.variants.size(); ++v) {
    const Variant& variant = *service.variants[v];
    const policy::VariantInfo& known = service.info.variants[v];
    all.push_back({variant.model, belief.accuracy(known.accuracy, known.recall),
                   run_of(variant, run.batch_items, run.worker_type)});
  }
  return all;
}

// By what the decision knew.
std::string reason(const Explanation& why, const Alternative& best, const PartRun& run,
                   Time deadline) {
  const Choice& choice = run.choice;
  if (run.variant == nullptr) {
    return choice.at_last ? "no variant was worth more in the time that was left"
                          : "no variant is more often right on this data";
  }
  if (why.variant == best.variant) return "the most accurate for this data";
  if (choice.joined) return fmt::format("a batch of '{}' had room", why.variant);
  if (choice.start + best.run > deadline) {
    return fmt::format("'{}' would have been late by {:.1f} ms", best.variant,
                       (choice.start + best.run - deadline).millis());
  }
  if (!choice.price) return fmt::format("'{}' was planned for its group", why.variant);
  return fmt::format("worker time was too dear for '{}': {:.3g} a second", best.variant,
                     *choice.price);
}

std::string reason(const EnsembleService& ensemble, const policy::Concluded& how, bool more_adds) {
  if (how.failed != 0) return fmt::format("'{}' failed", ensemble.name_of(how.failed));
  if (how.at_last && how.ran != how.planned)
    return fmt::format("the deadline came: '{}' was planned", ensemble.name_of(how.planned));
  if (how.ran + 1 == ensemble.info.utility[0].size()) return "there was time for every base model";
  if (!more_adds) return "more base models add nothing to a query so easy";
  if (how.wanted == 0) return fmt::format("'{}' was planned", ensemble.name_of(how.planned));
  if (const plan::Subset missing = how.wanted & ~how.ran; missing != 0)
    return fmt::format("no time was left for '{}'", ensemble.name_of(missing));
  return "others needed the time more";
}

}  // namespace

void explain_choice(const VariantsService& service, const policy::Evidence& evidence,
                    const PartRun& run, Time deadline, Explanation& why) {
  estimate::Belief belief;
  belief.set(service.info.prior, std::span<const uint32_t>(evidence));
  const auto all = alternatives(service, belief, run);
  const auto best = absl::c_max_element(
      all, [](const Alternative& a, const Alternative& b) { return a.accuracy < b.accuracy; });
  why.reason = reason(why, *best, run, deadline);
  why.expected_accuracy = service.info.short_circuit.value_or(0);
  Json list = Json::array();
  for (const Alternative& each : all) {
    list.push_back(
        {{"variant", each.variant}, {"accuracy", each.accuracy}, {"run_ms", each.run.millis()}});
    if (each.variant == why.variant) why.expected_accuracy = each.accuracy;
  }
  why.alternatives = list.dump();
  if (!belief.theta().empty()) why.posterior = Json(belief.theta()).dump();
}

void explain_subset(const EnsembleService& ensemble, const EnsembleRun& run, Explanation& why) {
  why.variant = ensemble.name_of(run.how.ran);
  const bool known = run.difficulty.bin < ensemble.info.utility.size();
  const std::vector<double> accuracy =
      known ? ensemble.info.utility[run.difficulty.bin]
            : policy::mean_utility(ensemble.info.utility, ensemble.info.share);
  Json list = Json::array();
  for (plan::Subset s = 1; s < accuracy.size(); ++s) {
    list.push_back({{"subset", ensemble.name_of(s)}, {"accuracy", accuracy[s]}});
  }
  why.alternatives = list.dump();
  if (run.how.ran != 0) why.expected_accuracy = accuracy[run.how.ran];
  why.reason = reason(ensemble, run.how, why.expected_accuracy < accuracy.back());
  if (known) why.difficulty = run.difficulty.score;
}

}  // namespace fermata::engine
