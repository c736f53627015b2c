#include "base/random.h"

#include <bit>
#include <cmath>

#include "base/check.h"

namespace fermata {
namespace {

constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 32 bits, so that k * high is exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

uint64_t splitmix(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// As std::frexp, without a call for what is usual: x > 0.
struct FractionAndExponent {
  double fraction;
  int exponent;
};
FractionAndExponent fraction_and_exponent(double x) {
  constexpr uint64_t kExponent = uint64_t{0x7ff} << 52, kOfHalf = uint64_t{0x3fe} << 52;
  const auto bits = std::bit_cast<uint64_t>(x);
  const auto biased = static_cast<int>(bits >> 52);
  if (biased == 0 || biased >= 0x7ff) [[unlikely]] {
    FractionAndExponent parts{};
    parts.fraction = std::frexp(x, &parts.exponent);
    return parts;
  }
  return {std::bit_cast<double>((bits & ~kExponent) | kOfHalf), biased - 0x3fe};
}

// ln Γ(x + 1) by Stirling's series after shifting x up: x >= 0.
double log_factorial(double x) {
  double product = 1;
  for (; x < 12; x += 1) product *= x + 1;
  const double y = 1 / (x * x);
  const double series = (1.0 / 12 - y * (1.0 / 360 - y * (1.0 / 1260 - y / 1680))) / x;
  constexpr double kHalfLog2Pi = 0.91893853320467274178;
  return (x + 0.5) * portable_log(x) - x + kHalfLog2Pi + series - portable_log(product);
}

}  // namespace

double portable_log(double x) {
  // x = m 2^k with m in [√½, √2); ln m = 2 atanh((m-1)/(m+1)).
  auto [m, k] = fraction_and_exponent(x);
  if (m < 0.70710678118654752440) {
    m *= 2;
    --k;
  }
  const double s = (m - 1) / (m + 1), z = s * s;
  constexpr double kOddParts[] = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                  1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
  double tail = 0;
  for (const double part : kOddParts) tail = z * (tail + part);
  return k * kLn2High + (k * kLn2Low + 2 * s * tail) + 2 * s;
}

double portable_exp(double x) {
  if (x < -745) return 0;
  if (x > 709) return HUGE_VAL;
  const double k = std::nearbyint(x * 1.44269504088896340736);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 1;
  for (int n = 13; n >= 1; --n) sum = 1 + sum * r / n;
  return std::ldexp(sum, static_cast<int>(k));
}

double portable_pow(double x, uint64_t n) {
  double power = 1;
  for (; n > 0; n /= 2, x *= x) {
    if (n % 2 != 0) power *= x;
  }
  return power;
}

double portable_erfc(double x) {
  if (x < 0) return 2 - portable_erfc(-x);
  constexpr double kRootPi = 1.77245385090551602730;
  const double bell = portable_exp(-x * x) / kRootPi;
  if (x < 2) {  // erf x = 2 bell (x + 2/3 x^3 + 2^2/(3 5) x^5 + ...)
    double term = x, sum = x;
    for (int n = 1; n <= 60; ++n) sum += term *= 2 * x * x / (2 * n + 1);
    return 1 - 2 * bell * sum;
  }
  // erfc x = bell / (x + (1/2) / (x + 1 / (x + (3/2) / (x + ...
  double below = x;
  for (int n = 80; n >= 1; --n) below = x + n / (2 * below);
  return bell / below;
}

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) word = splitmix(seed);
}

Random::Random(uint64_t seed, uint64_t stream) : Random(splitmix(seed) ^ splitmix(stream)) {}

uint64_t Random::next() {
  const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t Random::below(uint64_t n) {
  FERMATA_CHECK(n > 0);
  // What is below 2^64 mod n is rejected, or small results would come more often.
  uint64_t x = next();
  while (x < n && x < -n % n) x = next();
  return x % n;
}

double Random::exponential(double mean) { return -mean * portable_log(positive()); }

double Random::normal() {
  // Marsaglia's polar method; the second number is let go to keep no state.
  while (true) {
    const double x = 2 * uniform() - 1, y = 2 * uniform() - 1, s = x * x + y * y;
    if (s > 0 && s < 1) return x * std::sqrt(-2 * portable_log(s) / s);
  }
}

double Random::gamma(double shape, double scale) {
  FERMATA_CHECK(shape > 0);
  if (shape < 1) {  // Γ(a) = Γ(a+1) · U^(1/a)
    const double boost = portable_exp(portable_log(positive()) / shape);
    return gamma(shape + 1, scale) * boost;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal(), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (portable_log(positive()) < 0.5 * x * x + d - d * v + d * portable_log(v)) {
      return d * v * scale;
    }
  }
}

uint64_t Random::poisson(double mean) {
  FERMATA_CHECK(mean >= 0);
  if (mean < 10) {  // count uniforms until their product falls below e^-mean
    const double limit = portable_exp(-mean);
    uint64_t n = 0;
    for (double product = positive(); product > limit; product *= positive()) ++n;
    return n;
  }
  // Hörmann's transformed rejection PTRD, without its squeeze steps (1993).
  const double b = 0.931 + 2.53 * std::sqrt(mean), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), log_mean = portable_log(mean);
  while (true) {
    const double u = uniform() - 0.5, v = positive(), us = 0.5 - std::fabs(u);
    if (us <= 0) continue;
    const double k = std::floor((2 * a / us + b) * u + mean + 0.43);
    if (k < 0 || (us < 0.013 && v > us)) continue;
    const double density = k * log_mean - mean - log_factorial(k);
    if (portable_log(v * inverse_alpha / (a / (us * us) + b)) <= density) {
      return static_cast<uint64_t>(k);
    }
  }
}

}  // namespace fermata
