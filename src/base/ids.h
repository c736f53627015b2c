#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace fermata {

// A number that only means something among its own kind. Dense kinds start at
// zero and index vectors; none() is no one.
template <class Tag, class Rep = uint32_t>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(Rep value) : value_(value) {}
  static constexpr Id none() { return Id(); }

  constexpr Rep value() const { return value_; }
  constexpr size_t index() const { return static_cast<size_t>(value_); }
  constexpr bool is_none() const { return value_ == std::numeric_limits<Rep>::max(); }
  constexpr auto operator<=>(const Id&) const = default;

  template <class H>
  friend H AbslHashValue(H h, const Id& id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  Rep value_ = std::numeric_limits<Rep>::max();
};

using ServiceId = Id<struct ServiceTag>;    // what a client calls
using VariantId = Id<struct VariantTag>;    // one model artefact with a profile
using WorkerId = Id<struct WorkerTag>;      // runs one batch at a time
using KeyId = Id<struct KeyTag>;            // batch key: variant x shape, dense
using JobId = Id<struct JobTag, uint64_t>;  // a request, or a part of one

}  // namespace fermata
