#include "cluster/wire/offered.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace fermata::cluster {
namespace {

void write_tensors(const std::vector<TensorSpec>& specs,
                   google::protobuf::RepeatedPtrField<OfferedTensor>& to) {
  for (const TensorSpec& spec : specs) {
    OfferedTensor& tensor = *to.Add();
    tensor.set_name(spec.name);
    tensor.set_datatype(static_cast<uint32_t>(spec.datatype));
    for (const int64_t dim : spec.dims) tensor.add_dims(dim);
    tensor.set_optional(spec.optional);
    tensor.set_any_rank(spec.any_rank);
    for (const std::string& symbol : spec.symbols) tensor.add_symbols(symbol);
  }
}

void write_version(const engine::Variant& variant, OfferedVersion& to) {
  to.set_model(variant.model);
  to.set_version(variant.version);
  to.set_config(variant.config.SerializeAsString());
  to.set_batches(variant.signature.batches);
  to.set_max_batch(variant.signature.max_batch);
  write_tensors(variant.signature.inputs, *to.mutable_inputs());
  write_tensors(variant.signature.outputs, *to.mutable_outputs());
  if (variant.profile.measured()) to.set_profile(to_json(variant.profile));
  for (const auto& [output, classes] : variant.labels) {
    OfferedLabels& labels = *to.add_labels();
    labels.set_output(output);
    for (const std::string& name : classes) labels.add_classes(name);
  }
}

void write_row(const engine::ModelStatus& row, OfferedModel& to) {
  to.set_name(row.name);
  to.set_version(row.version);
  to.set_state(static_cast<uint32_t>(row.state));
  to.set_reason(row.reason);
}

absl::StatusOr<std::vector<TensorSpec>> read_tensors(
    const google::protobuf::RepeatedPtrField<OfferedTensor>& from) {
  std::vector<TensorSpec> specs;
  for (const OfferedTensor& tensor : from) {
    const bool named = tensor.symbols_size() == 0 || tensor.symbols_size() == tensor.dims_size();
    if (tensor.datatype() > static_cast<uint32_t>(DataType::kBytes) || !named) {
      return invalid("tensor '{}' of datatype {} with {} dimensions and {} names", tensor.name(),
                     tensor.datatype(), tensor.dims_size(), tensor.symbols_size());
    }
    TensorSpec& spec = specs.emplace_back();
    spec.name = tensor.name();
    spec.datatype = static_cast<DataType>(tensor.datatype());
    spec.dims.assign(tensor.dims().begin(), tensor.dims().end());
    spec.model_dims = spec.dims;
    spec.optional = tensor.optional();
    spec.any_rank = tensor.any_rank();
    spec.symbols.assign(tensor.symbols().begin(), tensor.symbols().end());
  }
  return specs;
}

absl::StatusOr<std::shared_ptr<const engine::Variant>> read_version(const OfferedVersion& from,
                                                                    uint32_t number) {
  auto variant = std::make_shared<engine::Variant>();
  variant->id = VariantId(number);
  variant->model = from.model();
  variant->version = from.version();
  if (!variant->config.ParseFromString(from.config())) {
    return invalid("model '{}': a configuration that cannot be read", from.model());
  }
  if (!from.profile().empty()) {
    ASSIGN_OR_RETURN(variant->profile,
                     parse_profile(from.profile(), fmt::format("model '{}'", from.model())));
  }
  variant->signature.batches = from.batches();
  variant->signature.max_batch = std::max(from.max_batch(), 1u);
  ASSIGN_OR_RETURN(variant->signature.inputs, read_tensors(from.inputs()));
  ASSIGN_OR_RETURN(variant->signature.outputs, read_tensors(from.outputs()));
  for (const OfferedLabels& labels : from.labels()) {
    variant->labels[labels.output()].assign(labels.classes().begin(), labels.classes().end());
  }
  return std::shared_ptr<const engine::Variant>(std::move(variant));
}

absl::StatusOr<std::vector<engine::ModelStatus>> read_rows(
    const google::protobuf::RepeatedPtrField<OfferedModel>& from) {
  std::vector<engine::ModelStatus> rows;
  for (const OfferedModel& row : from) {
    if (row.state() > static_cast<uint32_t>(engine::ModelState::kUnloading)) {
      return invalid("model '{}' in state {}", row.name(), row.state());
    }
    rows.push_back(
        {row.name(), row.version(), static_cast<engine::ModelState>(row.state()), row.reason()});
  }
  return rows;
}

}  // namespace

void write_models(const engine::ServedModels& models, Offered& to) {
  for (const auto& [name, model] : models) {
    OfferedModels& offered = *to.add_models();
    offered.set_name(name);
    offered.set_subcluster(model.subcluster);
    for (const auto& version : model.variants) write_version(*version, *offered.add_versions());
  }
}

void write_rows(const engine::Engine& engine, Offered& to) {
  for (const engine::ModelStatus& row : engine.index()) write_row(row, *to.add_index());
  for (const engine::ModelStatus& row : engine.unserved()) write_row(row, *to.add_unserved());
}

absl::StatusOr<Offer> read_offered(const Offered& from, uint32_t division) {
  Offer offer;
  uint32_t number = division * kMostVersions;
  for (const OfferedModels& each : from.models()) {
    engine::ServedModel model{.subcluster = each.subcluster()};
    for (const OfferedVersion& version : each.versions()) {
      if (number - division * kMostVersions >= kMostVersions) {
        return invalid("more than {} versions", kMostVersions);
      }
      ASSIGN_OR_RETURN(model.variants.emplace_back(), read_version(version, number++));
    }
    if (!offer.models.emplace(each.name(), std::move(model)).second) {
      return invalid("model '{}' stands there twice", each.name());
    }
  }
  ASSIGN_OR_RETURN(offer.index, read_rows(from.index()));
  ASSIGN_OR_RETURN(offer.unserved, read_rows(from.unserved()));
  return offer;
}

}  // namespace fermata::cluster
