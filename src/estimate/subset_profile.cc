#include "estimate/subset_profile.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace fermata::estimate {
namespace {

constexpr size_t kUsualPerBin = 50;
constexpr uint32_t kMostUsualBins = 10;
constexpr size_t kDrawnPerSize = 8;

std::vector<uint32_t> by_accuracy(absl::Span<const double> accuracies) {
  std::vector<uint32_t> order(accuracies.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return accuracies[a] > accuracies[b]; });
  return order;
}

// The last of a subset's models in that order: the least accurate.
uint32_t last_of(Subset subset, absl::Span<const uint32_t> order) {
  const auto last =
      std::find_if(order.rbegin(), order.rend(), [&](uint32_t k) { return contains(subset, k); });
  FERMATA_CHECK(last != order.rend());
  return *last;
}

// The mean marginal of equation 3: of adding `added` to each model of `subset` alone.
double pair_gain(absl::Span<const double> utilities, Subset subset, uint32_t added) {
  double sum = 0;
  for (uint32_t q = 0; q < 32 && (subset >> q) != 0; ++q) {
    if (contains(subset, q)) sum += utilities[only(q) | only(added)] - utilities[only(q)];
  }
  return sum / size_of(subset);
}

// Shares of right answers by subset in each bin, over the queries that `counts`.
struct Measured {
  std::vector<uint64_t> counts;                // queries by bin
  std::vector<std::vector<double>> utilities;  // by bin, then subset
};

Measured measure(const SubsetAnswers& answers, absl::Span<const size_t> bin_of, size_t bins,
                 absl::Span<const uint8_t> among) {
  Measured result{std::vector<uint64_t>(bins),
                  std::vector<std::vector<double>>(bins, std::vector<double>(answers.subsets()))};
  for (size_t i = 0; i < answers.queries(); ++i) {
    if (among[i] == 0) continue;
    ++result.counts[bin_of[i]];
    std::vector<double>& utilities = result.utilities[bin_of[i]];
    for (Subset s = 1; s < answers.subsets(); ++s) utilities[s] += answers.right(i, s) ? 1 : 0;
  }
  for (size_t bin = 0; bin < bins; ++bin) {
    for (double& utility : result.utilities[bin]) {
      utility /= static_cast<double>(std::max<uint64_t>(1, result.counts[bin]));
    }
  }
  return result;
}

// Least squares of U(S) − U(S without its last) against γ_k · pair_gain, in each bin.
class GammaFit {
 public:
  GammaFit(uint32_t models, size_t bins) : bins_(bins, Sums(models - 1)), pooled_(models - 1) {}

  void add(size_t bin, uint32_t k, double marginal, double gain, uint64_t queries) {
    for (Sums* sums : {&bins_[bin], &pooled_}) {
      (*sums)[k].products += static_cast<double>(queries) * marginal * gain;
      (*sums)[k].squares += static_cast<double>(queries) * gain * gain;
    }
  }
  // By bin, then k.
  std::vector<std::vector<double>> result() const {
    std::vector<std::vector<double>> gamma;
    for (const Sums& sums : bins_) {
      std::vector<double>& of_bin = gamma.emplace_back(sums.size(), 1);
      for (size_t k = 2; k < sums.size(); ++k) {
        const Sum& sum = sums[k].squares > 0 ? sums[k] : pooled_[k];
        if (sum.squares > 0) of_bin[k] = std::max(0.0, sum.products / sum.squares);
      }
    }
    return gamma;
  }

 private:
  struct Sum {
    double products = 0, squares = 0;
  };
  using Sums = std::vector<Sum>;  // by k
  std::vector<Sums> bins_;
  Sums pooled_;
};

std::vector<size_t> times_tried(const SubsetAnswers& answers) {
  std::vector<size_t> times(answers.subsets());
  for (size_t i = 0; i < answers.queries(); ++i) {
    for (Subset s = 1; s < times.size(); ++s) times[s] += answers.tried(i, s) ? 1 : 0;
  }
  return times;
}

std::vector<std::vector<double>> fit_gamma(const SubsetAnswers& answers,
                                           absl::Span<const size_t> bin_of, size_t bins,
                                           absl::Span<const size_t> times,
                                           absl::Span<const uint32_t> order) {
  GammaFit fit(answers.models(), bins);
  const Subset all = all_models(answers.models());
  for (Subset subset = 1; subset < all; ++subset) {
    if (size_of(subset) < 3 || times[subset] == 0) continue;
    const uint32_t last = last_of(subset, order);
    const Subset rest = subset & ~only(last);
    std::vector<uint8_t> among(answers.queries());
    for (size_t i = 0; i < among.size(); ++i) {
      among[i] = answers.tried(i, subset) && answers.tried(i, rest) ? 1 : 0;
    }
    const Measured measured = measure(answers, bin_of, bins, among);
    for (size_t bin = 0; bin < bins; ++bin) {
      const std::vector<double>& u = measured.utilities[bin];
      fit.add(bin, size_of(rest), u[subset] - u[rest], pair_gain(u, rest, last),
              measured.counts[bin]);
    }
  }
  return fit.result();
}

// Equation 3 for the subsets that were not tried on every query; smaller ones come first.
void estimate_rest(const SubsetAnswers& answers, absl::Span<const size_t> times,
                   absl::Span<const uint32_t> order, SubsetProfile& profile) {
  for (uint32_t size = 3; size < answers.models(); ++size) {
    for (Subset subset = 1; subset < times.size(); ++subset) {
      if (size_of(subset) != size || times[subset] == answers.queries()) continue;
      const uint32_t last = last_of(subset, order);
      const Subset rest = subset & ~only(last);
      for (size_t bin = 0; bin < profile.bins(); ++bin) {
        std::vector<double>& u = profile.utilities[bin];
        const double marginal = profile.gamma[bin][size - 1] * pair_gain(u, rest, last);
        u[subset] = std::clamp(u[rest] + marginal, 0.0, 1.0);
      }
    }
  }
}

}  // namespace

SubsetAnswers::SubsetAnswers(uint32_t models, size_t queries)
    : models_(models), queries_(queries), values_(queries << models, kNotTried) {
  FERMATA_CHECK(models >= 1 && models <= kMostBaseModels);
  for (size_t i = 0; i < queries; ++i) {
    set(i, 0, false);
    set(i, all_models(models), true);
  }
}

size_t SubsetProfile::bin_of(double score) const {
  return static_cast<size_t>(std::upper_bound(edges.begin(), edges.end(), score) - edges.begin());
}

std::vector<double> SubsetProfile::expected() const {
  std::vector<double> mean(utilities[0].size());
  double queries = 0;
  for (size_t bin = 0; bin < bins(); ++bin) {
    const auto count = static_cast<double>(counts[bin]);
    queries += count;
    for (size_t s = 0; s < mean.size(); ++s) mean[s] += count * utilities[bin][s];
  }
  for (double& utility : mean) utility /= queries;
  return mean;
}

std::vector<double> quantile_edges(absl::Span<const float> scores, uint32_t bins, size_t at_least) {
  FERMATA_CHECK(!scores.empty() && bins > 0);
  std::vector<float> sorted(scores.begin(), scores.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> edges;
  size_t start = 0;  // of the bin below the edge
  for (size_t i = 1; i < bins; ++i) {
    const float edge = sorted[i * sorted.size() / bins];
    const auto first =
        static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), edge) - sorted.begin());
    const size_t enough = std::max<size_t>(at_least, 1);
    if (first < start + enough || sorted.size() - first < enough) continue;
    edges.push_back(double{edge});
    start = first;
  }
  return edges;
}

uint32_t usual_bins(size_t queries) {
  return static_cast<uint32_t>(std::clamp<size_t>(queries / kUsualPerBin, 1, kMostUsualBins));
}

SubsetProfile profile_subsets(const SubsetAnswers& answers, absl::Span<const float> scores,
                              std::vector<double> edges) {
  FERMATA_CHECK(answers.queries() > 0 && scores.size() == answers.queries());
  SubsetProfile profile{.edges = std::move(edges)};
  std::vector<size_t> bin_of;
  for (const float score : scores) bin_of.push_back(profile.bin_of(double{score}));
  const size_t bins = profile.edges.size() + 1;
  const std::vector<uint8_t> everyone(answers.queries(), 1);
  Measured measured = measure(answers, bin_of, bins, everyone);
  profile.counts = std::move(measured.counts);
  profile.utilities = std::move(measured.utilities);
  const std::vector<size_t> times = times_tried(answers);
  const bool all_tried =
      std::all_of(times.begin() + 1, times.end(), [&](size_t n) { return n == answers.queries(); });
  if (!all_tried) {
    const std::vector<double> mean = profile.expected();
    std::vector<double> accuracies;
    for (uint32_t k = 0; k < answers.models(); ++k) accuracies.push_back(mean[only(k)]);
    const std::vector<uint32_t> order = by_accuracy(accuracies);
    profile.gamma = fit_gamma(answers, bin_of, bins, times, order);
    estimate_rest(answers, times, order, profile);
  }
  for (std::vector<double>& utilities : profile.utilities) make_monotone(absl::MakeSpan(utilities));
  return profile;
}

void make_monotone(absl::Span<double> utilities) {
  for (Subset subset = 1; subset < utilities.size(); ++subset) {
    for (uint32_t k = 0; (subset >> k) != 0; ++k) {
      if (!contains(subset, k)) continue;
      utilities[subset] = std::max(utilities[subset], utilities[subset & ~only(k)]);
    }
  }
}

std::vector<Subset> subsets_to_sample(absl::Span<const double> accuracies, Random random) {
  const std::vector<uint32_t> order = by_accuracy(accuracies);
  const auto models = static_cast<uint32_t>(accuracies.size());
  std::vector<Subset> subsets;
  for (uint32_t size = 3; size < models; ++size) {
    for (size_t drawn = 0; drawn < kDrawnPerSize; ++drawn) {
      Subset subset = 0;
      while (size_of(subset) < size) subset |= only(static_cast<uint32_t>(random.below(models)));
      for (; size_of(subset) >= 3; subset &= ~only(last_of(subset, order))) {
        subsets.push_back(subset);
      }
    }
  }
  std::sort(subsets.begin(), subsets.end());
  subsets.erase(std::unique(subsets.begin(), subsets.end()), subsets.end());
  return subsets;
}

}  // namespace fermata::estimate
