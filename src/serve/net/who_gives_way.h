#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "serve/net/address_counts.h"

namespace fermata::serve {

// How much a connection is in the way of a newcomer where all places are taken, most first.
enum class InTheWay : uint8_t {
  kOver,        // its last reply is written, and only its client's end is awaited
  kNeverAsked,  // it is idle, and has never had a reply
  kQuiet,       // idle for kLong
  kSlow,        // its body comes, or its reply goes, too slowly
  kIdleOfMany,  // for a second, and its address is the newcomer's or has more: found here
  kJustCame,    // it has had no time to ask
  kLongUpload,  // its body has been coming for kLong
  kIdle,
  kWaitsLong,  // for a reply, for kLong
  kBusy,
};

// Finds which connection gives way to a newcomer: one of its own address that never asked; else the
// first as above, from kIdle on only of addresses that have more than the newcomer's; else one that
// is idle or waits for long; else, of an address that has fewer, one up to kSlow. Of each kind one
// whose address has most, the longest unused of those; of slow ones the slowest. None that has come
// within a second, unless its address is the newcomer's or has more. Where places are left to
// addresses that have fewer, none but of the newcomer's and of those that have more.
class WhoGivesWay {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kTimeToAsk{100};  // of who has just come
  static constexpr std::chrono::seconds kLong{10};             // idle, or busy with one thing
  struct Connection {
    InTheWay how = InTheWay::kBusy;
    const AddressCounts::Place& place;
    Moment opened, used;  // used: it did something
    double slowness = 0;  // seconds
  };

  // `newcomer`: it lives as long; none where a descriptor is wanted, for nobody. `all_taken`: no
  // place is left to anybody.
  WhoGivesWay(const AddressCounts::Place* newcomer, bool all_taken, Moment now)
      : newcomer_(newcomer),
        own_(newcomer == nullptr ? SIZE_MAX : newcomer->count()),
        all_taken_(all_taken),
        now_(now) {}

  // Whether it goes before all that were shown so far.
  bool is_first(const Connection& shown) {
    const size_t count = shown.place.count();
    const bool is_own = newcomer_ != nullptr && shown.place.has_address_of(*newcomer_);
    const bool is_of_more = !is_own && count > own_;
    const bool is_of_fewer = newcomer_ != nullptr && !is_own && count < own_;
    const bool is_of_others = newcomer_ != nullptr && !is_own && !is_of_more;
    if (is_of_others && (!all_taken_ || now_ - shown.opened < kShort)) return false;
    InTheWay how = shown.how;
    const bool may_be_of_many = how == InTheWay::kIdle && (is_own || is_of_more);
    if (may_be_of_many && now_ - shown.used >= kShort) how = InTheWay::kIdleOfMany;
    if (is_of_fewer && how > InTheWay::kSlow) return false;
    if (how == InTheWay::kBusy && !is_of_more) return false;
    Turn turn = kInOrder;
    if (is_own && how <= InTheWay::kNeverAsked) turn = kOwn;
    if (how >= InTheWay::kIdle && !is_of_more) turn = kLast;
    if (is_of_fewer && how > InTheWay::kOver) turn = kOfFewer;
    const bool is_slow = how == InTheWay::kSlow;
    const double weight = is_slow ? shown.slowness : static_cast<double>(count);
    const Order order(turn, how, -weight, shown.used);
    if (order >= first_) return false;
    first_ = order;
    return true;
  }
  // No other can go before it but one like it: as in a flood of newcomers.
  bool is_sure() const { return std::get<Turn>(first_) == kOwn; }

 private:
  static constexpr std::chrono::seconds kShort{1};
  enum Turn : uint8_t { kOwn, kInOrder, kLast, kOfFewer, kNobody };
  using Order = std::tuple<Turn, InTheWay, double, Moment>;

  const AddressCounts::Place* const newcomer_;
  const size_t own_;  // connections, of its address
  const bool all_taken_;
  const Moment now_;
  Order first_{kNobody, InTheWay::kBusy, 0, Moment()};
};

// After a search that found none, which takes O(connections), there is none for as long as keeps
// searches from taking more than a small part of a thread.
class NoneFound {
 public:
  using Moment = WhoGivesWay::Moment;

  // For a newcomer whose address has `own`: one that has more finds no more.
  bool lasts(size_t own, Moment now) const { return own >= own_ && now < until_; }
  void remember(size_t own, size_t connections, Moment now) {
    own_ = own;
    until_ = now + connections * kForEach;
  }

 private:
  static constexpr std::chrono::microseconds kForEach{1};
  size_t own_ = SIZE_MAX;
  Moment until_{};
};

}  // namespace fermata::serve
