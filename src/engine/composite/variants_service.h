#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/catalog.h"
#include "engine/composite/composite.h"
#include "engine/composite/evidence.h"
#include "engine/options.h"
#include "policy/variants/variants.h"

namespace fermata::engine {

// A service that any of several loaded variants may answer (SneakPeek); they share a signature.
struct VariantsService final : Composite {
  // What decisions know of them; keys are the scheduler's to fill in.
  policy::VariantsInfo info;
  EvidenceModel* evidence = nullptr;  // null: none; outlives every job

  // Whether this may be what the data of a request of so many items say: counts by class of each.
  bool fits(const std::vector<policy::Estimate>& by_item, uint32_t items) const;
  policy::ServiceInfo info_for(const std::vector<KeyId>& keys) const override;
  // The answer of the evidence model itself (5.3.1), for one item: the posterior where the
  // variants give scores by class, the likeliest class where they give a class. Only where
  // info.short_circuit is set, which it is not where they give anything else.
  std::vector<Tensor> short_circuit(const policy::Evidence& counts) const;
};

// Where neither its profile nor the service says how often a variant is right, and how to.
std::string unknown_accuracy(std::string_view model, std::string_view folder);

// `variants` in the order of the options; `answers` by model, for profiles that have none; `id` is
// the service's own. INVALID_ARGUMENT where they do not have the same inputs and outputs, or recall
// and evidence not the same classes.
absl::StatusOr<std::shared_ptr<const VariantsService>> make_variants_service(
    const ServiceOptions& options, std::vector<std::shared_ptr<const Variant>> variants,
    const std::map<std::string, AnswerProfile>& answers, EvidenceModel* evidence, VariantId id);

// How often a variant is right on the service's labelled data. Runs it there: blocks.
absl::StatusOr<AnswerProfile> try_out(const ServiceOptions& options,
                                      const std::shared_ptr<const Variant>& variant,
                                      ExecutorFactory& executors);

// Reads the training data and builds the neighbours' index: blocks. The extractor, if the
// options name one, is `extractor`. `variant`, if there is any yet, is one of the service's:
// INVALID_ARGUMENT where its requests do not have the input that is compared, or one of
// another size.
absl::StatusOr<std::unique_ptr<EvidenceModel>> make_evidence(
    const ServiceOptions& options, const Variant* variant, std::shared_ptr<const Variant> extractor,
    ExecutorFactory& executors);

}  // namespace fermata::engine
