#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace fermata {

// Time is integer nanoseconds in two strong types: an instant and a span. Both
// saturate nowhere; callers stay within about 290 years, and Time::infinite()
// means "never" and compares greater than every real instant.
class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration nanos(int64_t n) { return Duration(n); }
  static constexpr Duration micros(int64_t n) { return Duration(n * 1'000); }
  static constexpr Duration millis(int64_t n) { return Duration(n * 1'000'000); }
  static constexpr Duration seconds(int64_t n) { return Duration(n * 1'000'000'000); }
  // Rounds to the nearest nanosecond.
  static constexpr Duration from_millis(double ms) { return rounded(ms * 1e6); }
  static constexpr Duration from_seconds(double s) { return rounded(s * 1e9); }
  static constexpr Duration infinite() { return Duration(std::numeric_limits<int64_t>::max() / 4); }

  constexpr int64_t nanos() const { return nanos_; }
  constexpr double micros() const { return static_cast<double>(nanos_) * 1e-3; }
  constexpr double millis() const { return static_cast<double>(nanos_) * 1e-6; }
  constexpr double seconds() const { return static_cast<double>(nanos_) * 1e-9; }
  constexpr bool is_infinite() const { return *this >= infinite(); }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration o) const { return Duration(nanos_ + o.nanos_); }
  constexpr Duration operator-(Duration o) const { return Duration(nanos_ - o.nanos_); }
  constexpr Duration operator-() const { return Duration(-nanos_); }
  constexpr Duration operator*(int64_t k) const { return Duration(nanos_ * k); }
  constexpr Duration operator/(int64_t k) const { return Duration(nanos_ / k); }
  constexpr Duration scaled(double k) const { return rounded(static_cast<double>(nanos_) * k); }
  constexpr Duration& operator+=(Duration o) { return *this = *this + o; }
  constexpr Duration& operator-=(Duration o) { return *this = *this - o; }

 private:
  constexpr explicit Duration(int64_t n) : nanos_(n) {}
  // What is not less than infinite() is infinite, and so is what is no number.
  static constexpr Duration rounded(double n) {
    constexpr double kMost = 0x1p61;
    n = n < kMost ? n : kMost;
    n = n > -kMost ? n : -kMost;
    return Duration(static_cast<int64_t>(n < 0 ? n - 0.5 : n + 0.5));
  }
  int64_t nanos_ = 0;
};

// An instant on the driver's clock: virtual in the simulator, monotonic in the
// engine. The origin means nothing outside one driver.
class Time {
 public:
  constexpr Time() = default;
  static constexpr Time from_nanos(int64_t n) { return Time(n); }
  static constexpr Time infinite() { return Time(Duration::infinite().nanos()); }

  constexpr int64_t nanos() const { return nanos_; }
  constexpr bool is_infinite() const { return *this >= infinite(); }

  constexpr auto operator<=>(const Time&) const = default;
  // Infinite stays infinite under any finite shift.
  constexpr Time operator+(Duration d) const {
    return is_infinite() ? infinite() : Time(nanos_ + d.nanos());
  }
  constexpr Time operator-(Duration d) const {
    return is_infinite() ? infinite() : Time(nanos_ - d.nanos());
  }
  constexpr Duration operator-(Time o) const {
    return is_infinite() ? Duration::infinite() : Duration::nanos(nanos_ - o.nanos_);
  }

 private:
  constexpr explicit Time(int64_t n) : nanos_(n) {}
  int64_t nanos_ = 0;
};

}  // namespace fermata
