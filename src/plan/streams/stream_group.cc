#include "plan/streams/stream_group.h"

#include <algorithm>

namespace fermata::plan {

StreamGroup::StreamGroup(const StreamTables& tables) : tables_(&tables) {
  change(kNoGroup, kNoGroup);
}

double StreamGroup::load_with(uint32_t out, uint32_t in) const {
  double load = load_;
  if (out != kNoGroup) load = members_.size() == 1 ? 0 : load - tables_->rate(out);
  return in == kNoGroup ? load : load + tables_->rate(in);
}

StreamGroup::Changed StreamGroup::rank_with(uint32_t out, uint32_t in) const {
  Changed changed = {load_with(out, in)};
  if (changed.load > (out == kNoGroup ? most_ : most_without_)) changed.rank = tables_->ranks();
  while (changed.rank < tables_->ranks() && changed.load > capacity_with(changed.rank, out, in)) {
    ++changed.rank;
  }
  return changed;
}

StreamGroup::Changed StreamGroup::room_with(uint32_t out, uint32_t in) const {
  Changed changed = {load_with(out, in)};
  double most = 0;
  for (const uint32_t r : tables_->roomy_ranks()) most = std::max(most, capacity_with(r, out, in));
  changed.room = most - changed.load;
  return changed;
}

void StreamGroup::change(uint32_t out, uint32_t in) {
  if (out != kNoGroup) std::erase(members_, out);
  if (in != kNoGroup) members_.push_back(in);
  load_ = 0;
  for (const uint32_t c : members_) load_ += tables_->rate(c);
  const uint32_t ranks = tables_->ranks();
  least_.resize(ranks);
  holder_.assign(ranks, kNoGroup - 1);
  for (uint32_t r = 0; r < ranks; ++r) least_[r] = tables_->highest(r);
  second_ = least_;
  for (const uint32_t c : members_) {
    const double* capacity = tables_->capacity_of(c);
    for (uint32_t r = 0; r < ranks; ++r) {
      const bool holds = capacity[r] <= least_[r];
      second_[r] = holds ? least_[r] : std::min(second_[r], capacity[r]);
      least_[r] = holds ? capacity[r] : least_[r];
      holder_[r] = holds ? c : holder_[r];
    }
  }
  most_ = *std::max_element(least_.begin(), least_.end());
  most_without_ = *std::max_element(second_.begin(), second_.end());
}

}  // namespace fermata::plan
