#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <string_view>

#include "base/time.h"

namespace fermata::cli {

// Progress of one long task, for a person: a bar that redraws itself on a
// terminal (at most ten times a second), else a line every five seconds.
// Nothing appears before half a second (terminal) or five (else), so that short
// work stays silent. Not thread-safe; never fails.
class Progress {
 public:
  enum class Style { kBar, kLines };

  // On standard error, in the style that suits it, by the monotonic clock.
  explicit Progress(std::string label);
  Progress(std::string label, std::ostream& out, Style style, std::function<Time()> now);
  ~Progress();  // finishes
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // share: of the work that is done, clipped to [0, 1]; note: what is happening
  // now, in a few words. Cheap enough to call for every item of work.
  void update(double share, std::string_view note = {});
  // Takes the bar away, so that what is written next starts on a clean line.
  void finish();

 private:
  void draw(double share, std::string_view note, Duration elapsed);

  std::string label_;
  std::ostream& out_;
  Style style_;
  std::function<Time()> now_;
  Time started_, next_draw_;
  bool drawn_ = false;
};

}  // namespace fermata::cli
