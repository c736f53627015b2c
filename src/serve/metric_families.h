#pragma once

#include <prometheus/metric_family.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/snapshot.h"

namespace fermata::serve {

using Labels = std::vector<prometheus::ClientMetric::Label>;

// The families in the order of their first metric.
class Families {
 public:
  void counter(const char* name, const char* help, Labels labels, double value) {
    add(prometheus::MetricType::Counter, name, help, std::move(labels)).counter.value = value;
  }
  void gauge(const char* name, const char* help, Labels labels, double value) {
    add(prometheus::MetricType::Gauge, name, help, std::move(labels)).gauge.value = value;
  }
  // `scale`: from the snapshot's unit to the metric's. Nothing where nothing was observed: of many
  // services that nobody asks, histograms would be most of the text.
  void histogram(const char* name, const char* help, Labels labels,
                 const engine::HistogramSnapshot& from, double scale) {
    if (std::all_of(from.counts.begin(), from.counts.end(), [](auto n) { return n == 0; })) return;
    auto& to = add(prometheus::MetricType::Histogram, name, help, std::move(labels)).histogram;
    for (size_t i = 0; i < from.counts.size(); ++i) {
      to.sample_count += from.counts[i];
      const double bound =
          i < from.bounds.size() ? from.bounds[i] * scale : std::numeric_limits<double>::infinity();
      to.bucket.push_back({to.sample_count, bound});
    }
    to.sample_sum = from.sum * scale;
  }
  const std::vector<prometheus::MetricFamily>& all() const { return families_; }

 private:
  prometheus::ClientMetric& add(prometheus::MetricType type, const char* name, const char* help,
                                Labels labels) {
    const auto [found, is_new] = by_name_.try_emplace(name, families_.size());
    if (is_new) families_.push_back({name, help, type, {}});
    prometheus::ClientMetric& metric = families_[found->second].metric.emplace_back();
    metric.label = std::move(labels);
    return metric;
  }

  std::vector<prometheus::MetricFamily> families_;
  std::map<std::string_view, size_t> by_name_;
};

}  // namespace fermata::serve
