#include "cluster/wire/newcomers.h"

#include <algorithm>

namespace fermata::cluster {

bool Newcomers::may_come(const std::string& machine, Time now) {
  if (machines_.size() > look_beyond_) {
    std::erase_if(machines_, [now](const auto& entry) { return entry.second.is_full(now); });
    look_beyond_ = std::max(kFewMachines, 2 * machines_.size());
  }
  return machines_.try_emplace(machine, kAtOnce, kEachSecond, now).first->second.take(1, now);
}

std::shared_ptr<Channel> Newcomers::add(const std::string& machine,
                                        const std::shared_ptr<Channel>& channel) {
  std::erase_if(newcomers_, [](const Newcomer& each) { return each.channel.expired(); });
  newcomers_.push_back({machine, channel});
  if (newcomers_.size() <= kMost) return nullptr;
  std::map<std::string, size_t> counts;
  for (const Newcomer& each : newcomers_) ++counts[each.machine];
  const auto by_count = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto most = std::max_element(counts.begin(), counts.end(), by_count);
  const auto oldest = std::find_if(newcomers_.begin(), newcomers_.end(), [&](const Newcomer& each) {
    return each.machine == most->first;
  });
  std::shared_ptr<Channel> goes = oldest->channel.lock();
  newcomers_.erase(oldest);
  return goes;
}

void Newcomers::remove(const std::shared_ptr<Channel>& channel) {
  std::erase_if(newcomers_,
                [&channel](const Newcomer& each) { return each.channel.lock() == channel; });
}

void Newcomers::cut_all() {
  for (const Newcomer& each : newcomers_) {
    if (const auto channel = each.channel.lock()) channel->cut();
  }
}

}  // namespace fermata::cluster
