#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "absl/hash/hash.h"
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
// within a second, unless its address is the newcomer's or has more. Where the last places are not
// the newcomer's, none but of its address, and of those that have more one that is at no work.
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

  // `newcomer`: it lives as long; none where a descriptor is wanted, for nobody. `any_place`: it
  // may have the last ones too.
  WhoGivesWay(const AddressCounts::Place* newcomer, bool any_place, Moment now)
      : newcomer_(newcomer),
        own_(newcomer == nullptr ? SIZE_MAX : newcomer->count()),
        any_place_(any_place),
        now_(now) {}

  // Whether it goes before all that were shown so far.
  bool is_first(const Connection& shown) {
    const size_t count = shown.place.count();
    const bool is_own = newcomer_ != nullptr && shown.place.has_address_of(*newcomer_);
    const bool is_of_more = !is_own && count > own_;
    const bool is_of_fewer = newcomer_ != nullptr && !is_own && count < own_;
    const bool is_of_others = newcomer_ != nullptr && !is_own && !is_of_more;
    if (is_of_others && (!any_place_ || now_ - shown.opened < kShort)) return false;
    if (!is_own && !any_place_ && is_at_work(shown.how)) return false;
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
  static bool is_at_work(InTheWay how) {
    return how == InTheWay::kLongUpload || how == InTheWay::kWaitsLong || how == InTheWay::kBusy;
  }
  enum Turn : uint8_t { kOwn, kInOrder, kLast, kOfFewer, kNobody };
  using Order = std::tuple<Turn, InTheWay, double, Moment>;

  const AddressCounts::Place* const newcomer_;
  const size_t own_;  // connections, of its address
  const bool any_place_;
  const Moment now_;
  Order first_{kNobody, InTheWay::kBusy, 0, Moment()};
};

// Where newcomers get a place, or none. After a search that found none, which takes O(connections),
// there is none for newcomers of that address for as long as keeps searches from taking more than a
// small part of a thread. It remembers 1024 such addresses, of which a later one may take the
// place.
class Entrance {
 public:
  using Moment = WhoGivesWay::Moment;

  // Whether `newcomer` gets one of `most` places, the last by places_for(), where so many are
  // `taken`. `make_place(any_place, now)` closes the one that gives way, and says whether there was
  // one.
  template <typename MakePlace>
  bool lets_in(const AddressCounts::Place& newcomer, size_t taken, size_t most, Moment now,
               MakePlace make_place) {
    const size_t places = places_for(newcomer.count(), most);
    if (taken < places) return true;
    const size_t address = absl::HashOf(newcomer.address());
    NoneFound& none = none_found_[address % none_found_.size()];
    if (none.address == address && now < none.until) return false;
    if (make_place(places == most, now)) return true;
    none = {address, now + taken * kForEach};
    return false;
  }

 private:
  static constexpr std::chrono::microseconds kForEach{1};
  struct NoneFound {
    size_t address = 0;  // hashed
    Moment until{};
  };
  std::array<NoneFound, 1024> none_found_{};
};

}  // namespace fermata::serve
