#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace fermata::serve {

// Lines of work that waits, one for each key, that have equal shares: the line is first whose first
// work would end first if all were served at the same time, by their bytes (weighted fair
// queueing). A line is made with its key's first work and goes with its last. Each has
// push(work...), pop(), empty(), and of its first work bytes() and posted(), which is another
// number for each. All takes O(log lines), and what the line takes.
template <typename Key, typename Line>
class FairTurns {
 public:
  bool empty() const { return order_.empty(); }
  uint64_t bytes() const { return first().line.bytes(); }
  uint64_t posted() const { return first().line.posted(); }

  template <typename... Work>
  void push(const Key& key, Work&&... work) {
    const auto [entry, is_new] = entries_.try_emplace(key);
    if (is_new) entry->second.had = now_;
    if (!is_new) order_.erase(entry->second.turn);
    entry->second.line.push(std::forward<Work>(work)...);
    place(entry);
  }
  // Of one that is not empty.
  auto pop() {
    const auto entry = order_.begin()->second;
    order_.erase(order_.begin());
    const uint64_t bytes = entry->second.line.bytes();
    auto work = entry->second.line.pop();
    now_ += bytes / entries_.size();
    entry->second.had += bytes;
    entry->second.line.empty() ? void(entries_.erase(entry)) : place(entry);
    return work;
  }

 private:
  // How much its key will have had with the first work, and as which that was posted.
  using Turn = std::pair<uint64_t, uint64_t>;
  struct Entry {
    uint64_t had = 0;  // bytes
    Turn turn;
    Line line;
  };
  using Entries = std::map<Key, Entry>;

  const Entry& first() const { return order_.begin()->second->second; }
  void place(typename Entries::iterator at) {
    Entry& entry = at->second;
    entry.turn = {entry.had + entry.line.bytes(), entry.line.posted()};
    order_.emplace(entry.turn, at);
  }

  Entries entries_;
  std::map<Turn, typename Entries::iterator> order_;
  uint64_t now_ = 0;  // bytes that each share has had
};

}  // namespace fermata::serve
