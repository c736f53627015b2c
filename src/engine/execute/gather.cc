#include "engine/execute/gather.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/status.h"
#include "engine/execute/absence.h"
#include "model/tensor_values.h"

namespace fermata::engine {
namespace {

constexpr absl::string_view kNotByItems = "fermata.not-by-items";
constexpr size_t kKeptBuffer = size_t{1} << 20;  // bytes of a buffer

// The offset after `elements` BYTES elements.
absl::StatusOr<size_t> skip_strings(absl::Span<const std::byte> bytes, size_t from,
                                    uint64_t elements) {
  size_t at = from;
  for (uint64_t i = 0; i < elements; ++i) {
    if (!next_string(bytes, at)) return invalid("a BYTES element is cut off");
  }
  return at;
}

uint64_t elements_per_row(const Shape& shape) {
  uint64_t count = 1;  // admission has looked at it
  for (size_t d = 1; d < shape.size(); ++d) count *= static_cast<uint64_t>(shape[d]);
  return count;
}

bool aligned(const std::byte* data, DataType type) {
  const size_t size = element_size(type);
  return size == 0 || reinterpret_cast<uintptr_t>(data) % size == 0;
}

Shape model_shape(const TensorSpec& spec, const Tensor& tensor, bool batches, uint32_t items) {
  if (spec.dims == spec.model_dims) {
    Shape shape = tensor.shape;
    if (batches) shape[0] = items;
    return shape;
  }
  const Shape item(tensor.shape.begin() + (batches ? 1 : 0), tensor.shape.end());
  Shape shape = spec.reshaped(item);
  if (batches) shape.insert(shape.begin(), items);
  return shape;
}

}  // namespace

absl::StatusOr<Payload> rows(const Tensor& tensor, uint32_t first, uint32_t items) {
  const absl::Span<const std::byte> bytes = tensor.data.bytes;
  const uint64_t end_row = uint64_t{first} + items;  // which another host may have asked for
  if (tensor.shape.empty() || end_row > static_cast<uint64_t>(tensor.shape[0])) {
    return internal("tensor '{}' has shape {}, expected {} items first", tensor.name,
                    to_string(tensor.shape), end_row);
  }
  const uint64_t per_row = elements_per_row(tensor.shape);
  if (tensor.datatype == DataType::kBytes) {
    ASSIGN_OR_RETURN(const size_t start, skip_strings(bytes, 0, per_row * first));
    ASSIGN_OR_RETURN(const size_t end, skip_strings(bytes, start, per_row * items));
    return Payload{bytes.subspan(start, end - start), tensor.data.owner};
  }
  const size_t row = per_row * element_size(tensor.datatype);
  if (tensor.data.size() < row * end_row) {
    return invalid("tensor '{}' has {} bytes, expected {}", tensor.name, tensor.data.size(),
                   row * static_cast<size_t>(tensor.shape[0]));
  }
  if (tensor.data.elsewhere != nullptr) {
    auto some = std::make_shared<KeptElsewhere>(*tensor.data.elsewhere);
    some->first += row * first;
    some->size = row * items;
    return Payload{{}, nullptr, std::move(some)};
  }
  return Payload{bytes.subspan(row * first, row * items), tensor.data.owner};
}

uint64_t bytes_of(absl::Span<const BatchPart> parts) {
  uint64_t bytes = 0;
  for (const BatchPart& part : parts) bytes += payload_bytes(*part.inputs);
  return bytes;
}

absl::Status Gatherer::gather_input(const TensorSpec& spec, bool batches, size_t index,
                                    absl::Span<const BatchPart> parts, size_t buffer,
                                    OnnxInput& input) {
  const Tensor& first = (*parts[0].inputs)[index];
  input = {&spec.name, spec.datatype, model_shape(spec, first, batches, items_of(parts)),
           first.data.bytes};
  if (batches && parts.size() == 1) {
    ASSIGN_OR_RETURN(const Payload slice, rows(first, parts[0].first_item, parts[0].items));
    input.data = slice.bytes;
  }
  if (parts.size() == 1 && aligned(input.data.data(), spec.datatype)) return absl::OkStatus();
  std::vector<std::byte>& whole = buffers_[buffer];
  whole.clear();
  if (parts.size() == 1) {
    whole.assign(input.data.begin(), input.data.end());
  } else {
    size_t bytes = 0;  // at most
    for (const BatchPart& part : parts) bytes += (*part.inputs)[index].data.bytes.size();
    whole.reserve(bytes);
    for (const BatchPart& part : parts) {
      ASSIGN_OR_RETURN(const Payload slice,
                       rows((*part.inputs)[index], part.first_item, part.items));
      whole.insert(whole.end(), slice.bytes.begin(), slice.bytes.end());
    }
  }
  input.data = whole;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<OnnxInput>> Gatherer::gather(const Signature& signature,
                                                        absl::Span<const BatchPart> parts) {
  const std::vector<Tensor>& given = *parts[0].inputs;
  std::vector<OnnxInput> inputs(given.size());
  if (buffers_.size() < given.size()) buffers_.resize(given.size());
  size_t index = 0;
  for (const TensorSpec& spec : signature.inputs) {
    if (index == given.size() || given[index].name != spec.name) continue;  // optional, left out
    RETURN_IF_ERROR(gather_input(spec, signature.batches, index, parts, index, inputs[index]));
    ++index;
  }
  return inputs;
}

void Gatherer::ran() {
  for (std::vector<std::byte>& buffer : buffers_) {
    if (buffer.capacity() > kKeptBuffer) std::vector<std::byte>().swap(buffer);
  }
}

absl::StatusOr<std::vector<OnnxInput>> gather_into(const Signature& signature,
                                                   absl::Span<const BatchPart> parts,
                                                   absl::Span<std::byte> memory, size_t alignment) {
  const std::vector<Tensor>& given = *parts[0].inputs;
  std::vector<OnnxInput> inputs;
  size_t used = 0;
  for (const TensorSpec& spec : signature.inputs) {
    const size_t index = inputs.size();
    if (index == given.size() || given[index].name != spec.name) continue;  // optional, left out
    used = std::min((used + alignment - 1) / alignment * alignment, memory.size());
    const size_t start = used;
    for (const BatchPart& part : parts) {
      Payload slice = (*part.inputs)[index].data;
      if (signature.batches) {
        ASSIGN_OR_RETURN(slice, rows((*part.inputs)[index], part.first_item, part.items));
      }
      if (slice.bytes.size() > memory.size() - used) {
        return error(absl::StatusCode::kResourceExhausted,
                     "the batch takes more than the {} MiB that a worker's process has for inputs",
                     memory.size() >> 20);
      }
      if (!slice.bytes.empty()) {
        std::memcpy(memory.data() + used, slice.bytes.data(), slice.bytes.size());
      }
      used += slice.bytes.size();
    }
    inputs.push_back({&spec.name, spec.datatype,
                      model_shape(spec, given[index], signature.batches, items_of(parts)),
                      memory.subspan(start, used - start)});
  }
  return inputs;
}

bool are_strings(absl::Span<const std::byte> bytes, uint64_t elements) {
  if (elements > bytes.size() / sizeof(uint32_t)) return false;
  const auto end = skip_strings(bytes, 0, elements);
  return end.ok() && *end == bytes.size();
}

absl::StatusOr<std::vector<Tensor>> scatter(const Signature& signature,
                                            const std::vector<Tensor>& outputs,
                                            const BatchPart& part, uint32_t first_in_batch,
                                            uint32_t batch_items) {
  std::vector<Tensor> mine;
  mine.reserve(outputs.size());
  for (const Tensor& output : outputs) {
    const auto& wanted = *part.outputs;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), output.name) == wanted.end()) {
      continue;
    }
    Tensor& tensor = mine.emplace_back(
        Tensor{.name = output.name, .datatype = output.datatype, .shape = output.shape});
    const TensorSpec* spec = signature.output(output.name);
    const bool reshape = spec != nullptr && spec->dims != spec->model_dims;
    if (signature.batches) {
      if (output.shape.empty() || output.shape[0] != batch_items) {
        return not_by_items(output, batch_items);
      }
      ASSIGN_OR_RETURN(tensor.data, rows(output, first_in_batch, part.items));
      tensor.shape[0] = part.items;
    } else {
      tensor.data = output.data;
    }
    if (reshape) {
      const Shape item(tensor.shape.begin() + (signature.batches ? 1 : 0), tensor.shape.end());
      TensorSpec back{.dims = spec->model_dims, .model_dims = spec->dims};
      tensor.shape.resize(signature.batches ? 1 : 0);
      const Shape promised = back.reshaped(item);
      tensor.shape.insert(tensor.shape.end(), promised.begin(), promised.end());
    }
  }
  return mine;
}

absl::Status scatter_all(const Signature& signature, const std::vector<Tensor>& outputs,
                         absl::Span<const BatchPart> parts,
                         std::vector<absl::StatusOr<std::vector<Tensor>>>& results) {
  const uint32_t items = items_of(parts);
  uint32_t first = 0;
  std::vector<absl::StatusOr<std::vector<Tensor>>> scattered;
  for (const BatchPart& part : parts) {
    scattered.push_back(scatter(signature, outputs, part, first, items));
    if (!scattered.back().ok()) return scattered.back().status();
    first += part.items;
  }
  std::move(scattered.begin(), scattered.end(), std::back_inserter(results));
  return absl::OkStatus();
}

std::vector<std::string> output_names(const Signature& signature,
                                      absl::Span<const BatchPart> parts) {
  std::vector<std::string> names;
  for (const BatchPart& part : parts) {
    if (part.outputs->empty()) {
      names.clear();
      for (const TensorSpec& spec : signature.outputs) names.push_back(spec.name);
      return names;
    }
    for (const std::string& name : *part.outputs) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

namespace {

// That are copied of a part: of a request that was split, its rows.
uint64_t copied_bytes(const BatchPart& part) {
  const std::vector<Tensor>& inputs = *part.inputs;
  const uint64_t bytes = payload_bytes(inputs);
  const bool has_rows = !inputs.empty() && !inputs[0].shape.empty();
  const auto rows = static_cast<uint64_t>(has_rows ? inputs[0].shape[0] : 0);
  return rows > part.items ? bytes / rows * part.items : bytes;
}

// Of the first ones, how many may be copied at a time.
size_t count_within(absl::Span<const BatchPart> parts, uint64_t most_bytes) {
  size_t count = 0;
  for (uint64_t bytes = 0; count < parts.size(); ++count) {
    bytes += copied_bytes(parts[count]);
    if (count > 0 && bytes > most_bytes) break;
  }
  return count;
}

}  // namespace

void run_parts(
    const BatchRun& batch, BatchResult& result,
    absl::FunctionRef<absl::Status(absl::Span<const BatchPart>, BatchResult&)> together) {
  absl::Span<const BatchPart> parts = batch.parts;
  const bool apart =
      std::any_of(parts.begin(), parts.end(), [](const BatchPart& part) { return part.alone; });
  while (!parts.empty()) {
    const size_t count = apart ? 1 : count_within(parts, batch.most_bytes);
    const std::vector<StageRun> stages = result.stages;
    const absl::Status failed = together(parts.first(count), result);
    const bool is_for_all = count == 1 || absence_of(failed) != Absence::kNone;
    if (!failed.ok() && is_for_all) {
      result.parts.insert(result.parts.end(), count, failed);
    } else if (!failed.ok()) {
      result.stages = stages;
      for (const BatchPart& part : parts.first(count)) {
        if (absl::Status alone = together({&part, 1}, result); !alone.ok()) {
          result.parts.push_back(std::move(alone));
        }
      }
    }
    parts.remove_prefix(count);
  }
}

absl::Status not_by_items(const Tensor& output, uint64_t items) {
  absl::Status status = internal("output '{}' has shape {}, expected {} items first", output.name,
                                 to_string(output.shape), items);
  status.SetPayload(kNotByItems, absl::Cord());
  return status;
}

bool is_not_by_items(const absl::Status& status) {
  return status.GetPayload(kNotByItems).has_value();
}

absl::StatusOr<std::vector<Tensor>> join(absl::Span<const std::vector<Tensor>> parts) {
  std::vector<Tensor> whole = parts[0];
  for (size_t i = 0; i < whole.size(); ++i) {
    auto bytes = std::make_shared<std::vector<std::byte>>();
    int64_t items = 0;
    for (const std::vector<Tensor>& part : parts) {
      const Tensor& tensor = part[i];
      if (!std::equal(tensor.shape.begin() + 1, tensor.shape.end(), whole[i].shape.begin() + 1,
                      whole[i].shape.end())) {
        return internal("output '{}' has shape {} in one batch and {} in another", tensor.name,
                        to_string(whole[i].shape), to_string(tensor.shape));
      }
      items += tensor.shape[0];
      bytes->insert(bytes->end(), tensor.data.bytes.begin(), tensor.data.bytes.end());
    }
    whole[i].shape[0] = items;
    whole[i].data = {*bytes, bytes};
  }
  return whole;
}

}  // namespace fermata::engine
