#include "cluster/wire/newcomers.h"

#include <algorithm>

namespace fermata::cluster {

bool Newcomers::may_come(const std::string& machine, Time now) {
  if (machines_.size() > look_beyond_) {
    std::erase_if(machines_, [now](const auto& entry) {
      return !entry.second.has_a_part && entry.second.may_come.is_full(now);
    });
    look_beyond_ = std::max(kFewMachines, 2 * machines_.size());
  }
  Machine& known =
      machines_.try_emplace(machine, Machine{{kAtOnce, kEachSecond, now}}).first->second;
  const bool is_rare = known.may_come.left(now) >= kAtOnce - kHardly;
  if (!known.may_come.take(1, now)) return false;
  return known.has_a_part || (is_rare ? rare_ : others_).take(1, now);
}

std::shared_ptr<Channel> Newcomers::add(const std::string& machine,
                                        const std::shared_ptr<Channel>& channel) {
  std::erase_if(newcomers_, [](const Newcomer& each) { return each.channel.expired(); });
  newcomers_.push_back({machine, channel});
  if (newcomers_.size() <= kMost) return nullptr;
  std::map<std::string, size_t> counts;
  size_t most = 0;
  for (const Newcomer& each : newcomers_) most = std::max(most, ++counts[each.machine]);
  const auto oldest = std::find_if(newcomers_.begin(), newcomers_.end(), [&](const Newcomer& each) {
    return counts[each.machine] == most;
  });
  std::shared_ptr<Channel> goes = oldest->channel.lock();
  newcomers_.erase(oldest);
  return goes;
}

void Newcomers::remove(const std::shared_ptr<Channel>& channel) {
  std::erase_if(newcomers_, [this, &channel](const Newcomer& each) {
    if (each.channel.lock() != channel) return false;
    machines_.try_emplace(each.machine, Machine{{kAtOnce, kEachSecond}}).first->second.has_a_part =
        true;
    return true;
  });
}

void Newcomers::cut_all() {
  for (const Newcomer& each : newcomers_) {
    if (const auto channel = each.channel.lock()) channel->cut();
  }
}

}  // namespace fermata::cluster
