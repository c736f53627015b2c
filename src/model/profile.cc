#include "model/profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace fermata {
namespace {

// The polynomial with N coefficients, constant first, whose relative residuals are the
// least: normal equations, solved by elimination; the matrix is small and positive definite.
template <size_t N>
std::array<double, N> least_squares(const Profile& profile) {
  std::array<std::array<double, N + 1>, N> m{};
  for (const auto& [batch, measured] : profile.batches) {
    std::array<double, N> power{};
    for (size_t i = 0; i < N; ++i) power[i] = std::pow(batch, i) / measured.p50_ms;
    for (size_t i = 0; i < N; ++i) {
      for (size_t j = 0; j < N; ++j) m[i][j] += power[i] * power[j];
      m[i][N] += power[i];
    }
  }
  for (size_t i = 0; i < N; ++i) {
    for (size_t row = 0; row < N; ++row) {
      if (row == i) continue;
      const double factor = m[row][i] / m[i][i];
      for (size_t j = i; j <= N; ++j) m[row][j] -= factor * m[i][j];
    }
  }
  std::array<double, N> solution{};
  for (size_t i = 0; i < N; ++i) solution[i] = m[i][N] / m[i][i];
  return solution;
}

double relative_error(const Profile& profile, const QuadraticLatency& curve) {
  double sum = 0;
  for (const auto& [batch, measured] : profile.batches) {
    const double b = batch;
    const double residual = curve.a * b * b + curve.b * b + curve.c - measured.p50_ms;
    sum += residual * residual / (measured.p50_ms * measured.p50_ms);
  }
  return std::sqrt(sum / static_cast<double>(profile.batches.size()));
}

double between(double x, double x0, double y0, double x1, double y1) {
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

}  // namespace

void fit(Profile& profile) {
  if (profile.batches.empty()) return;
  LinearLatency line{0, profile.batches.begin()->second.p50_ms};
  if (profile.batches.size() > 1) {
    const auto [constant, slope] = least_squares<2>(profile);
    line = {slope, constant};
  }
  QuadraticLatency curve{0, line.alpha_ms, line.beta_ms};
  profile.linear = {line, relative_error(profile, curve)};
  if (profile.batches.size() > 2) {
    const auto [c, b, a] = least_squares<3>(profile);
    curve = {a, b, c};
  }
  profile.quadratic = {curve, relative_error(profile, curve)};
}

AnswerProfile answers_of(Confusion confusion) {
  AnswerProfile answers{.accuracy = confusion.accuracy()};
  for (uint32_t c = 0; c < confusion.classes(); ++c) answers.recall.push_back(confusion.recall(c));
  answers.confusion = std::move(confusion);
  return answers;
}

TableLatency latency_at(const Profile& profile, double quantile) {
  TableLatency table;
  for (const auto& [batch, measured] : profile.batches) {
    table.points_ms[batch] =
        quantile <= 0.9
            ? between(std::max(quantile, 0.5), 0.5, measured.p50_ms, 0.9, measured.p90_ms)
            : between(std::min(quantile, 0.99), 0.9, measured.p90_ms, 0.99, measured.p99_ms);
  }
  return table;
}

}  // namespace fermata
