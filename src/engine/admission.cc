#include "engine/admission.h"

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "model/request_limits.h"
#include "model/tensor_values.h"

namespace fermata::engine {
namespace {

std::string names(const std::vector<TensorSpec>& specs) {
  std::string list;
  for (const TensorSpec& spec : specs) list += (list.empty() ? "" : ", ") + spec.name;
  return list;
}

absl::Status check_strings(const Tensor& tensor, uint64_t count) {
  const auto bytes = tensor.data.bytes;
  size_t at = 0;
  uint64_t found = 0;
  while (next_string(bytes, at)) ++found;
  if (at != bytes.size()) {
    return invalid("input '{}': BYTES element {} goes beyond the data ({} bytes)", tensor.name,
                   found, bytes.size());
  }
  if (found != count) {
    return invalid("input '{}': the data holds {} BYTES elements, shape {} holds {}", tensor.name,
                   found, to_string(tensor.shape), count);
  }
  return absl::OkStatus();
}

// As Signature::wire_shape says.
bool fits(const Shape& shape, const TensorSpec& spec, const Signature& signature) {
  const bool leads = signature.batches;
  if (leads && shape.empty()) return false;
  if (spec.any_rank) return absl::c_none_of(shape, [](int64_t dim) { return dim < 0; });
  return std::equal(shape.begin() + leads, shape.end(), spec.dims.begin(), spec.dims.end(),
                    [](int64_t has, int64_t want) { return want == -1 ? has >= 0 : has == want; });
}

absl::Status check_items(const Tensor& tensor, const TensorSpec& spec, const PartLimit& limit) {
  if (tensor.shape[0] < 1) {
    return invalid("input '{}': shape {} has no items, expected at least one", spec.name,
                   to_string(tensor.shape));
  }
  const absl::Status fits = check_parts(static_cast<uint64_t>(tensor.shape[0]), limit);
  if (fits.ok()) return fits;
  return error(fits.code(), "input '{}': shape {}: {}", spec.name, to_string(tensor.shape),
               message(fits));
}

absl::Status check_input(const Tensor& tensor, const TensorSpec& spec, const Signature& signature,
                         const PartLimit& limit) {
  if (tensor.datatype != spec.datatype) {
    return invalid("input '{}': datatype is {}, expected {}", spec.name, name(tensor.datatype),
                   name(spec.datatype));
  }
  if (tensor.shape.size() > kMostDimensions) {
    return invalid("input '{}': its shape has {} dimensions, expected at most {}", spec.name,
                   tensor.shape.size(), kMostDimensions);
  }
  if (!fits(tensor.shape, spec, signature)) {
    return invalid("input '{}': shape is {}, expected {}", spec.name, to_string(tensor.shape),
                   to_string(signature.wire_shape(spec)));
  }
  if (signature.batches) RETURN_IF_ERROR(check_items(tensor, spec, limit));
  const uint64_t count = element_count(tensor.shape);
  const bool has_zero =
      std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
  uint64_t bytes = 0;
  if ((count == 0 && !has_zero) ||
      __builtin_mul_overflow(count, std::max<uint64_t>(1, element_size(spec.datatype)), &bytes)) {
    return invalid("input '{}': shape {} is too large", spec.name, to_string(tensor.shape));
  }
  if (spec.datatype == DataType::kBytes) return check_strings(tensor, count);
  if (tensor.data.size() != bytes) {
    return invalid("input '{}': the data has {} bytes, but shape {} of {} needs {}", spec.name,
                   tensor.data.size(), to_string(tensor.shape), name(spec.datatype), bytes);
  }
  return absl::OkStatus();
}

// Moves the input that the signature has at `place` there.
absl::Status place_input(std::vector<Tensor>& inputs, size_t place, const TensorSpec& spec) {
  const auto it = std::find_if(inputs.begin() + static_cast<int64_t>(place), inputs.end(),
                               [&spec](const Tensor& tensor) { return tensor.name == spec.name; });
  if (it == inputs.end()) {
    std::vector<std::string_view> came;
    for (const Tensor& tensor : inputs) came.push_back(tensor.name);
    return invalid("input '{}' is missing; the request has {}", spec.name,
                   came.empty() ? "no input" : fmt::format("'{}'", fmt::join(came, "', '")));
  }
  std::swap(inputs[place], *it);
  return absl::OkStatus();
}

// Free dimensions that the model gives one name are equal.
absl::Status check_symbols(const std::vector<Tensor>& inputs, const Signature& signature) {
  struct Seen {
    const Tensor* tensor;
    int64_t size;
  };
  std::map<std::string_view, Seen> sizes;
  for (const Tensor& tensor : inputs) {
    const TensorSpec& spec = *signature.input(tensor.name);
    const size_t first = signature.batches ? 1 : 0;
    for (size_t d = 0; d < spec.symbols.size(); ++d) {
      if (spec.symbols[d].empty()) continue;
      const int64_t size = tensor.shape[first + d];
      const auto known = sizes.try_emplace(spec.symbols[d], Seen{&tensor, size}).first;
      if (known->second.size == size) continue;
      return invalid(
          "input '{}': shape is {}, but input '{}' has {}: the model names a dimension of each "
          "'{}', so they are equal",
          tensor.name, to_string(tensor.shape), known->second.tensor->name,
          to_string(known->second.tensor->shape), spec.symbols[d]);
    }
  }
  return absl::OkStatus();
}

// Whether admit() makes it of some inputs.
bool is_shape(const Shape& shape, const Signature& signature) {
  const bool fixed = signature.fixed_shape();
  size_t at = 0;
  const auto next = [&](int64_t least) { return at < shape.size() && shape[at++] >= least; };
  for (const TensorSpec& spec : signature.inputs) {
    if (spec.optional && at < shape.size() && shape[at] == -1) {
      ++at;
      continue;
    }
    if (fixed) continue;
    auto rank = static_cast<int64_t>(spec.dims.size());
    if (spec.any_rank) {
      if (!next(0) || shape[at - 1] > static_cast<int64_t>(kMostDimensions)) return false;
      rank = shape[at - 1] - (signature.batches ? 1 : 0);
    }
    for (int64_t d = 0; d < rank; ++d) {
      if (!next(0)) return false;
    }
  }
  return at == shape.size();
}

// What the holder of the inputs has found; a worker looks at the inputs themselves.
absl::StatusOr<Admitted> admit_elsewhere(const InputsElsewhere& inputs, const Signature& signature,
                                         const PartLimit& limit) {
  if (inputs.items < 1 || (!signature.batches && inputs.items != 1) ||
      !is_shape(inputs.shape, signature)) {
    return invalid("inputs of {} items that another process has: the model is another there",
                   inputs.items);
  }
  if (signature.batches) RETURN_IF_ERROR(check_parts(inputs.items, limit));
  return Admitted{inputs.items, inputs.shape};
}

absl::Status check_texts(const InferRequest& request) {
  size_t texts = request.id.size() + request.parameters.size();
  for (const std::string& output : request.outputs) texts += output.size();
  if (texts <= kMostSaid) return absl::OkStatus();
  return invalid("id, parameters and outputs' names have {} bytes, expected at most {}", texts,
                 kMostSaid);
}

absl::Status check_outputs(const InferRequest& request, const Signature& signature) {
  for (const std::string& output : request.outputs) {
    if (signature.output(output) == nullptr) {
      return invalid("output '{}' is not one of the model's: {}", output, names(signature.outputs));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status check_parts(uint64_t items, const PartLimit& limit) {
  const uint64_t parts = items / limit.items + (items % limit.items != 0);
  if (parts <= limit.parts) return absl::OkStatus();
  return error(absl::StatusCode::kOutOfRange,
               "{} items run in {} parts, expected at most {} (limits.request_parts)", items, parts,
               limit.parts);
}

absl::StatusOr<Admitted> admit(InferRequest& request, const Signature& signature,
                               const PartLimit& limit) {
  RETURN_IF_ERROR(check_texts(request));
  if (request.elsewhere != nullptr) {
    RETURN_IF_ERROR(check_outputs(request, signature));
    return admit_elsewhere(*request.elsewhere, signature, limit);
  }
  Admitted admitted;
  const bool fixed = signature.fixed_shape();
  size_t place = 0;
  for (const TensorSpec& spec : signature.inputs) {
    if (absl::Status placed = place_input(request.inputs, place, spec); !placed.ok()) {
      if (!spec.optional) return placed;
      admitted.shape.push_back(-1);  // left out
      continue;
    }
    const Tensor& tensor = request.inputs[place++];
    RETURN_IF_ERROR(check_input(tensor, spec, signature, limit));
    if (signature.batches) {
      const auto items = static_cast<uint32_t>(tensor.shape[0]);
      if (place > 1 && items != admitted.items) {
        return invalid("input '{}' has {} items, but '{}' has {}", spec.name, items,
                       request.inputs[0].name, admitted.items);
      }
      admitted.items = items;
    }
    if (fixed) continue;
    if (spec.any_rank) admitted.shape.push_back(static_cast<int64_t>(tensor.shape.size()));
    admitted.shape.insert(admitted.shape.end(), tensor.shape.begin() + (signature.batches ? 1 : 0),
                          tensor.shape.end());
  }
  if (place < request.inputs.size()) {
    return invalid("input '{}' is not one of the model's, or stands there twice; it has: {}",
                   request.inputs[place].name, names(signature.inputs));
  }
  if (signature.has_symbols()) RETURN_IF_ERROR(check_symbols(request.inputs, signature));
  RETURN_IF_ERROR(check_outputs(request, signature));
  return admitted;
}

}  // namespace fermata::engine
