#include "cli/progress.h"

#include <gtest/gtest.h>

#include <sstream>

namespace fermata::cli {
namespace {

struct Screen {
  std::ostringstream text;
  Time now;
  std::function<Time()> clock = [this] { return now; };
};

TEST(Progress, LinesComeEveryFiveSeconds) {
  Screen screen;
  Progress progress("profile", screen.text, Progress::Style::kLines, screen.clock);
  for (int tenths = 0; tenths <= 120; ++tenths) {
    screen.now = Time() + Duration::millis(100 * tenths);
    progress.update(tenths / 200.0, "batch 4");
  }
  progress.finish();
  EXPECT_EQ(screen.text.str(),
            "profile:  25%  0:05, 0:15 left  batch 4\n"
            "profile:  50%  0:10, 0:10 left  batch 4\n");
}

TEST(Progress, ShortWorkIsSilent) {
  Screen screen;
  {
    Progress progress("load", screen.text, Progress::Style::kBar, screen.clock);
    screen.now = Time() + Duration::millis(499);
    progress.update(0.9);
  }
  EXPECT_EQ(screen.text.str(), "");
}

TEST(Progress, BarRedrawsInPlaceAndLeavesACleanLine) {
  Screen screen;
  Progress progress("load", screen.text, Progress::Style::kBar, screen.clock);
  screen.now = Time() + Duration::seconds(1);
  progress.update(0.5);
  progress.update(0.6);
  EXPECT_EQ(screen.text.str(),
            "\r\x1b[Kload [===============               ]  50%  0:01, 0:01 left");
  progress.finish();
  EXPECT_TRUE(screen.text.str().ends_with("\r\x1b[K"));
}

TEST(Progress, ClipsTheShare) {
  Screen screen;
  Progress progress("x", screen.text, Progress::Style::kLines, screen.clock);
  screen.now = Time() + Duration::seconds(5);
  progress.update(1.5);
  EXPECT_EQ(screen.text.str(), "x: 100%  0:05, 0:00 left\n");
}

}  // namespace
}  // namespace fermata::cli
