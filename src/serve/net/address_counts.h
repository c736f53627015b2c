#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace fermata::serve {

// Of all places for connections, how many there are for one of an address that has so many, with
// it: the last sixteenth is left to addresses that have at most as many.
constexpr size_t places_for(size_t own, size_t most) {
  const size_t for_few = most / 16;
  return own > for_few ? most - for_few : most;
}

// How many connections each address has. Thread-safe.
class AddressCounts {
  using Counts = std::map<std::string, std::atomic<size_t>>;

 public:
  // Of one connection, until it goes.
  class Place {
   public:
    Place(std::shared_ptr<AddressCounts> of, const std::string& address)
        : of_(std::move(of)), entry_(of_->add(address)) {}
    ~Place() { of_->remove(entry_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // That its address has, with this one.
    size_t count() const { return entry_->second.load(std::memory_order_relaxed); }
    const std::string& address() const { return entry_->first; }
    bool has_address_of(const Place& other) const { return entry_ == other.entry_; }

   private:
    const std::shared_ptr<AddressCounts> of_;
    const Counts::iterator entry_;
  };

 private:
  Counts::iterator add(const std::string& address) {
    const std::scoped_lock lock(mutex_);
    const auto entry = counts_.try_emplace(address, 0).first;
    ++entry->second;
    return entry;
  }
  void remove(Counts::iterator entry) {
    const std::scoped_lock lock(mutex_);
    if (--entry->second == 0) counts_.erase(entry);
  }

  std::mutex mutex_;
  Counts counts_;
};

}  // namespace fermata::serve
