#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace fermata::estimate {

// How likely each class is for one request, and how accurate a variant then is
// (SneakPeek, section 4.2): the Dirichlet-multinomial model. Spans of one call
// are of one length, the number of classes.

// The mean of Dirichlet(prior + evidence), equations 10 and 11, into `mean`.
// Needs a prior above 0 in every class and evidence of at least 0. O(classes).
void posterior_mean(std::span<const double> prior, std::span<const double> evidence,
                    std::span<double> mean);

// Equation 9: the recalls weighed by the classes' probabilities. O(classes).
double expected_accuracy(std::span<const double> theta, std::span<const double> recall);

// The class of the highest posterior mean, the first of equals: what the evidence answers by
// itself (short circuit, section 5.3.1). At least one class.
size_t likeliest_class(std::span<const double> prior, std::span<const uint32_t> evidence);

// The class that is more likely than not (theta above 0.5, section 5.3.2); there is
// one at most.
std::optional<size_t> likely_class(std::span<const double> theta);

// What is believed of one request after the other; memory is kept. Everybody who needs an expected
// accuracy asks here.
class Belief {
 public:
  // By class. Empty evidence, or evidence of other classes: nothing is known. O(classes).
  template <class Count>
  void set(std::span<const double> prior, std::span<const Count> evidence) {
    theta_.clear();
    if (evidence.empty() || evidence.size() != prior.size()) return;
    counts_.assign(evidence.begin(), evidence.end());
    theta_.resize(prior.size());
    posterior_mean(prior, counts_, theta_);
  }
  std::span<const double> theta() const { return theta_; }  // empty: nothing is known
  // Of a variant with this profiled accuracy and these recalls, empty where they are unknown.
  double accuracy(double profiled, std::span<const double> recall) const {
    const bool counts = !recall.empty() && recall.size() == theta_.size();
    return counts ? expected_accuracy(theta_, recall) : profiled;
  }

 private:
  std::vector<double> counts_, theta_;
};

}  // namespace fermata::estimate
