#include "engine/apart/processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/execute/backend.h"
#include "engine/execute/child.h"

namespace fermata::engine::apart {
namespace {

// Of a slot's data, where inputs or outputs have free dimensions or texts; only what a batch
// touches takes memory.
constexpr uint64_t kFreeSize = uint64_t{1} << 30;
constexpr uint64_t kLeastSize = uint64_t{64} << 10;

uint64_t most_bytes(const std::vector<TensorSpec>& specs, const Signature& signature) {
  uint64_t sum = kLeastSize;
  for (const TensorSpec& spec : specs) {
    uint64_t bytes = element_size(spec.datatype) * uint64_t{std::max(signature.max_batch, 1u)};
    if (spec.any_rank || bytes == 0) return kFreeSize;
    for (const int64_t dim : spec.model_dims) {
      const bool fits =
          dim >= 0 && !__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes);
      if (!fits || bytes > kFreeSize) return kFreeSize;
    }
    sum += bytes + apart::kAlignment;
  }
  return std::min(sum, kFreeSize);
}

}  // namespace

std::shared_ptr<Supervised> Processes::of(const Variant& variant, uint32_t group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(known_, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<Supervised>& known = known_[{variant.loads(), group}];
  if (auto there = known.lock()) return there;
  auto made = std::make_shared<Supervised>(variant.model, process_for(variant), type_, ledger_);
  known = made;
  return made;
}

std::map<Processes::Key, std::shared_ptr<Supervised>> Processes::all() const {
  std::map<Key, std::shared_ptr<Supervised>> result;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, known] : known_) {
    if (auto there = known.lock()) result.emplace(key, std::move(there));
  }
  return result;
}

std::vector<ProcessStatistics> Processes::statistics() const {
  std::map<std::string, ProcessStatistics> rows = ledger_->rows();
  for (const auto& [key, one] : all()) {
    ProcessStatistics& row = rows[one->model()];
    row.quarantined = row.quarantined || one->quarantined();
    row.there = row.there || one->there();
  }
  std::vector<ProcessStatistics> result;
  for (auto& [model, row] : rows) {
    row.model = model;
    result.push_back(std::move(row));
  }
  return result;
}

std::string Processes::why_away(const Variant& variant) const {
  for (const auto& [key, one] : all()) {
    if (key.first != variant.loads()) continue;
    if (std::string why = one->why_away(); !why.empty()) return why;
  }
  return {};
}

ModelProcess::Options Processes::process_for(const Variant& variant) const {
  ModelProcess::Options process{.slots = slots_};
  process.command = {options_.program, "model-process"};
  const double memory_mb = options_.process_memory_mb.value_or(
      usual_limit_mb(std::filesystem::path(variant.file).parent_path()));
  // GPUs' libraries take more than there is.
  if (type_.provider == "cpu" && std::isfinite(memory_mb)) {
    process.command.push_back(fmt::format("--memory-mb={:.0f}", memory_mb));
  }
  if (type_.provider != "cpu") process.command.emplace_back("--devices");
  if (const Backend& backend = backend_of(variant.config); backend.command != nullptr) {
    process.command.emplace_back("--");
    for (std::string& word : backend.command(variant)) process.command.push_back(std::move(word));
  }
  const bool widths = variant.loads() != variant.id;  // of which others are larger
  const Signature& signature = variant.signature;
  process.inputs_each = widths ? kFreeSize : most_bytes(signature.inputs, signature);
  process.outputs_each = widths ? kFreeSize : most_bytes(signature.outputs, signature);
  return process;
}

}  // namespace fermata::engine::apart
