#pragma once

namespace fermata::pick {

// How long a server takes to answer, by what is under way there: own * a + ahead * b seconds, of a
// request of weight `own` that comes when requests of weight `ahead` have been sent and not
// answered. A line fitted by least squares, in which the older counts less; before it knows better,
// the server is one that works on one request at a time. Pure.
class ResponseTime {
 public:
  // Seconds; 0 before the first answer.
  double expected(double own, double ahead) const { return own * alone_ + ahead * each_; }
  // Standard deviation of answers around what was expected, as a share of that.
  double spread() const;
  double alone() const { return alone_; }  // of a request of weight 1 with nothing ahead
  double each() const { return each_; }    // by which one of weight 1 ahead delays it
  void seen(double own, double ahead, double seconds);

 private:
  double own_own_ = 0, own_ahead_ = 0, ahead_ahead_ = 0, own_time_ = 0, ahead_time_ = 0;
  double alone_ = 0, each_ = 0;
  double errors_ = 0, weight_ = 0;
};

}  // namespace fermata::pick
