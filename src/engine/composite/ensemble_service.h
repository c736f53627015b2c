#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/composite/composite.h"
#include "engine/composite/ensemble_model.h"
#include "engine/options.h"
#include "model/tensor.h"
#include "policy/ensemble/ensemble.h"

namespace fermata::engine {

// A service that loaded variants answer together, or some of them (Schemble).
struct EnsembleService final : Composite {
  policy::EnsembleInfo info;  // keys are the scheduler's to fill in
  std::vector<std::string> names;
  EnsembleModel* model = nullptr;  // outlives every job
  // By variant: the output that counts, and where its inputs are among the public model's.
  std::vector<std::vector<std::string>> outputs;
  std::vector<std::vector<uint32_t>> inputs;
  bool same_inputs = true;  // every variant's are the public model's

  policy::ServiceInfo info_for(const std::vector<KeyId>& keys) const override;
  // What the variant gets of a request's inputs, which are in the public model's order.
  std::vector<Tensor> inputs_of(uint32_t variant, const std::vector<Tensor>& all) const;
  std::string name_of(plan::Subset subset) const;  // "a+b"
};

// `variants` in the order of the options; `id` is the service's own. INVALID_ARGUMENT where they
// batch differently, give outputs of other shapes, or share an input that differs; where
// their inputs are not all the same, shapes must be fixed.
absl::StatusOr<std::shared_ptr<const EnsembleService>> make_ensemble_service(
    const ServiceOptions& options, std::vector<std::shared_ptr<const Variant>> variants,
    EnsembleModel* model, VariantId id);

}  // namespace fermata::engine
