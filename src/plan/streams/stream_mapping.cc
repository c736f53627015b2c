#include "plan/streams/stream_mapping.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace fermata::plan {
namespace {

// The greatest common divisor of rates that are whole thousandths; 0: they are not.
double common_step(const StreamTables& tables) {
  int64_t step = 0;
  for (uint32_t c = 0; c < tables.clients(); ++c) {
    const double thousandths = tables.rate(c) * 1000;
    if (std::abs(thousandths - std::round(thousandths)) > 1e-6 || thousandths > 1e12) return 0;
    step = std::gcd(step, static_cast<int64_t>(std::round(thousandths)));
  }
  return static_cast<double>(step) / 1000;
}

}  // namespace

StreamMapper::StreamMapper(const StreamTables& tables) : groups_(tables.clients(), kNoGroup) {
  double highest = 0;
  for (uint32_t r = 0; r < tables.ranks(); ++r) highest = std::max(highest, tables.highest(r));
  step_ = std::max({common_step(tables), highest / kMostColumns, 1e-9});
  words_ = static_cast<uint32_t>(highest / step_ + 1e-9) / kBits + 1;
  sums_.resize((tables.clients() + size_t{1}) * words_);
  sums_[0] = 1;
  for (uint32_t c = 0; c < tables.clients(); ++c) {
    // More than any DNN carries is one step more than the widest row.
    const double units = std::ceil(tables.rate(c) / step_ - 1e-9);
    units_.push_back(static_cast<uint32_t>(std::clamp(units, 1.0, kMostColumns + 1.0)));
  }
  for (uint32_t r = 0; r < tables.ranks(); ++r) {
    std::vector<uint32_t> clients;
    uint32_t most = 1;
    for (uint32_t c = 0; c < tables.clients(); ++c) {
      if (tables.largest_batch(r, c) > 0) clients.push_back(c);
      most = std::max(most, tables.largest_batch(r, c));
    }
    std::stable_sort(clients.begin(), clients.end(), [&](uint32_t a, uint32_t b) {
      return tables.longest_ms(r, a) > tables.longest_ms(r, b);
    });
    uint32_t last = 1;  // after it throughput first falls
    while (last < most && tables.throughput(r, last + 1) >= tables.throughput(r, last)) ++last;
    std::vector<Row>& rows = by_budget_.emplace_back();
    for (const uint32_t c : clients) {
      const double most_rate = tables.throughput(r, std::min(tables.largest_batch(r, c), last));
      rows.push_back({c, static_cast<uint32_t>(most_rate / step_ + 1e-9)});
    }
  }
}

// The sums with one more client, none beyond `columns`.
void StreamMapper::add_row(size_t row, uint32_t rate, uint32_t columns) {
  const uint64_t* before = &sums_[(row - 1) * words_];
  uint64_t* sums = &sums_[row * words_];
  const uint32_t last = columns / kBits, words = rate / kBits, bits = rate % kBits;
  steps_ += last + 1;
  if (words_ == 1) {
    const uint64_t more = words == 0 ? *before << bits : 0;
    *sums = (*before | more) & ~uint64_t{0} >> (kBits - 1 - columns);
    return;
  }
  for (uint32_t w = 0; w <= last; ++w) {
    uint64_t more = w >= words ? before[w - words] << bits : 0;
    if (bits > 0 && w > words) more |= before[w - words - 1] >> (kBits - bits);
    sums[w] = before[w] | more;
  }
  sums[last] &= ~uint64_t{0} >> (kBits - 1 - columns % kBits);
  std::fill(sums + last + 1, sums + words_, 0);
}

uint32_t StreamMapper::highest_sum(size_t row) const {
  for (uint32_t w = words_; w-- > 0;) {
    const uint64_t sums = sums_[row * words_ + w];
    if (sums != 0) return w * kBits + kBits - 1 - static_cast<uint32_t>(std::countl_zero(sums));
  }
  return 0;
}

void StreamMapper::find_clients(uint32_t rank) {
  chosen_.clear();
  rows_.clear();
  uint32_t best = 0;
  size_t best_row = 0;
  for (const Row& row : by_budget_[rank]) {
    if (groups_[row.client] != kNoGroup) continue;
    rows_.push_back(row.client);
    add_row(rows_.size(), units_[row.client], row.columns);
    const uint32_t highest = highest_sum(rows_.size());
    if (highest > best) {
      best = highest;
      best_row = rows_.size();
    }
  }
  for (size_t row = best_row; row > 0; --row) {
    if (reached(row - 1, best)) continue;
    chosen_.push_back(rows_[row - 1]);
    best -= units_[rows_[row - 1]];
  }
}

const StreamGroups& StreamMapper::map(const std::vector<uint32_t>& ranks) {
  const auto differs = std::mismatch(ranks.begin(), ranks.end(), mapped_.begin(), mapped_.end());
  auto worker = static_cast<uint32_t>(differs.first - ranks.begin());
  for (uint32_t& group : groups_) {
    if (group != kNoGroup && group >= worker) group = kNoGroup;
  }
  steps_by_worker_.resize(ranks.size());
  steps_ = std::accumulate(steps_by_worker_.begin(), steps_by_worker_.begin() + worker, steps_);
  for (; worker < ranks.size(); ++worker) {
    const uint64_t before = steps_;
    find_clients(ranks[worker]);
    for (const uint32_t c : chosen_) groups_[c] = worker;
    steps_by_worker_[worker] = steps_ - before;
  }
  mapped_ = ranks;
  return groups_;
}

}  // namespace fermata::plan
