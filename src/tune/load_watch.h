#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/time.h"

namespace fermata::tune {

// Says when a load becomes one of another kind: when in its last four seconds a service's
//  - requests were more or fewer than before, by five standard deviations of what came in as long a
//    time, and by 30 %;
//  - deadlines were others, by five standard deviations of their mean, and by 15 %;
//  - bursts were others: the variance by the mean of what came in 50 ms, three times or a third.
// "Before" is the time since the last change, a minute at most and four seconds at least. Pure;
// O(1) a request, O(services * seconds) a test.
class LoadWatch {
 public:
  // Times nearly in order. `slo` infinite: no deadline.
  void came(size_t service, Time at, Duration slo);
  // To be asked about once a second. If so, all before the change is forgotten.
  bool changed(Time now);
  bool started() const { return started_; }  // something came
  // When what is known of the load began.
  Time since() const { return since_; }

 private:
  static constexpr Duration kBin = Duration::millis(50);
  static constexpr int64_t kBinsInSecond = 20;
  struct Second {
    int64_t number = 0;
    double count = 0, squares = 0;  // of the counts of its bins, those that are over
    double slos = 0, log_slo = 0, log_slo_squared = 0;
  };
  struct Service {
    std::deque<Second> seconds;
    int64_t bin = 0;
    double in_bin = 0;
  };
  struct Sum {
    double seconds = 0, count = 0, count_squares = 0, squares = 0;
    double slos = 0, log_slo = 0, log_slo_squared = 0;

    void add(const Second& second);
    double rate() const { return count / seconds; }
    double variance() const;    // of the requests of a second
    double dispersion() const;  // of bins
    double mean_slo() const { return log_slo / slos; }
    double slo_variance() const;
  };
  static bool differ(const Sum& before, const Sum& lately);
  static void end_bin(Service& service);

  std::vector<Service> services_;
  Time since_;
  bool started_ = false;
};

}  // namespace fermata::tune
