#include "plan/ensemble/ensemble_counts.h"

#include <algorithm>
#include <limits>

namespace fermata::plan {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// The only loop that costs anything; built so that it is vectorised (CMakeLists.txt).
void take_best(double* __restrict row, const double* __restrict from, size_t length,
               double utility) {
  for (size_t j = 0; j < length; ++j) {
    const double value = from[j] + utility;
    row[j] = value > row[j] ? value : row[j];
  }
}

// By model: how many tasks the queries up to some place can give it.
void count_users(const EnsembleTables& tables, size_t i, TaskCounts& users) {
  Subset used = 0;
  for (const EnsembleOption& o : tables.options(i)) used |= o.subset;
  for (size_t k = 0; k < tables.models(); ++k) {
    users[k] = static_cast<uint16_t>(users[k] + (used >> k & 1));
  }
}

}  // namespace

double EnsembleCounts::work(const EnsembleTables& tables) {
  TaskCounts users = {};
  double sum = 0;
  for (size_t i = 0; i < tables.queries(); ++i) {
    count_users(tables, i, users);
    double layer = static_cast<double>(tables.options(i).size() + 1);
    for (size_t k = 0; k < tables.models(); ++k) {
      layer *= 1 + std::min(users[k], tables.room(i)[k]);
    }
    sum += layer;
  }
  return sum;
}

// Models that anybody uses, the one with the most tasks first: it makes the longest rows.
void EnsembleCounts::choose_axes(const EnsembleTables& tables) {
  TaskCounts users = {};
  for (size_t i = 0; i < tables.queries(); ++i) count_users(tables, i, users);
  axes_ = 0;
  for (uint32_t k = 0; k < tables.models(); ++k) {
    if (users[k] > 0) model_of_[axes_++] = k;
  }
  if (axes_ == 0) return;
  const TaskCounts& room = tables.room(tables.queries() - 1);
  const auto longest =
      std::max_element(model_of_.begin(), model_of_.begin() + axes_, [&](uint32_t a, uint32_t b) {
        return std::min(users[a], room[a]) < std::min(users[b], room[b]);
      });
  std::swap(*longest, model_of_[0]);
}

EnsembleCounts::Layer EnsembleCounts::layer_after(const EnsembleTables& tables, const Layer& before,
                                                  size_t i) const {
  Layer layer = {.first = before.first + before.cells};
  TaskCounts users = {};
  count_users(tables, i, users);
  for (size_t a = 0; a < axes_; ++a) {
    const uint32_t k = model_of_[a];
    layer.high[a] = std::min<uint32_t>(before.high[a] + users[k], tables.room(i)[k]);
    layer.stride[a] = static_cast<uint32_t>(layer.cells);
    layer.cells *= layer.high[a] + 1;
  }
  return layer;
}

// The best value of every cell of a row of the first axis.
void EnsembleCounts::fill_row(const Layer& from, const Layer& to, const Vector& at, double* row) {
  std::fill_n(row, to.high[0] + 1, kNever);
  for (const Move& move : moves_) {
    size_t start = from.first;
    bool exists = true;
    for (size_t a = 1; a < axes_; ++a) {
      const uint32_t before = at[a] - move.step[a];  // wraps where there is no task to take away
      exists &= before <= from.high[a];
      start += size_t{before} * from.stride[a];
    }
    if (!exists) continue;
    const size_t length = std::min(from.high[0], to.high[0] - move.step[0]) + 1;
    take_best(row + move.step[0], &values_[start], length, move.utility);
  }
}

// Counts that shared workers do not run by the deadline.
void EnsembleCounts::drop_late(const EnsembleTables& tables, size_t i, Vector at, double* row) {
  for (at[0] = 0; at[0] <= layers_[i + 1].high[0]; ++at[0]) {
    TaskCounts counts = {};
    for (size_t a = 0; a < axes_; ++a) counts[model_of_[a]] = static_cast<uint16_t>(at[a]);
    if (!tables.workers_have_time(i, counts, 0)) row[at[0]] = kNever;
  }
}

void EnsembleCounts::fill(const EnsembleTables& tables, size_t i) {
  moves_.assign(1, {});
  for (const EnsembleOption& o : tables.options(i)) {
    Move move = {.utility = o.utility, .subset = o.subset};
    for (size_t a = 0; a < axes_; ++a) move.step[a] = o.subset >> model_of_[a] & 1;
    moves_.push_back(move);
  }
  const Layer& from = layers_[i];
  const Layer& to = layers_[i + 1];
  Vector at = {};
  for (size_t cell = 0; cell < to.cells; cell += to.high[0] + 1) {
    fill_row(from, to, at, &values_[to.first + cell]);
    if (tables.shares_workers()) drop_late(tables, i, at, &values_[to.first + cell]);
    for (size_t a = 1; a < axes_ && ++at[a] > to.high[a]; ++a) at[a] = 0;
  }
}

EnsembleCounts::Vector EnsembleCounts::coordinates(const Layer& layer, size_t cell) const {
  Vector at = {};
  for (size_t a = 0; a < axes_; ++a) {
    at[a] = static_cast<uint32_t>(cell / layer.stride[a] % (layer.high[a] + 1));
  }
  return at;
}

size_t EnsembleCounts::best_end(const EnsembleTables& tables) const {
  const Layer& last = layers_.back();
  size_t best = 0;
  Duration best_time;
  for (size_t cell = 0; cell < last.cells; ++cell) {
    const double value = values_[last.first + cell], record = values_[last.first + best];
    if (value < record) continue;
    const Vector at = coordinates(last, cell);
    Duration time;
    for (size_t a = 0; a < axes_; ++a) time += tables.latency(model_of_[a]) * at[a];
    if (value == record && time >= best_time) continue;
    best = cell;
    best_time = time;
  }
  return best;
}

void EnsembleCounts::solve(const EnsembleTables& tables, std::vector<Subset>& subsets) {
  const size_t n = tables.queries();
  choose_axes(tables);
  layers_.assign(1, {});
  for (size_t i = 0; i < n; ++i) layers_.push_back(layer_after(tables, layers_.back(), i));
  values_.resize(std::max(values_.size(), layers_.back().first + layers_.back().cells));
  values_[0] = 0;
  for (size_t i = 0; i < n; ++i) fill(tables, i);

  subsets.assign(n, 0);
  Vector at = coordinates(layers_.back(), best_end(tables));
  const auto value = [&](const Layer& layer) {
    size_t cell = layer.first;
    for (size_t a = 0; a < axes_; ++a) {
      if (at[a] > layer.high[a]) return kNever;
      cell += size_t{at[a]} * layer.stride[a];
    }
    return values_[cell];
  };
  for (size_t i = n; i-- > 0;) {
    const double reached = value(layers_[i + 1]);
    if (value(layers_[i]) == reached) continue;
    for (const EnsembleOption& o : tables.options(i)) {
      const Vector after = at;
      for (size_t a = 0; a < axes_; ++a) at[a] -= o.subset >> model_of_[a] & 1;
      if (value(layers_[i]) + o.utility == reached) {
        subsets[i] = o.subset;
        break;
      }
      at = after;
    }
  }
}

}  // namespace fermata::plan
