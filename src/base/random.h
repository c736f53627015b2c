#pragma once

#include <array>
#include <cstdint>

namespace fermata {

// A seeded generator: xoshiro256++ (Blackman and Vigna), its state filled by
// SplitMix64. Same seed, same numbers, on every compiler and standard library.
// Copies go on independently from the same point. Not safe across threads.
class Random {
 public:
  explicit Random(uint64_t seed);
  // The generator of a named part of a run: streams of one seed are unrelated,
  // so that adding a part does not change what the others draw.
  Random(uint64_t seed, uint64_t stream);

  uint64_t next();
  // [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // (0, 1]: safe to take the logarithm of.
  double positive() { return static_cast<double>((next() >> 11) + 1) * 0x1p-53; }
  // Each of 0..n-1 equally likely, without bias; n >= 1.
  uint64_t below(uint64_t n);

  // Distributions, from arithmetic that IEEE 754 fixes to the bit.
  double exponential(double mean);
  double normal();  // mean 0, variance 1
  // shape > 0, also below 1; mean shape * scale. (Marsaglia and Tsang 2000.)
  double gamma(double shape, double scale);
  uint64_t poisson(double mean);  // O(1) expected, mean >= 0

 private:
  std::array<uint64_t, 4> state_;
};

// ln x for x > 0 and e^x, within 4 units in the last place. Unlike libm's they
// give the same bits everywhere, so a simulated run does too.
double portable_log(double x);
double portable_exp(double x);
double portable_pow(double x, uint64_t n);  // O(log n)
double portable_erfc(double x);             // within 3e-13 of it, where that is above 1e-270

}  // namespace fermata
