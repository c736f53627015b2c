#include "engine/composite/ensemble_service.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "estimate/subset.h"
#include "model/model_config.h"

namespace fermata::engine {
namespace {

// Adds the variant's inputs to those of the public model.
absl::Status add_inputs(const std::string& service, const Variant& variant, Signature& seen,
                        std::vector<uint32_t>& places) {
  for (const TensorSpec& input : variant.signature.inputs) {
    const auto known =
        absl::c_find_if(seen.inputs, [&](const TensorSpec& i) { return i.name == input.name; });
    places.push_back(static_cast<uint32_t>(known - seen.inputs.begin()));
    if (known == seen.inputs.end()) {
      seen.inputs.push_back(input);
    } else if (known->datatype != input.datatype || known->dims != input.dims) {
      return invalid("service '{}': input '{}' of model '{}' differs from another's", service,
                     input.name, variant.model);
    }
  }
  return absl::OkStatus();
}

absl::Status check_output(const std::string& service, const EnsembleOptions& options,
                          const Variant& variant, const Variant& first, std::string& name) {
  name = options.output.empty() ? variant.signature.outputs.front().name : options.output;
  const std::string& wanted =
      options.output.empty() ? first.signature.outputs.front().name : options.output;
  const TensorSpec* output = variant.signature.output(name);
  const TensorSpec* expected = first.signature.output(wanted);
  if (output == nullptr) {
    return invalid("service '{}': model '{}' has no output '{}'", service, variant.model, name);
  }
  if (output->datatype == DataType::kBytes || output->dims != expected->dims) {
    return invalid("service '{}': output '{}' of model '{}' has shape {}, that of '{}' has {}",
                   service, name, variant.model, to_string(output->dims), first.model,
                   to_string(expected->dims));
  }
  if (variant.signature.batches != first.signature.batches) {
    return invalid("service '{}': of models '{}' and '{}' only one batches", service, variant.model,
                   first.model);
  }
  return absl::OkStatus();
}

}  // namespace

policy::ServiceInfo EnsembleService::info_for(const std::vector<KeyId>& keys) const {
  policy::EnsembleInfo known = info;
  known.models = keys;
  return known;
}

std::vector<Tensor> EnsembleService::inputs_of(uint32_t variant,
                                               const std::vector<Tensor>& all) const {
  std::vector<Tensor> own;
  for (const uint32_t place : inputs[variant]) {
    if (place < all.size()) own.push_back(all[place]);
  }
  return own;
}

std::string EnsembleService::name_of(plan::Subset subset) const {
  return estimate::name(subset, names);
}

absl::StatusOr<std::shared_ptr<const EnsembleService>> make_ensemble_service(
    const ServiceOptions& options, std::vector<std::shared_ptr<const Variant>> variants,
    EnsembleModel* model, VariantId id) {
  const EnsembleOptions& own = *options.ensemble;
  auto ensemble = std::make_shared<EnsembleService>();
  const Variant& first = *variants.front();
  auto public_model = make_public_model(options.name, first, id);
  public_model->signature.inputs.clear();
  bool fixed = true;
  for (const auto& variant : variants) {
    std::string output;
    RETURN_IF_ERROR(check_output(options.name, own, *variant, first, output));
    const uint64_t width = element_count(variant->signature.output(output)->dims);
    if (width > 0 && width != model->width()) {  // 0: a dimension is free
      return invalid("service '{}': model '{}' gives {} numbers, those of its profile have {}",
                     options.name, variant->model, width, model->width());
    }
    RETURN_IF_ERROR(add_inputs(options.name, *variant, public_model->signature,
                               ensemble->inputs.emplace_back()));
    ensemble->outputs.push_back({output});
    ensemble->names.push_back(variant->model);
    fixed = fixed && variant->signature.fixed_shape() &&
            absl::c_none_of(variant->signature.inputs, [](const auto& i) { return i.optional; });
    public_model->signature.max_batch =
        std::max(public_model->signature.max_batch, variant->signature.max_batch);
  }
  for (const auto& places : ensemble->inputs) {
    ensemble->same_inputs = ensemble->same_inputs &&
                            places.size() == public_model->signature.inputs.size() &&
                            absl::c_is_sorted(places);
  }
  if (!ensemble->same_inputs && !fixed) {
    return invalid(
        "service '{}': models with different inputs need inputs of fixed shapes, none of them "
        "optional",
        options.name);
  }
  public_model->signature.outputs = {model->output()};
  set_signature(public_model->signature, public_model->config);
  const estimate::SubsetProfile& profile = model->profile();
  policy::EnsembleInfo& info = ensemble->info;
  info.name = options.name;
  info.utility = profile.utilities;
  const double queries = static_cast<double>(absl::c_accumulate(profile.counts, uint64_t{0}));
  for (const uint64_t count : profile.counts) {
    info.share.push_back(static_cast<double>(count) / queries);
  }
  info.serve_all = own.serve_all;
  for (const std::string& name : own.fixed) {
    const auto at = absl::c_find(own.models, name) - own.models.begin();
    info.fixed |= estimate::only(static_cast<uint32_t>(at));
  }
  ensemble->model = model;
  ensemble->public_model = std::move(public_model);
  ensemble->variants = std::move(variants);
  return ensemble;
}

}  // namespace fermata::engine
