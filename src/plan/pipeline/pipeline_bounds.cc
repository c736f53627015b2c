#include "plan/pipeline/pipeline_bounds.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fermata::plan {
namespace {

constexpr int kMostTotals = 60;   // tried for one mix
constexpr int kMixes = 24;        // of limits, where there are several
constexpr double kNarrow = 1e-9;  // relative, between tangents
constexpr double kFirstTotal = 1.0;

// The weight of each limit under a choice, and the longest path.
struct Usage {
  double of_mix = 0;              // 1: the limits are kept on average
  double path = 0;                // of the SLA
  double cost = 0;                // of max_cost
  std::vector<uint32_t> longest;  // stages of the longest path, the last first
};

class Dual {
 public:
  explicit Dual(const SearchSpace& space) : space_(space) {}
  DualBound solve();

 private:
  struct Probe {
    double total, value, usage;
    std::vector<uint32_t> choice;
  };
  Probe probe(const LimitMix& mix, double total);
  Probe best_total(const LimitMix& mix);
  Usage usage(const std::vector<uint32_t>& choice) const;
  double usage_of_mix(const LimitMix& mix, const std::vector<uint32_t>& choice) const;
  LimitMix single(const Usage& usage) const;

  const SearchSpace& space_;
  std::vector<std::vector<uint32_t>> choices_;
};

double share_of_cost(const SearchSpace& space, double cost) {
  return std::isfinite(space.max_cost) ? cost / std::max(space.max_cost, 1e-300) : 0;
}

double Dual::usage_of_mix(const LimitMix& mix, const std::vector<uint32_t>& choice) const {
  double used = 0;
  for (uint32_t k = 0; k < choice.size(); ++k) {
    const StageOption& option = space_.stages[k].options[choice[k]];
    used +=
        mix.through(k) * option.ms / space_.sla_ms + mix.cost * share_of_cost(space_, option.cost);
  }
  return used;
}

Usage Dual::usage(const std::vector<uint32_t>& choice) const {
  Usage result;
  const size_t n = choice.size();
  std::vector<double> end(n);
  std::vector<int> before(n, -1);
  size_t last = 0;
  for (size_t k = 0; k < n; ++k) {
    const StageOption& option = space_.stages[k].options[choice[k]];
    for (const uint32_t p : space_.stages[k].after) {
      if (before[k] < 0 || end[p] > end[static_cast<size_t>(before[k])])
        before[k] = static_cast<int>(p);
    }
    end[k] = option.ms + (before[k] < 0 ? 0 : end[static_cast<size_t>(before[k])]);
    if (end[k] >= end[last]) last = k;
    result.cost += share_of_cost(space_, option.cost);
  }
  result.path = end[last] / space_.sla_ms;
  for (int k = static_cast<int>(last); k >= 0; k = before[static_cast<size_t>(k)]) {
    result.longest.push_back(static_cast<uint32_t>(k));
  }
  return result;
}

LimitMix empty_mix(const SearchSpace& space) {
  LimitMix mix;
  for (const SearchStage& stage : space.stages) {
    mix.into.emplace_back(std::max<size_t>(1, stage.after.size()), 0.0);
  }
  return mix;
}

// All weight on the limit that is broken most.
LimitMix Dual::single(const Usage& usage) const {
  LimitMix mix = empty_mix(space_);
  if (usage.cost > usage.path) {
    mix.cost = 1;
    return mix;
  }
  for (size_t i = 0; i < usage.longest.size(); ++i) {
    const uint32_t k = usage.longest[i];
    size_t from = 0;
    if (i + 1 < usage.longest.size()) {
      const auto& after = space_.stages[k].after;
      from = static_cast<size_t>(std::find(after.begin(), after.end(), usage.longest[i + 1]) -
                                 after.begin());
    }
    mix.into[k][from] = 1;
  }
  return mix;
}

void blend(LimitMix& mix, const LimitMix& other, double share) {
  mix.cost += share * (other.cost - mix.cost);
  for (size_t k = 0; k < mix.into.size(); ++k) {
    for (size_t p = 0; p < mix.into[k].size(); ++p) {
      mix.into[k][p] += share * (other.into[k][p] - mix.into[k][p]);
    }
  }
}

Dual::Probe Dual::probe(const LimitMix& mix, double total) {
  const LagrangianBound bound(space_, mix, total);
  Probe probe{total, bound.value(), 0, bound.choice()};
  probe.usage = usage_of_mix(mix, probe.choice);
  return probe;
}

// The bound is convex in the total, with slope 1 - usage: tangents on both sides of its least
// value meet at the next total to try.
Dual::Probe Dual::best_total(const LimitMix& mix) {
  Probe low = probe(mix, 0), high = low;
  if (low.usage <= 1) return low;
  for (double total = kFirstTotal; high.usage > 1; total *= 8) {
    if (total > 1e15) return low.value < high.value ? low : high;  // nothing keeps the limits
    if (total > kFirstTotal) low = high;
    high = probe(mix, total);
  }
  Probe best = low.value < high.value ? low : high;
  for (int i = 0; i < kMostTotals && high.total - low.total > kNarrow * high.total; ++i) {
    const double next =
        low.total + (high.value - low.value - (1 - high.usage) * (high.total - low.total)) /
                        ((1 - low.usage) - (1 - high.usage));
    if (!(next > low.total && next < high.total)) break;
    Probe middle = probe(mix, next);
    if (middle.value < best.value) best = middle;
    (middle.usage > 1 ? low : high) = std::move(middle);
  }
  choices_.push_back(high.choice);
  if (best.total == low.total) return best;
  best.choice = low.choice;  // what breaks the limits says which limit counts more
  return best;
}

DualBound Dual::solve() {
  std::vector<uint32_t> fastest;
  for (const SearchStage& stage : space_.stages) {
    const auto least = std::min_element(stage.options.begin(), stage.options.end(),
                                        [](const auto& a, const auto& b) { return a.ms < b.ms; });
    fastest.push_back(static_cast<uint32_t>(least - stage.options.begin()));
  }
  choices_.push_back(fastest);
  LimitMix mix = single(usage(fastest));
  Probe best = best_total(mix);
  DualBound result{best.value, best.total, mix, {}};
  Probe last = best;
  for (int i = 1; i < kMixes && last.total > 0; ++i) {
    const LimitMix broken = single(usage(last.choice));
    if (broken.into == mix.into && broken.cost == mix.cost) break;
    blend(mix, broken, 1.0 / (i + 1));
    last = best_total(mix);
    if (last.value < result.value) {
      result.value = last.value;
      result.total = last.total;
      result.mix = mix;
    }
  }
  result.choices = std::move(choices_);
  return result;
}

}  // namespace

double LimitMix::through(uint32_t stage) const {
  return std::accumulate(into[stage].begin(), into[stage].end(), 0.0);
}

std::vector<std::vector<uint32_t>> open_stages(const SearchSpace& space) {
  const size_t n = space.stages.size();
  std::vector<size_t> last(n, 0);  // the last successor
  for (size_t k = 0; k < n; ++k) {
    for (const uint32_t p : space.stages[k].after) last[p] = k;
  }
  std::vector<std::vector<uint32_t>> open(n + 1);
  for (size_t level = 0; level <= n; ++level) {
    for (uint32_t p = 0; p < level; ++p) {
      if (last[p] >= level) open[level].push_back(p);
    }
  }
  return open;
}

LagrangianBound::LagrangianBound(const SearchSpace& space, const LimitMix& mix, double total)
    : weight_(space.weight),
      per_cost_(total * mix.cost * share_of_cost(space, 1)),
      levels_(space.stages.size() + 1) {
  set_prices(space, mix, total);
  levels_.back().lines = {{.slope = 1, .intercept = 0, .from = 0, .option = 0, .next = 0}};
  for (size_t level = space.stages.size(); level-- > 0;) set_lines(space, mix, total, level);
}

void LagrangianBound::set_prices(const SearchSpace& space, const LimitMix& mix, double total) {
  const auto open = open_stages(space);
  for (size_t level = 0; level < levels_.size(); ++level) {
    Level& l = levels_[level];
    l.per_end.assign(open[level].size(), 0);
    double crossing = mix.cost;
    for (uint32_t k = static_cast<uint32_t>(level); k < space.stages.size(); ++k) {
      const auto& after = space.stages[k].after;
      if (after.empty()) crossing += mix.into[k][0];
      for (size_t i = 0; i < after.size(); ++i) {
        if (after[i] >= level) continue;
        const auto slot = std::find(open[level].begin(), open[level].end(), after[i]);
        l.per_end[static_cast<size_t>(slot - open[level].begin())] +=
            total * mix.into[k][i] / space.sla_ms;
        crossing += mix.into[k][i];
      }
    }
    l.constant = total * crossing;
  }
}

void LagrangianBound::set_lines(const SearchSpace& space, const LimitMix& mix, double total,
                                size_t level) {
  const SearchStage& stage = space.stages[level];
  const double per_ms = total * mix.through(static_cast<uint32_t>(level)) / space.sla_ms;
  double to = weight_;
  for (size_t k = 0; k < level; ++k) {
    double most = 0;
    for (const StageOption& option : space.stages[k].options) most = std::max(most, option.factor);
    to *= most;
  }
  // Of the options only those on their own envelope can be the best anywhere.
  std::vector<Line> options;
  for (uint32_t o = 0; o < stage.options.size(); ++o) {
    const StageOption& option = stage.options[o];
    options.push_back({.slope = option.factor,
                       .intercept = option.value - per_ms * option.ms - per_cost_ * option.cost,
                       .from = 0,
                       .option = o,
                       .next = 0});
  }
  const std::vector<Line>& after = levels_[level + 1].lines;
  keep_envelope(options, to * after.back().slope);
  std::vector<Line>& lines = levels_[level].lines;
  for (const Line& option : options) {
    for (uint32_t i = 0; i < after.size(); ++i) {
      lines.push_back({.slope = option.slope * after[i].slope,
                       .intercept = option.intercept + after[i].intercept,
                       .from = 0,
                       .option = option.option,
                       .next = i});
    }
  }
  keep_envelope(lines, to);
}

// Keeps the lines that are the highest somewhere in [0, to].
void LagrangianBound::keep_envelope(std::vector<Line>& lines, double to) {
  std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return std::tie(a.slope, b.intercept, a.option, a.next) <
           std::tie(b.slope, a.intercept, b.option, b.next);
  });
  size_t kept = 0;
  for (const Line& line : lines) {
    double from = 0;
    while (kept > 0) {
      const Line& top = lines[kept - 1];
      if (line.slope == top.slope) {
        from = std::numeric_limits<double>::infinity();  // the first of a slope is the highest
      } else {
        from = std::max(0.0, (top.intercept - line.intercept) / (line.slope - top.slope));
      }
      if (from > top.from) break;
      --kept;
      from = 0;
    }
    if (from > to) continue;
    const Line added = line;
    lines[kept] = added;
    lines[kept++].from = from;
  }
  lines.resize(kept);
}

const LagrangianBound::Line& LagrangianBound::at(const Level& level, double w) {
  const auto after = std::partition_point(level.lines.begin(), level.lines.end(),
                                          [w](const Line& line) { return line.from <= w; });
  return after == level.lines.begin() ? level.lines.front() : *std::prev(after);
}

double LagrangianBound::value() const {
  const Line& line = at(levels_[0], weight_);
  return line.slope * weight_ + line.intercept + levels_[0].constant;
}

std::vector<uint32_t> LagrangianBound::choice() const {
  std::vector<uint32_t> options;
  const Line* line = &at(levels_[0], weight_);
  for (size_t level = 0; level + 1 < levels_.size(); ++level) {
    options.push_back(line->option);
    line = &levels_[level + 1].lines[line->next];
  }
  return options;
}

double LagrangianBound::of(size_t level, double factor, double value, double cost,
                           const double* ends) const {
  const Level& l = levels_[level];
  const double w = weight_ * factor;
  const Line& line = at(l, w);
  double bound = value + line.slope * w + line.intercept + l.constant - per_cost_ * cost;
  for (size_t i = 0; i < l.per_end.size(); ++i) bound -= l.per_end[i] * ends[i];
  return bound;
}

DualBound dual_bound(const SearchSpace& space) { return Dual(space).solve(); }

}  // namespace fermata::plan
