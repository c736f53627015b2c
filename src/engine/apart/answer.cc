#include "engine/apart/answer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/status.h"
#include "engine/apart/record.h"
#include "engine/execute/gather.h"

namespace fermata::engine::apart {
namespace {

// What a larger batch has touched of a slot's data is given back.
constexpr uint64_t kKeptOfSlot = uint64_t{32} << 20;

// Who breaks the rules of the shared memory is not asked again.
absl::Status lies(ModelProcess& process, const absl::Status& how) {
  spdlog::error("model process {} gave a wrong answer: {}", process.pid(), message(how));
  process.kill();
  return internal("the model's process gave a wrong answer: {}", message(how));
}

absl::Status hand_out(const Signature& signature, const Reply& reply, bool of_parts,
                      const std::vector<Tensor>& whole,
                      const std::vector<std::vector<Tensor>>& by_part,
                      absl::Span<const BatchPart> parts,
                      std::vector<absl::StatusOr<std::vector<Tensor>>>& results) {
  const uint32_t items = items_of(parts);
  uint32_t first = 0;
  std::vector<absl::StatusOr<std::vector<Tensor>>> made;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto failed = std::find_if(reply.failed.begin(), reply.failed.end(),
                                     [i](const auto& one) { return one.first == i; });
    if (failed != reply.failed.end()) {
      made.emplace_back(failed->second);
    } else if (of_parts) {
      made.push_back(scatter(signature, by_part[i], parts[i], 0, parts[i].items));
    } else {
      made.push_back(scatter(signature, whole, parts[i], first, items));
      if (!made.back().ok()) return made.back().status();
    }
    first += parts[i].items;
  }
  std::move(made.begin(), made.end(), std::back_inserter(results));
  return absl::OkStatus();
}

}  // namespace

absl::Status take_answer(ModelProcess& process, const Asking& asking, BatchResult& result) {
  const auto& [slot, number, variant, signature, names, parts] = asking;
  const Area& area = process.area();
  const absl::Span<std::byte> room = area.outputs(slot);
  const uint64_t begin = area.offset_of(room.data());
  absl::StatusOr<Reply> reply =
      read_reply(area.reply(slot), {.number = number,
                                    .signature = signature,
                                    .outputs = names,
                                    .parts = static_cast<uint32_t>(parts.size()),
                                    .begin = begin,
                                    .end = begin + room.size()});
  if (!reply.ok()) return lies(process, reply.status());
  if (!reply->status.ok()) {
    // For itself: not for what it was given, nor for memory, which an input can ask for without
    // end.
    if (absl::IsInternal(reply->status)) process.failed(reply->status);
    return reply->status;
  }
  std::vector<Tensor> whole;
  std::vector<std::vector<Tensor>> by_part(parts.size());
  bool of_parts = false;
  uint64_t used = 0;
  for (const Reply::Output& output : reply->outputs) {
    Tensor tensor{output.spec->name, output.spec->datatype, output.shape, {}};
    std::shared_ptr<std::byte[]> copy(new std::byte[std::max<uint64_t>(output.bytes, 1)]);
    const absl::Span<const std::byte> bytes(copy.get(), output.bytes);
    if (output.bytes > 0) {
      std::memcpy(copy.get(), area.at(output.offset, output.bytes).data(), output.bytes);
    }
    if (tensor.datatype == DataType::kBytes && !are_strings(bytes, output.elements)) {
      return lies(process, internal("the texts of output '{}' are not sound", tensor.name));
    }
    used = std::max(used, output.offset + output.bytes - begin);
    tensor.data = {bytes, std::move(copy)};
    of_parts = output.part != kWhole;
    (of_parts ? by_part[output.part] : whole).push_back(std::move(tensor));
  }
  RETURN_IF_ERROR(hand_out(*signature, *reply, of_parts, whole, by_part, parts, result.parts));
  if (std::max(used, bytes_of(parts)) > kKeptOfSlot) area.trim(slot);
  // Of parts that run alone, together.
  result.stages.resize(std::max(result.stages.size(), reply->stages.size()));
  for (size_t s = 0; s < reply->stages.size(); ++s) {
    StageRun& all = result.stages[s];
    all.items += reply->stages[s].items;
    all.took += reply->stages[s].took;
    all.widened = all.widened || reply->stages[s].widened;
  }
  process.answered_well();
  return absl::OkStatus();
}

}  // namespace fermata::engine::apart
