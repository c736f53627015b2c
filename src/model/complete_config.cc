#include <algorithm>
#include <limits>

#include "base/status.h"
#include "model/model_config.h"
#include "model/model_kind.h"

namespace fermata {
namespace {

constexpr std::string_view kAsPipeline = "; write it as a service of kind pipeline in fermata.yaml";

using inference::ModelConfig;

constexpr int32_t kMostItems = 65'536;  // of a batch: latency tables have an entry for each size

const FileTensor* named(const std::vector<FileTensor>& tensors, std::string_view name) {
  auto it = std::find_if(tensors.begin(), tensors.end(),
                         [name](const FileTensor& tensor) { return tensor.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

std::string names(const std::vector<FileTensor>& tensors) {
  std::string list;
  for (const FileTensor& tensor : tensors) {
    list += (list.empty() ? "" : ", ") + fmt::format("'{}'", tensor.name);
  }
  return list;
}

bool leads_free(const FileTensor& tensor) { return !tensor.shape.empty() && tensor.shape[0] == -1; }

constexpr std::string_view kLetsBatch = "; max_batch_size lets it batch";

std::string leads_fixed(std::string_view kind, const FileTensor& tensor) {
  return fmt::format("{} '{}' has shape {} in the model, whose first dimension is not free", kind,
                     tensor.name, to_string(tensor.shape));
}

// Why nothing in the file counts items; empty where a first dimension does. Exporters name the
// outputs' dimensions themselves, so that only those of the inputs tell.
std::string lacks_batch_dimension(const FileSignature& file) {
  if (file.inputs.empty()) return "it has no inputs";
  const FileTensor* first = nullptr;
  for (const FileTensor& input : file.inputs) {
    if (input.any_rank) {
      return fmt::format("input '{}' has no rank in the model{}", input.name, kLetsBatch);
    }
    if (!leads_free(input)) return leads_fixed("input", input);
    if (input.symbols.empty() || input.symbols[0].empty()) continue;
    if (first == nullptr) first = &input;
    if (input.symbols[0] == first->symbols[0]) continue;
    return fmt::format(
        "the first dimension of input '{}' is '{}' in the model, that of '{}' '{}'{}", first->name,
        first->symbols[0], input.name, input.symbols[0], kLetsBatch);
  }
  for (const FileTensor& output : file.outputs) {
    if (!output.any_rank && !leads_free(output)) return leads_fixed("output", output);
  }
  return {};
}

// Their values are not by items.
bool declares_defaults(const ModelConfig& config, const FileSignature& file) {
  return std::any_of(config.input().begin(), config.input().end(), [&file](const auto& input) {
    return named(file.defaults, input.name()) != nullptr;
  });
}

// What the declared tensors say where max_batch_size is left out: shapes of the
// file's own rank mean that the model does not batch.
bool declared_without_batch(const ModelConfig& config, const FileSignature& file) {
  return std::any_of(config.input().begin(), config.input().end(), [&file](const auto& input) {
    const FileTensor* tensor = named(file.inputs, input.name());
    return tensor != nullptr && !input.has_reshape() &&
           static_cast<size_t>(input.dims_size()) == tensor->shape.size();
  });
}

Shape item_shape(const FileTensor& tensor, bool batches) {
  return Shape(tensor.shape.begin() + (batches && !tensor.shape.empty() ? 1 : 0),
               tensor.shape.end());
}

// A free dimension on either side fits anything.
bool fits(const Shape& declared, const Shape& file) {
  return std::equal(declared.begin(), declared.end(), file.begin(), file.end(),
                    [](int64_t a, int64_t b) { return a == b || a == -1 || b == -1; });
}

absl::Status check_dims(const auto& tensor, std::string_view where) {
  for (int64_t dim : tensor.dims()) {
    if (dim != -1 && dim < 1) {
      return invalid("{}: dims has {}, expected -1 or a positive number", where, dim);
    }
  }
  if (!tensor.has_reshape()) return absl::OkStatus();
  const auto free_dims = [](const auto& dims) { return std::count(dims.begin(), dims.end(), -1); };
  const Shape from(tensor.dims().begin(), tensor.dims().end());
  const Shape to(tensor.reshape().shape().begin(), tensor.reshape().shape().end());
  const auto fixed = [](Shape dims) {
    std::replace(dims.begin(), dims.end(), int64_t{-1}, int64_t{1});
    return element_count(dims);
  };
  if (free_dims(from) != free_dims(to) || fixed(from) != fixed(to)) {
    return invalid("{}: reshape {} does not hold as many elements as dims {}", where, to_string(to),
                   to_string(from));
  }
  return absl::OkStatus();
}

absl::Status check_declared(const auto& tensor, const std::string& where) {
  if (!from_proto(tensor.data_type())) {
    return invalid("{}: data_type is {}, expected one of the protocol's", where,
                   inference::DataType_Name(tensor.data_type()));
  }
  return check_dims(tensor, where);
}

absl::Status check_tensor(const auto& tensor, std::string_view kind, bool batches,
                          const std::vector<FileTensor>& file,
                          const std::vector<FileTensor>& defaults = {}) {
  const std::string where = fmt::format("{} '{}'", kind, tensor.name());
  const FileTensor* found = named(file, tensor.name());
  if (found == nullptr) found = named(defaults, tensor.name());
  if (found == nullptr) return invalid("{} is not in the model, which has {}", where, names(file));
  if (tensor.data_type() != to_proto(found->datatype)) {
    return invalid("{}: data_type is {}, the model has {}", where,
                   inference::DataType_Name(tensor.data_type()),
                   inference::DataType_Name(to_proto(found->datatype)));
  }
  RETURN_IF_ERROR(check_dims(tensor, where));
  const auto& dims = tensor.has_reshape() ? tensor.reshape().shape() : tensor.dims();
  const Shape declared(dims.begin(), dims.end());
  if (found->any_rank) return absl::OkStatus();
  if (batches && !leads_free(*found)) {
    return invalid(
        "max_batch_size is set, but {} has shape {} in the model: its first dimension "
        "must be free",
        where, to_string(found->shape));
  }
  const Shape own = item_shape(*found, batches);
  if (!fits(declared, own)) {
    return invalid("{}: dims are {}, the model has {}{}", where, to_string(declared),
                   to_string(own), batches ? " after the batch dimension" : "");
  }
  return absl::OkStatus();
}

void add_missing(auto& tensors, bool batches, const std::vector<FileTensor>& file) {
  for (const FileTensor& tensor : file) {
    if (std::any_of(tensors.begin(), tensors.end(),
                    [&](const auto& known) { return known.name() == tensor.name; })) {
      continue;
    }
    auto* added = tensors.Add();
    added->set_name(tensor.name);
    added->set_data_type(to_proto(tensor.datatype));
    for (int64_t dim : item_shape(tensor, batches)) added->add_dims(dim);
  }
}

// What is not declared is held against max_batch_size too.
absl::Status check_leads(const auto& tensors, std::string_view kind,
                         const std::vector<FileTensor>& file) {
  for (const auto& tensor : tensors) {
    const FileTensor* found = named(file, tensor.name());
    if (found == nullptr || found->shape.empty() || found->shape[0] == -1) continue;
    return invalid(
        "max_batch_size is set, but {} '{}' has shape {} in the model: its first dimension must be "
        "free",
        kind, tensor.name(), to_string(found->shape));
  }
  return absl::OkStatus();
}

// What an entry leaves out comes from the file. No dims and no reshape: an entry that says nothing
// of its shape, which of a scalar is the same.
void fill_entries(auto& tensors, bool batches, const std::vector<FileTensor>& file) {
  for (auto& tensor : tensors) {
    const FileTensor* found = named(file, tensor.name());
    if (found == nullptr) continue;
    if (tensor.data_type() == inference::TYPE_INVALID) {
      tensor.set_data_type(to_proto(found->datatype));
    }
    if (!tensor.dims().empty() || tensor.has_reshape()) continue;
    for (int64_t dim : item_shape(*found, batches)) tensor.add_dims(dim);
  }
}

// Generators of configurations declare a scalar as [1], since they know no empty dims.
void let_ones_be_scalars(auto& tensors, bool batches, const std::vector<FileTensor>& file) {
  for (auto& tensor : tensors) {
    const FileTensor* found = named(file, tensor.name());
    if (found == nullptr || found->any_rank || tensor.has_reshape()) continue;
    if (!item_shape(*found, batches).empty()) continue;
    const bool one =
        tensor.dims_size() > 0 && std::all_of(tensor.dims().begin(), tensor.dims().end(),
                                              [](int64_t dim) { return dim == 1; });
    if (one) tensor.mutable_reshape();
  }
}

absl::Status check_unique(const auto& tensors, std::string_view kind) {
  for (auto it = tensors.begin(); it != tensors.end(); ++it) {
    if (std::any_of(tensors.begin(), it, [it](const auto& t) { return t.name() == it->name(); })) {
      return invalid("{} '{}' is declared twice", kind, it->name());
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool is_python(const ModelConfig& config) { return config.backend() == "python"; }

absl::StatusOr<ModelConfig> complete_python_config(ModelConfig config, std::string_view model) {
  RETURN_IF_ERROR(check_kind(config, model));
  config.set_name(std::string(model));
  config.set_platform("python");
  if (!config.has_max_batch_size()) config.set_max_batch_size(0);
  if (config.output().empty()) {
    return invalid("no output is declared, expected them here or from auto_complete_config");
  }
  RETURN_IF_ERROR(check_unique(config.input(), "input"));
  RETURN_IF_ERROR(check_unique(config.output(), "output"));
  for (const auto& input : config.input()) {
    RETURN_IF_ERROR(check_declared(input, fmt::format("input '{}'", input.name())));
  }
  for (const auto& output : config.output()) {
    RETURN_IF_ERROR(check_declared(output, fmt::format("output '{}'", output.name())));
  }
  return config;
}

absl::Status check_kind(const ModelConfig& config, std::string_view model) {
  if (!config.name().empty() && config.name() != model) {
    return invalid("name is '{}', but the folder is '{}'", config.name(), model);
  }
  const ModelKind& kind = kind_of(config);
  if (!config.platform().empty() && config.platform() != kind.platform) {
    return invalid("platform is '{}', expected {}{}", config.platform(), kind.platform,
                   config.platform() == "ensemble" ? kAsPipeline : "");
  }
  if (!config.backend().empty() && config.backend() != kind.backend) {
    return invalid("backend is '{}', expected {}", config.backend(), served_backends());
  }
  if (config.has_sequence_batching())
    return invalid("sequence_batching is not served: no state is kept between requests");
  if (config.has_ensemble_scheduling())
    return invalid("ensemble_scheduling is not served{}", kAsPipeline);
  if (config.model_transaction_policy().decoupled()) {
    return invalid("model_transaction_policy.decoupled is true, but every request gets one reply");
  }
  if (config.batch_input_size() > 0) return invalid("batch_input is not served");
  if (config.batch_output_size() > 0) return invalid("batch_output is not served");
  if (config.max_batch_size() < 0 || config.max_batch_size() > kMostItems) {
    return invalid("max_batch_size is {}, expected 0 to {}", config.max_batch_size(), kMostItems);
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelConfig> complete_model_config(ModelConfig config, const FileSignature& file,
                                                  std::string_view model,
                                                  uint32_t default_max_batch) {
  RETURN_IF_ERROR(check_kind(config, model));
  config.set_name(std::string(model));
  const ModelKind& kind = kind_of(config);
  config.set_platform(std::string(kind.platform));
  config.set_backend(std::string(kind.backend));
  if (!config.has_max_batch_size()) {
    const bool batches = lacks_batch_dimension(file).empty() &&
                         !declared_without_batch(config, file) && !declares_defaults(config, file);
    config.set_max_batch_size(batches ? static_cast<int32_t>(default_max_batch) : 0);
  }
  const bool batches = config.max_batch_size() > 0;
  RETURN_IF_ERROR(check_unique(config.input(), "input"));
  RETURN_IF_ERROR(check_unique(config.output(), "output"));
  fill_entries(*config.mutable_input(), batches, file.inputs);
  fill_entries(*config.mutable_input(), false, file.defaults);
  fill_entries(*config.mutable_output(), batches, file.outputs);
  let_ones_be_scalars(*config.mutable_input(), batches, file.inputs);
  let_ones_be_scalars(*config.mutable_output(), batches, file.outputs);
  for (const auto& input : config.input()) {
    RETURN_IF_ERROR(check_tensor(input, "input", batches, file.inputs, file.defaults));
  }
  for (const auto& output : config.output()) {
    RETURN_IF_ERROR(check_tensor(output, "output", batches, file.outputs));
  }
  add_missing(*config.mutable_input(), batches, file.inputs);
  if (config.output().empty()) add_missing(*config.mutable_output(), batches, file.outputs);
  if (batches) {
    RETURN_IF_ERROR(check_leads(config.input(), "input", file.inputs));
    RETURN_IF_ERROR(check_leads(config.output(), "output", file.outputs));
  }
  for (auto& input : *config.mutable_input()) {
    const FileTensor* found = named(file.inputs, input.name());
    input.set_optional(found == nullptr);
    if (batches && found != nullptr && found->shape.empty() && !found->any_rank) {
      return invalid("max_batch_size is set, but input '{}' is a scalar", input.name());
    }
    if (batches && found == nullptr) {
      return invalid(
          "max_batch_size is set, but input '{}' replaces an initializer, which all items of a "
          "batch share",
          input.name());
    }
  }
  return config;
}

std::string why_not_batching(const ModelConfig& written, const FileSignature& file) {
  const bool could = std::any_of(file.inputs.begin(), file.inputs.end(), [](const auto& input) {
    return input.any_rank || leads_free(input);
  });
  if (written.has_max_batch_size() || !could || declared_without_batch(written, file)) return {};
  if (declares_defaults(written, file)) return "it is given initializers, which have no items";
  return lacks_batch_dimension(file);
}

void lower_max_batch(ModelConfig& config, uint32_t most) {
  if (config.max_batch_size() < 1) return;
  config.set_max_batch_size(std::min(config.max_batch_size(), static_cast<int32_t>(most)));
}

}  // namespace fermata
