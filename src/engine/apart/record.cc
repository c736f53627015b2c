#include "engine/apart/record.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "base/status.h"
#include "model/dynamic_network.h"

namespace fermata::engine::apart {
namespace {

constexpr uint32_t kToTheEnd = 1;
constexpr size_t kMostText = 4096;
constexpr uint32_t kMostItems = 1 << 20;

// Puts records one behind the other, as far as there is room.
class Writer {
 public:
  explicit Writer(absl::Span<std::byte> room) : room_(room) {}
  template <class T>
  bool add(const T& value) {
    return add(&value, sizeof(value));
  }
  bool add(const void* data, size_t bytes) {
    if (bytes > room_.size() - used_) return false;
    std::memcpy(room_.data() + used_, data, bytes);
    used_ += bytes;
    return true;
  }
  bool align() {
    const uint64_t zeros = 0;
    return used_ % 8 == 0 || add(&zeros, 8 - used_ % 8);
  }
  size_t used() const { return used_; }
  size_t left() const { return room_.size() - used_; }

 private:
  absl::Span<std::byte> room_;
  size_t used_ = 0;
};

class Scanner {
 public:
  explicit Scanner(absl::Span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  bool take(T& value) {
    if (sizeof(T) > bytes_.size() - used_) return false;
    std::memcpy(&value, bytes_.data() + used_, sizeof(T));
    used_ += sizeof(T);
    return true;
  }
  void align() { used_ = std::min((used_ + 7) / 8 * 8, bytes_.size()); }

 private:
  absl::Span<const std::byte> bytes_;
  size_t used_ = 0;
};

bool set_dims(const Shape& shape, TensorRecord& record) {
  if (shape.size() > kMostRank) return false;
  record.rank = static_cast<uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), record.dims);
  return true;
}

std::optional<uint32_t> place_of(const std::vector<TensorSpec>& specs, std::string_view name) {
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name) return static_cast<uint32_t>(i);
  }
  return std::nullopt;
}

// What the client said of a request; empty: nothing.
std::string notes_of(const BatchPart& part) {
  const bool has_id = part.id != nullptr && !part.id->empty();
  const bool has_parameters = part.parameters != nullptr && !part.parameters->empty();
  if (!has_id && !has_parameters) return {};
  Json notes = Json::object();
  if (has_id) notes["id"] = *part.id;
  if (has_parameters) notes["parameters"] = Json::parse(*part.parameters, nullptr, false);
  return notes.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The same of all parts, as far as they fit: who says much does not take the room of who says
// little.
std::vector<std::string> notes_within(absl::Span<const BatchPart> parts, size_t room) {
  std::vector<std::string> notes;
  std::vector<size_t> order(parts.size());
  for (const BatchPart& part : parts) notes.push_back(notes_of(part));
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&notes](size_t a, size_t b) { return notes[a].size() < notes[b].size(); });
  for (const size_t i : order) {
    if (notes[i].size() > room) notes[i].clear();
    room -= notes[i].size();
  }
  return notes;
}

absl::Status cut_off() { return internal("the record is cut off"); }

}  // namespace

absl::Status write_request(const Asked& asked, const Signature& signature,
                           absl::Span<std::byte> room) {
  Writer writer(room);
  RequestRecord head{.number = asked.number,
                     .variant = asked.variant,
                     .items = items_of(asked.parts),
                     .flags = asked.to_the_end ? kToTheEnd : 0,
                     .inputs = static_cast<uint32_t>(asked.inputs.size()),
                     .outputs = static_cast<uint32_t>(asked.outputs.size()),
                     .parts = static_cast<uint32_t>(asked.parts.size())};
  bool fits = writer.add(head);
  for (const OnnxInput& input : asked.inputs) {
    TensorRecord record{.tensor = place_of(signature.inputs, *input.name).value_or(kWhole),
                        .datatype = static_cast<uint32_t>(input.datatype),
                        .part = kWhole,
                        .offset = static_cast<uint64_t>(input.data.data() - asked.base),
                        .bytes = input.data.size()};
    fits = fits && set_dims(input.shape, record) && writer.add(record);
  }
  for (const std::string& output : asked.outputs) {
    fits = fits && writer.add(place_of(signature.outputs, output).value_or(kWhole));
  }
  fits = fits && writer.align();
  std::string texts;
  const size_t behind = writer.used() + asked.parts.size() * sizeof(PartRecord);
  std::vector<std::string> notes;
  if (asked.notes) notes = notes_within(asked.parts, room.size() - std::min(behind, room.size()));
  for (size_t i = 0; i < asked.parts.size(); ++i) {
    const BatchPart& part = asked.parts[i];
    PartRecord record{
        .items = part.items, .request = part.request, .deadline_nanos = part.deadline.nanos()};
    if (!notes.empty() && !notes[i].empty()) {
      record.notes = static_cast<uint32_t>(behind + texts.size());
      record.notes_bytes = static_cast<uint32_t>(notes[i].size());
      texts += notes[i];
    }
    fits = fits && writer.add(record);
  }
  fits = fits && writer.add(texts.data(), texts.size());
  if (fits) return absl::OkStatus();
  return error(
      absl::StatusCode::kResourceExhausted,
      "a batch of {} requests with {} inputs and {} outputs is more than the {} bytes that "
      "a worker's process has for their description, or has over {} dimensions",
      asked.parts.size(), asked.inputs.size(), asked.outputs.size(), room.size(), kMostRank);
}

absl::StatusOr<Request> read_request(absl::Span<const std::byte> record) {
  Scanner scanner(record);
  RequestRecord head{};
  if (!scanner.take(head)) return cut_off();
  Request request{.number = head.number,
                  .variant = head.variant,
                  .items = head.items,
                  .to_the_end = (head.flags & kToTheEnd) != 0};
  for (uint32_t i = 0; i < head.inputs; ++i) {
    TensorRecord tensor{};
    if (!scanner.take(tensor) || tensor.rank > kMostRank) return cut_off();
    request.inputs.push_back({tensor.tensor, Shape(tensor.dims, tensor.dims + tensor.rank),
                              tensor.offset, tensor.bytes});
  }
  for (uint32_t i = 0; i < head.outputs; ++i) {
    if (!scanner.take(request.outputs.emplace_back())) return cut_off();
  }
  scanner.align();
  for (uint32_t i = 0; i < head.parts; ++i) {
    if (!scanner.take(request.parts.emplace_back())) return cut_off();
  }
  return request;
}

void write_reply(uint32_t number, const absl::Status& status, absl::Span<const Written> outputs,
                 absl::Span<const StageRun> stages, Duration run, absl::Span<std::byte> room) {
  const std::string text(message(status).substr(0, kMostText));
  ReplyRecord head{.number = number,
                   .code = static_cast<uint32_t>(status.code()),
                   .outputs = static_cast<uint32_t>(outputs.size()),
                   .stages = static_cast<uint32_t>(stages.size()),
                   .run_nanos = static_cast<uint64_t>(run.nanos())};
  const auto fail = [&](std::string_view why) {
    Writer writer(room);
    writer.add(ReplyRecord{.number = number,
                           .code = static_cast<uint32_t>(absl::StatusCode::kResourceExhausted),
                           .text = sizeof(ReplyRecord),
                           .text_bytes = static_cast<uint32_t>(why.size())});
    writer.add(why.data(), why.size());
  };
  const size_t records =
      sizeof(head) + outputs.size() * sizeof(TensorRecord) + stages.size() * sizeof(StageRecord);
  if (records + text.size() > room.size()) return fail("the model has too many outputs");
  head.text = static_cast<uint32_t>(records);
  head.text_bytes = static_cast<uint32_t>(text.size());
  Writer writer(room);
  writer.add(head);
  for (const Written& output : outputs) {
    TensorRecord record{.tensor = output.tensor,
                        .datatype = static_cast<uint32_t>(output.value->datatype),
                        .part = kWhole,
                        .offset = output.offset,
                        .bytes = output.value->data.bytes.size()};
    if (!set_dims(output.value->shape, record)) return fail("an output has over 16 dimensions");
    writer.add(record);
  }
  for (const StageRun& stage : stages) {
    writer.add(StageRecord{stage.items, stage.widened, static_cast<uint64_t>(stage.took.nanos())});
  }
  writer.add(text.data(), text.size());
}

namespace {

// Checks the records of one answer against what was asked.
class Judge {
 public:
  Judge(absl::Span<const std::byte> shared, const Expected& expected)
      : shared_(shared), expected_(expected) {}

  absl::StatusOr<Reply> judge() {
    ReplyRecord head{};
    if (shared_.size() < sizeof(head)) return cut_off();
    std::memcpy(&head, shared_.data(), sizeof(head));
    std::atomic_signal_fence(std::memory_order_seq_cst);  // nothing is read from there again
    if (head.number != expected_.number) {
      return internal("it is of batch {}, expected {}", head.number, expected_.number);
    }
    Reply reply;
    if (head.code != 0) {
      RETURN_IF_ERROR(read_status(head.code, head.text, head.text_bytes, reply.status));
      return reply;
    }
    const uint64_t bytes = head.outputs * uint64_t{sizeof(TensorRecord)} +
                           head.stages * uint64_t{sizeof(StageRecord)} +
                           head.failed * uint64_t{sizeof(PartReply)};
    if (bytes > shared_.size() - sizeof(head)) return cut_off();
    if (head.stages > kMostStages) {
      return internal("{} stages, expected at most {}", head.stages, kMostStages);
    }
    copy_.assign(shared_.begin() + sizeof(head), shared_.begin() + sizeof(head) + bytes);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    Scanner scanner(copy_);
    uint64_t all = 0;
    for (uint32_t i = 0; i < head.outputs; ++i) {
      TensorRecord record{};
      scanner.take(record);
      ASSIGN_OR_RETURN(reply.outputs.emplace_back(), output_of(record));
      all += record.bytes;  // each at most the room
      if (all > expected_.end - expected_.begin) return internal("its outputs overlap");
    }
    for (uint32_t i = 0; i < head.stages; ++i) {
      StageRecord stage{};
      scanner.take(stage);
      const uint64_t nanos = std::min<uint64_t>(stage.nanos, kLongestRun);
      reply.stages.push_back({std::min(stage.items, kMostItems),
                              Duration::nanos(static_cast<int64_t>(nanos)), stage.widened != 0});
    }
    for (uint32_t i = 0; i < head.failed; ++i) {
      PartReply part{};
      scanner.take(part);
      if (part.part >= expected_.parts || part.code == 0) {
        return internal("part {} of {} failed with code {}", part.part, expected_.parts, part.code);
      }
      absl::Status& why = reply.failed.emplace_back(part.part, absl::OkStatus()).second;
      RETURN_IF_ERROR(read_status(part.code, part.text, part.text_bytes, why));
    }
    RETURN_IF_ERROR(complete(reply));
    return reply;
  }

 private:
  static constexpr uint64_t kLongestRun = 1'000'000'000'000'000;

  absl::Status read_status(uint32_t code, uint64_t text, uint64_t bytes, absl::Status& why) const {
    if (code > static_cast<uint32_t>(absl::StatusCode::kUnauthenticated)) {
      return internal("its code is {}, which there is not", code);
    }
    if (text > shared_.size() || bytes > std::min(shared_.size() - text, kMostText)) {
      return cut_off();
    }
    std::string words(reinterpret_cast<const char*>(shared_.data()) + text, bytes);
    for (char& c : words) {
      if (static_cast<unsigned char>(c) < ' ') c = ' ';
    }
    why = absl::Status(static_cast<absl::StatusCode>(code), words);
    return absl::OkStatus();
  }

  absl::StatusOr<Reply::Output> output_of(const TensorRecord& record) const {
    const std::vector<TensorSpec>& specs = expected_.signature->outputs;
    if (record.tensor >= specs.size()) {
      return internal("it has output {} of {}", record.tensor, specs.size());
    }
    const TensorSpec& spec = specs[record.tensor];
    if (record.datatype != static_cast<uint32_t>(spec.datatype)) {
      return internal("output '{}' has datatype {}, expected {}", spec.name, record.datatype,
                      name(spec.datatype));
    }
    if (record.rank > kMostRank) return internal("output '{}' has over 16 dimensions", spec.name);
    if (record.part != kWhole && record.part >= expected_.parts) {
      return internal("output '{}' is of part {} of {}", spec.name, record.part, expected_.parts);
    }
    Reply::Output output{
        &spec,      Shape(record.dims, record.dims + record.rank), record.offset, record.bytes, 1,
        record.part};
    RETURN_IF_ERROR(check_shape(output));
    const uint64_t room = expected_.end - expected_.begin;
    if (output.offset < expected_.begin || output.offset > expected_.end ||
        output.bytes > expected_.end - output.offset) {
      return internal("output '{}' lies at {} with {} bytes, expected within the {} from {} on",
                      spec.name, output.offset, output.bytes, room, expected_.begin);
    }
    const uint64_t element = element_size(spec.datatype);
    const bool fits = element > 0 ? output.bytes == output.elements * element
                                  : output.bytes / sizeof(uint32_t) >= output.elements;
    if (!fits) {
      return internal("output '{}' has {} bytes for shape {}", spec.name, output.bytes,
                      to_string(output.shape));
    }
    return output;
  }

  // Against what the model's file says; sets how many elements there are.
  absl::Status check_shape(Reply::Output& output) const {
    const TensorSpec& spec = *output.spec;
    const size_t lead = expected_.signature->batches ? 1 : 0;
    bool fits = output.shape.size() >= lead;
    if (!spec.any_rank) {
      const Shape& dims = spec.model_dims;
      fits = fits && output.shape.size() == dims.size() + lead;
      for (size_t d = 0; fits && d < dims.size(); ++d) {
        fits = dims[d] < 0 || dims[d] == output.shape[d + lead];
      }
    }
    for (const int64_t dim : output.shape) {
      fits =
          fits && dim >= 0 &&
          !__builtin_mul_overflow(output.elements, static_cast<uint64_t>(dim), &output.elements) &&
          output.elements < (uint64_t{1} << 48);
    }
    if (fits) return absl::OkStatus();
    return internal("output '{}' has shape {}, expected {}", spec.name, to_string(output.shape),
                    to_string(expected_.signature->wire_shape(spec)));
  }

  // Every output once, of the whole batch or of each part that has not failed.
  absl::Status complete(const Reply& reply) const {
    std::vector<bool> failed(expected_.parts);
    for (const auto& [part, why] : reply.failed) failed[part] = true;
    const bool of_parts = !reply.outputs.empty() && reply.outputs.front().part != kWhole;
    const size_t wanted = expected_.outputs.size();
    std::vector<size_t> seen(of_parts ? expected_.parts : 1);
    for (const Reply::Output& output : reply.outputs) {
      if ((output.part != kWhole) != of_parts) {
        return internal("it has outputs of the batch and of its parts");
      }
      size_t& next = seen[of_parts ? output.part : 0];
      if (next >= wanted || expected_.outputs[next] != output.spec->name) {
        return internal("it has output '{}' where it was not asked for", output.spec->name);
      }
      ++next;
    }
    const bool none = std::find(failed.begin(), failed.end(), false) == failed.end();
    for (size_t i = 0; i < seen.size(); ++i) {
      const bool may_lack = of_parts ? failed[i] : none && expected_.parts > 0;
      if (seen[i] != wanted && !may_lack) {
        return internal("it has {} of {} outputs", seen[i], wanted);
      }
    }
    return absl::OkStatus();
  }

  const absl::Span<const std::byte> shared_;
  const Expected& expected_;
  std::vector<std::byte> copy_;
};

}  // namespace

absl::StatusOr<Reply> read_reply(absl::Span<const std::byte> record, const Expected& expected) {
  return Judge(record, expected).judge();
}

}  // namespace fermata::engine::apart
