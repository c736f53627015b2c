#include "cluster/wire/messages.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "cluster/wire/tensor_reader.h"
#include "engine/admission.h"
#include "engine/execute/absence.h"
#include "engine/execute/gather.h"
#include "model/dynamic_network.h"

namespace fermata::cluster {
namespace {

constexpr uint64_t kLongest = uint64_t{1} << 60;  // nanoseconds: what is believed of a time

absl::StatusOr<Duration> duration(uint64_t nanos) {
  if (nanos > kLongest) return invalid("a time of {} ns", nanos);
  return Duration::nanos(static_cast<int64_t>(nanos));
}

absl::Status check_output(const Tensor& tensor, const TensorSpec& spec, bool batches,
                          uint32_t items) {
  const auto wrong = [&](std::string_view what) {
    return invalid("output '{}': {}, shape {} of {} in {} bytes", tensor.name, what,
                   to_string(tensor.shape), name(tensor.datatype), tensor.data.size());
  };
  if (tensor.datatype != spec.datatype) return wrong("another datatype");
  if (batches && (tensor.shape.empty() || tensor.shape[0] != items)) return wrong("not by items");
  const Shape own(tensor.shape.begin() + (batches ? 1 : 0), tensor.shape.end());
  if (!spec.any_rank) {
    const bool fits = absl::c_equal(own, spec.dims, [](int64_t is, int64_t expected) {
      return expected < 0 ? is >= 0 : is == expected;
    });
    if (!fits) return wrong("another shape");
  }
  const uint64_t elements = element_count(tensor.shape);
  const bool negative = absl::c_any_of(own, [](int64_t dim) { return dim < 0; });
  if (negative || (elements == 0 && !absl::c_linear_search(tensor.shape, 0))) {
    return wrong("no shape");
  }
  if (spec.datatype == DataType::kBytes) {
    return engine::are_strings(tensor.data.bytes, elements) ? absl::OkStatus()
                                                            : wrong("texts that are not sound");
  }
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(elements, element_size(spec.datatype), &bytes) ||
      bytes != tensor.data.size()) {
    return wrong("another size");
  }
  return absl::OkStatus();
}

absl::Status failure_of(const PartEnd& end) {
  const auto code = static_cast<absl::StatusCode>(end.code() <= 16 ? end.code() : 13);
  const auto absence = static_cast<engine::Absence>(std::min(end.absence(), 3u));
  return engine::absent(absence, absl::Status(code, end.why()));
}

// What part of a request it is, without what it takes.
void write_part(const engine::BatchPart& from, Time now, Part& part) {
  part.set_items(from.items);
  part.set_alone(from.alone);
  part.set_last(from.last);
  part.set_request(from.request);
  if (!from.deadline.is_infinite() && from.deadline > now) {
    part.set_left_nanos(static_cast<uint64_t>((from.deadline - now).nanos()));
  }
  if (from.id != nullptr) part.set_id(*from.id);
  for (const std::string& output : *from.outputs) part.add_outputs(output);
}

void write_holder(const engine::BatchPart& from, Batch& batch, Part& part) {
  const std::string& holder = *from.elsewhere->holder;
  int at = 0;
  while (at < batch.holders_size() && batch.holders(at) != holder) ++at;
  if (at == batch.holders_size()) batch.add_holders(holder);
  part.set_holder(static_cast<uint32_t>(at) + 1);
  part.set_key(from.elsewhere->key);
  part.set_first(from.first_item);
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> read_outputs(const TensorHeads& heads,
                                                 const engine::BatchPart& part,
                                                 const Signature& signature,
                                                 TensorReader& tensors) {
  std::vector<Tensor> outputs;
  for (const TensorHead& head : heads) {
    ASSIGN_OR_RETURN(Tensor tensor, tensors.next(head));
    const TensorSpec* spec = signature.output(tensor.name);
    if (spec == nullptr) return invalid("output '{}': not one of the model's", tensor.name);
    RETURN_IF_ERROR(check_output(tensor, *spec, signature.batches, part.items));
    const auto same = [&](const Tensor& other) { return other.name == tensor.name; };
    if (absl::c_any_of(outputs, same)) return invalid("output '{}': twice", tensor.name);
    if (!part.outputs->empty() && !absl::c_linear_search(*part.outputs, tensor.name)) {
      return invalid("output '{}': nobody wants it", tensor.name);
    }
    outputs.push_back(std::move(tensor));
  }
  const size_t wanted = part.outputs->empty() ? signature.outputs.size() : part.outputs->size();
  if (outputs.size() < wanted && part.outputs->empty()) {
    return invalid("{} outputs, expected {}", outputs.size(), wanted);
  }
  for (const std::string& name : *part.outputs) {
    const auto is_it = [&name](const Tensor& tensor) { return tensor.name == name; };
    if (absl::c_none_of(outputs, is_it)) return invalid("output '{}': missing", name);
  }
  // In one order, since those of several parts may be joined.
  absl::c_sort(outputs, [&signature](const Tensor& a, const Tensor& b) {
    return signature.output(a.name) < signature.output(b.name);
  });
  return outputs;
}

void write_kept(const KeptElsewhere& from, Kept& to) {
  to.set_holder(from.holder);
  to.set_key(from.key);
  to.set_first(from.first);
  to.set_bytes(from.size);
}

void Outgoing::add(const Tensor& tensor, TensorHead& head) {
  head.set_name(tensor.name);
  head.set_datatype(static_cast<uint32_t>(tensor.datatype));
  for (const int64_t dim : tensor.shape) head.add_shape(dim);
  if (tensor.data.elsewhere != nullptr) {
    write_kept(*tensor.data.elsewhere, *head.mutable_kept());
    return;
  }
  head.set_bytes(tensor.data.bytes.size());
  payload.push_back(tensor.data.bytes);
  kept.push_back(tensor.data);
}

uint64_t Outgoing::bytes() const {
  uint64_t sum = 0;
  for (const Channel::Bytes each : payload) sum += each.size();
  return sum;
}

absl::Status Outgoing::check() const {
  const uint64_t text = message.ByteSizeLong(), data = bytes();
  if (text <= kFrameLimits.message && data <= kFrameLimits.payload) return absl::OkStatus();
  return error(absl::StatusCode::kResourceExhausted,
               "{} and {} bytes for another host, expected at most {} and {}", text, data,
               kFrameLimits.message, kFrameLimits.payload);
}

absl::StatusOr<Outgoing> write_batch(uint64_t number, const engine::BatchRun& run,
                                     const Signature& signature, Time now) {
  Outgoing out;
  Batch& batch = *out.message.mutable_batch();
  batch.set_number(number);
  batch.set_variant(run.variant.value());
  batch.set_limit_nanos(static_cast<uint64_t>(std::max<int64_t>(run.limit.nanos(), 0)));
  batch.set_to_the_end(run.to_the_end);
  for (const engine::BatchPart& from : run.parts) {
    Part& part = *batch.add_parts();
    write_part(from, now, part);
    if (from.elsewhere != nullptr) {
      write_holder(from, batch, part);
      continue;
    }
    if (from.parameters != nullptr) part.set_parameters(*from.parameters);
    for (const Tensor& tensor : *from.inputs) {
      if (!signature.batches) {
        out.add(tensor, *part.add_tensors());
        continue;
      }
      Tensor own{tensor.name, tensor.datatype, tensor.shape, {}};
      ASSIGN_OR_RETURN(own.data, engine::rows(tensor, from.first_item, from.items));
      own.shape[0] = from.items;
      out.add(own, *part.add_tensors());
    }
  }
  return out;
}

absl::StatusOr<engine::BatchPart> part_of(const Part& from, const engine::InferRequest& request,
                                          Time now) {
  engine::BatchPart part{&request.inputs, &request.outputs, 0, from.items()};
  part.alone = from.alone();
  part.last = from.last();
  part.request = from.request();
  part.id = &request.id;
  part.parameters = &request.parameters;
  ASSIGN_OR_RETURN(const Duration left, duration(from.left_nanos()));
  if (left > Duration()) part.deadline = now + left;
  return part;
}

absl::Status check_batch(const Batch& batch, const Signature& signature) {
  uint64_t items = 0;
  for (const Part& part : batch.parts()) items += part.items();
  if (items >= 1 && items <= signature.max_batch && (signature.batches || batch.parts_size() == 1))
    return duration(batch.limit_nanos()).status();
  return invalid("a batch of {} items in {} parts, expected 1 to {}", items, batch.parts_size(),
                 signature.max_batch);
}

absl::StatusOr<engine::InferRequest> read_inputs(const Part& part, const TensorHeads& heads,
                                                 std::string parameters, const Signature& signature,
                                                 TensorReader& tensors) {
  engine::InferRequest request;
  for (const TensorHead& head : heads) {
    ASSIGN_OR_RETURN(request.inputs.emplace_back(), tensors.next(head));
  }
  request.outputs.assign(part.outputs().begin(), part.outputs().end());
  request.id = part.id();
  request.parameters = std::move(parameters);
  ASSIGN_OR_RETURN(const engine::Admitted admitted, engine::admit(request, signature));
  if (admitted.items != part.items()) {
    return invalid("a part of {} items, and its inputs have {}", part.items(), admitted.items);
  }
  return request;
}

absl::StatusOr<ReceivedBatch> read_batch(const Frame& frame, const Signature& signature, Time now) {
  if (!frame.message.has_batch()) return invalid("a message that is no batch");
  const Batch& batch = frame.message.batch();
  RETURN_IF_ERROR(check_batch(batch, signature));
  ReceivedBatch received{.number = batch.number()};
  received.run.to_the_end = batch.to_the_end();
  received.run.limit = Duration::nanos(static_cast<int64_t>(batch.limit_nanos()));
  TensorReader tensors(frame);
  for (const Part& part : batch.parts()) {
    ASSIGN_OR_RETURN(received.requests.emplace_back(),
                     read_inputs(part, part.tensors(), part.parameters(), signature, tensors));
  }
  RETURN_IF_ERROR(tensors.end());
  for (int i = 0; i < batch.parts_size(); ++i) {
    ASSIGN_OR_RETURN(received.run.parts.emplace_back(),
                     part_of(batch.parts(i), received.requests[static_cast<size_t>(i)], now));
  }
  return received;
}

Outgoing write_ended(uint64_t number, Duration waited, const engine::BatchResult& result) {
  Outgoing out;
  Ended& ended = *out.message.mutable_ended();
  const auto nanos = [](Duration d) {
    return static_cast<uint64_t>(std::max<int64_t>(d.nanos(), 0));
  };
  ended.set_number(number);
  ended.set_waited_nanos(nanos(waited));
  ended.set_input_nanos(nanos(result.input));
  ended.set_run_nanos(nanos(result.run));
  ended.set_output_nanos(nanos(result.output));
  ended.set_moved(result.moved);
  for (const engine::StageRun& from : result.stages) {
    Stage& stage = *ended.add_stages();
    stage.set_items(from.items);
    stage.set_nanos(nanos(from.took));
    stage.set_widened(from.widened);
  }
  for (const auto& outputs : result.parts) {
    PartEnd& part = *ended.add_parts();
    if (!outputs.ok()) {
      part.set_code(static_cast<uint32_t>(outputs.status().code()));
      part.set_why(std::string(message(outputs.status())));
      const engine::Absence absence = engine::absence_of(outputs.status());
      part.set_absence(static_cast<uint32_t>(absence));
      continue;
    }
    for (const Tensor& tensor : *outputs) out.add(tensor, *part.add_tensors());
  }
  return out;
}

absl::StatusOr<ReceivedEnd> read_ended(const Frame& frame, uint64_t number,
                                       absl::Span<const engine::BatchPart> parts,
                                       const Signature& signature) {
  if (!frame.message.has_ended()) return invalid("a message that is no batch's end");
  const Ended& ended = frame.message.ended();
  if (ended.number() != number || ended.parts_size() != static_cast<int>(parts.size())) {
    return invalid("the end of batch {} with {} parts, expected batch {} with {}", ended.number(),
                   ended.parts_size(), number, parts.size());
  }
  ReceivedEnd received;
  ASSIGN_OR_RETURN(received.waited, duration(ended.waited_nanos()));
  ASSIGN_OR_RETURN(received.result.input, duration(ended.input_nanos()));
  ASSIGN_OR_RETURN(received.result.run, duration(ended.run_nanos()));
  ASSIGN_OR_RETURN(received.result.output, duration(ended.output_nanos()));
  received.result.moved = std::min(ended.moved(), kLongest);
  if (ended.stages_size() > static_cast<int>(kMostStages)) {
    return invalid("{} stages, expected at most {}", ended.stages_size(), kMostStages);
  }
  for (const Stage& stage : ended.stages()) {
    ASSIGN_OR_RETURN(const Duration took, duration(stage.nanos()));
    received.result.stages.push_back({stage.items(), took, stage.widened()});
  }
  TensorReader tensors(frame);
  for (size_t i = 0; i < parts.size(); ++i) {
    const PartEnd& end = ended.parts(static_cast<int>(i));
    if (end.code() != 0) {
      received.result.parts.emplace_back(failure_of(end));
      continue;
    }
    if (parts[i].elsewhere != nullptr) {  // they have gone there
      received.result.parts.emplace_back(std::vector<Tensor>());
      continue;
    }
    ASSIGN_OR_RETURN(std::vector<Tensor> outputs,
                     read_outputs(end.tensors(), parts[i], signature, tensors));
    received.result.parts.emplace_back(std::move(outputs));
  }
  RETURN_IF_ERROR(tensors.end());
  return received;
}

std::string signature_text(const Signature& signature) {
  std::string text =
      fmt::format("batches {} of at most {}\n", signature.batches, signature.max_batch);
  for (const auto* specs : {&signature.inputs, &signature.outputs}) {
    for (const TensorSpec& spec : *specs) {
      text += fmt::format("{} {} {} {}\n", specs == &signature.inputs ? "input" : "output",
                          spec.name, name(spec.datatype), to_string(signature.wire_shape(spec)));
    }
  }
  return text;
}

}  // namespace fermata::cluster
