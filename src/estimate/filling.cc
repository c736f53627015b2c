#include "estimate/filling.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/status.h"

namespace fermata::estimate {
namespace {

double squared_difference(absl::Span<const float> a, absl::Span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = double{a[i]} - double{b[i]};
    sum += difference * difference;
  }
  return sum;
}

}  // namespace

Filling::Filling(const std::vector<OutputTable>& by_model, uint32_t k, size_t most_records)
    : k_(k) {
  FERMATA_CHECK(check_tables(by_model).ok() && k > 0 && most_records > 0);
  const size_t rows = by_model[0].size();
  const size_t records = std::min(rows, most_records);
  for (size_t i = 0; i < records; ++i) {
    rows_.push_back(static_cast<uint32_t>(i * rows / records));
  }
  for (const OutputTable& all : by_model) {
    OutputTable& kept = by_model_.emplace_back(OutputTable{.width = all.width});
    kept.values.reserve(records * all.width);
    for (const uint32_t row : rows_) {
      const absl::Span<const float> output = all.row(row);
      kept.values.insert(kept.values.end(), output.begin(), output.end());
    }
  }
}

std::vector<Filling::Near> Filling::nearest(QueryOutputs outputs,
                                            std::optional<uint32_t> without) const {
  std::vector<Near> all;
  all.reserve(rows_.size());
  for (uint32_t record = 0; record < rows_.size(); ++record) {
    if (rows_[record] == without) continue;
    Near near{.record = record};
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!outputs[k].empty()) {
        near.squared += squared_difference(outputs[k], by_model_[k].row(record));
      }
    }
    all.push_back(near);
  }
  const size_t most = std::min<size_t>(k_, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(most), all.end());
  all.resize(most);
  return all;
}

absl::StatusOr<std::vector<std::vector<float>>> Filling::fill(
    QueryOutputs outputs, std::optional<uint32_t> without) const {
  if (outputs.size() != by_model_.size()) {
    return invalid("there are {} outputs, expected {}, one for each base model", outputs.size(),
                   by_model_.size());
  }
  size_t there = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].empty()) continue;
    ++there;
    if (outputs[k].size() != by_model_[k].width) {
      return invalid("base model {} gave {} numbers, in the history {}", k, outputs[k].size(),
                     by_model_[k].width);
    }
  }
  if (there == 0) return invalid("no base model gave an output, expected at least one");
  std::vector<Near> near;
  if (there < outputs.size()) {
    near = nearest(outputs, without);
    if (near.empty())
      return invalid("no other query is recorded: missing outputs cannot be filled");
    if (near.front().squared == 0) {
      near.erase(std::find_if(near.begin(), near.end(), [](Near n) { return n.squared > 0; }),
                 near.end());
    }
  }
  std::vector<std::vector<float>> filled(outputs.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs[k].empty()) {
      filled[k].assign(outputs[k].begin(), outputs[k].end());
      continue;
    }
    std::vector<double> sum(by_model_[k].width);
    double total = 0;
    for (const Near& record : near) {
      const double weight = record.squared == 0 ? 1 : 1 / std::sqrt(record.squared);
      total += weight;
      const absl::Span<const float> output = by_model_[k].row(record.record);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += weight * double{output[i]};
    }
    for (const double value : sum) filled[k].push_back(static_cast<float>(value / total));
  }
  return filled;
}

}  // namespace fermata::estimate
