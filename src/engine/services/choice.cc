// Services of kind variants and ensemble that have services among their members.
#include "absl/algorithm/container.h"
#include "base/status.h"
#include "engine/composite/ensemble_service.h"
#include "engine/composite/variants_service.h"
#include "engine/schedule/job.h"
#include "engine/services/pipeline.h"

namespace fermata::engine {
namespace {

// What is known of a member as a variant: of a service only what the options say.
std::shared_ptr<const Variant> as_variant(const Route& member, bool is_service) {
  if (!is_service) return member.variant;
  auto variant = std::make_shared<Variant>(*member.variant);
  variant->profile.answers = {};
  return variant;
}

absl::Status make_kind(const ServiceOptions& options, const ChoiceParts& parts,
                       std::vector<std::shared_ptr<const Variant>> variants, VariantId id,
                       Pipeline& made) {
  if (options.variants) {
    std::map<std::string, AnswerProfile> answers = *parts.answers;
    for (const auto& [name, accuracy] : options.variants->services) {
      answers[name].accuracy = accuracy;
    }
    ASSIGN_OR_RETURN(const auto service, make_variants_service(options, std::move(variants),
                                                               answers, parts.evidence, id));
    made.variants = service.get();
    made.choice = service;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto ensemble,
                   make_ensemble_service(options, std::move(variants), parts.ensemble, id));
  made.ensemble = ensemble.get();
  made.choice = ensemble;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Pipeline>> make_choice(const ServiceOptions& options,
                                                            const FindRoute& find, VariantId id,
                                                            double quantile,
                                                            const ChoiceParts& parts) {
  auto made = std::make_shared<Pipeline>();
  std::vector<std::shared_ptr<const Variant>> variants;
  for (const std::string& name : members_of(options)) {
    const std::shared_ptr<const Route> member = find(name);
    if (member == nullptr) {
      return error(absl::StatusCode::kUnavailable, "service '{}': its member '{}' is not served",
                   options.name, name);
    }
    const bool is_service = options.variants ? options.variants->services.contains(name)
                                             : options.ensemble->services.contains(name);
    variants.push_back(as_variant(*member, is_service));
    made->stages.push_back(stage_of(options.name, name, *member, quantile));
  }
  RETURN_IF_ERROR(make_kind(options, parts, variants, id, *made));
  made->public_model = made->choice->public_model;
  for (size_t m = 0; m < variants.size(); ++m) {
    const auto& inputs = variants[m]->signature.inputs;
    for (const TensorSpec& input : inputs) {
      made->stages[m].inputs.push_back({input.name, {.tensor = input.name}});
    }
    if (made->ensemble != nullptr) made->stages[m].outputs = made->ensemble->outputs[m];
  }
  return std::shared_ptr<const Pipeline>(std::move(made));
}

}  // namespace fermata::engine
