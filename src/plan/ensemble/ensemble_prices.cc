#include "plan/ensemble/ensemble_prices.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace fermata::plan {
namespace {

constexpr uint64_t kMostMoves = 150;
constexpr int kPatience = 8;  // steps without a better bound, before they get shorter
constexpr double kSamePrice = 1e-9;

}  // namespace

uint64_t EnsemblePrices::fit(const EnsembleTables& tables, uint64_t max_steps) {
  const size_t n = tables.queries();
  multiplier_.assign(n, {});
  excess_.assign(n, {});
  price_.assign(n + 1, {});
  rest_.assign(n + 1, 0.0);
  bound_ = std::numeric_limits<double>::infinity();
  utility_ = -1;
  double length = 1;
  int worse = 0;
  // A place without options is looked at too.
  const uint64_t look = n + tables.options();
  const uint64_t moves = std::clamp<uint64_t>(max_steps / look, 1, kMostMoves);
  uint64_t looks = 0;
  for (; looks < moves && bound_ > utility_ + kSamePrice; ++looks) {
    follow_prices(tables);
    if (rest_[0] < bound_) {
      bound_ = rest_[0];
      best_multiplier_ = multiplier_;
      worse = 0;
    } else if (++worse == kPatience) {
      length /= 2;
      worse = 0;
      multiplier_ = best_multiplier_;
      follow_prices(tables);
    }
    move(tables, length * (bound_ - utility_));
  }
  multiplier_ = best_multiplier_;
  follow_prices(tables);
  return (looks + 1) * look;
}

void EnsemblePrices::follow_prices(const EnsembleTables& tables) {
  set_prices(tables);
  const double utility = follow(tables);
  if (utility <= utility_) return;
  utility_ = utility;
  subsets_.swap(following_);
}

void EnsemblePrices::set_prices(const EnsembleTables& tables) {
  for (size_t i = tables.queries(); i-- > 0;) {
    for (size_t k = 0; k < tables.models(); ++k) {
      price_[i][k] = price_[i + 1][k] + multiplier_[i][k];
    }
  }
}

// What place i pays for each subset.
void EnsemblePrices::set_costs(const EnsembleTables& tables, size_t i) {
  cost_.resize(size_t{1} << tables.models());
  for (Subset s = 1; s < cost_.size(); ++s) {
    cost_[s] = cost_[s & (s - 1)] + price_[i][static_cast<size_t>(std::countr_zero(s))];
  }
}

// What all places would take if there were room, and what that bounds: sets rest and excess; and
// what they take, one after the other, of what there is room for. The utility of that.
double EnsemblePrices::follow(const EnsembleTables& tables) {
  following_.assign(tables.queries(), 0);
  TaskCounts wished = {}, counts = {};
  double utility = 0;
  for (size_t i = 0; i < tables.queries(); ++i) {
    set_costs(tables, i);
    EnsembleOption wish = {0, 0}, taken = {0, 0};
    double best = 0, best_with_room = 0;
    for (const EnsembleOption& o : tables.options(i)) {
      const double worth = o.utility - cost_[o.subset];
      if (worth > best) {
        best = worth;
        wish = o;
      }
      if (worth > best_with_room && tables.has_room(i, counts, o.subset)) {
        best_with_room = worth;
        taken = o;
      }
    }
    rest_[i] = best;
    add_tasks(wished, wish.subset);
    for (size_t k = 0; k < tables.models(); ++k) {
      excess_[i][k] = static_cast<double>(wished[k]) - tables.room(i)[k];
    }
    following_[i] = taken.subset;
    utility += taken.utility;
    add_tasks(counts, taken.subset);
  }
  for (size_t i = tables.queries(); i-- > 0;) {
    rest_[i] += rest_[i + 1];
    for (size_t k = 0; k < tables.models(); ++k) {
      rest_[i] += multiplier_[i][k] * tables.room(i)[k];
    }
  }
  return utility;
}

// Along the excess, so far that the bound would fall by `gap` if it were linear.
void EnsemblePrices::move(const EnsembleTables& tables, double gap) {
  double squares = 0;
  for (size_t i = 0; i < tables.queries(); ++i) {
    for (size_t k = 0; k < tables.models(); ++k) {
      // Of equal rooms the last says it all, and what is not asked for stays free.
      const bool last = i + 1 == tables.queries() || tables.room(i + 1)[k] > tables.room(i)[k];
      if (!last || (excess_[i][k] < 0 && multiplier_[i][k] == 0)) excess_[i][k] = 0;
      squares += excess_[i][k] * excess_[i][k];
    }
  }
  if (squares == 0) return;
  for (size_t i = 0; i < tables.queries(); ++i) {
    for (size_t k = 0; k < tables.models(); ++k) {
      multiplier_[i][k] = std::max(0.0, multiplier_[i][k] + gap / squares * excess_[i][k]);
    }
  }
}

}  // namespace fermata::plan
