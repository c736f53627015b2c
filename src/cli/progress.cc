#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "base/clock.h"

namespace fermata::cli {
namespace {

constexpr int kBarWidth = 30;
constexpr Duration kFirstBar = Duration::millis(500);
constexpr Duration kBetweenBars = Duration::millis(100);
constexpr Duration kBetweenLines = Duration::seconds(5);

std::string minutes(Duration d) {
  const int64_t s = d.nanos() / 1'000'000'000;
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string left(double share, Duration elapsed) {
  if (share < 0.02) return "";
  return fmt::format(", {} left", minutes(elapsed.scaled((1 - share) / share)));
}

}  // namespace

Progress::Progress(std::string label)
    : Progress(std::move(label), std::cerr, isatty(STDERR_FILENO) ? Style::kBar : Style::kLines,
               monotonic_now) {}

Progress::Progress(std::string label, std::ostream& out, Style style, std::function<Time()> now)
    : label_(std::move(label)), out_(out), style_(style), now_(std::move(now)), started_(now_()) {
  next_draw_ = started_ + (style_ == Style::kBar ? kFirstBar : kBetweenLines);
}

Progress::~Progress() { finish(); }

void Progress::update(double share, std::string_view note) {
  const Time now = now_();
  if (now < next_draw_) return;
  next_draw_ = now + (style_ == Style::kBar ? kBetweenBars : kBetweenLines);
  draw(std::clamp(share, 0.0, 1.0), note, now - started_);
}

void Progress::finish() {
  if (drawn_ && style_ == Style::kBar) out_ << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

void Progress::draw(double share, std::string_view note, Duration elapsed) {
  const std::string state = fmt::format("{:3.0f}%  {}{}{}{}", share * 100, minutes(elapsed),
                                        left(share, elapsed), note.empty() ? "" : "  ", note);
  if (style_ == Style::kLines) {
    out_ << fmt::format("{}: {}\n", label_, state) << std::flush;
  } else {
    const int full = static_cast<int>(share * kBarWidth);
    out_ << fmt::format("\r\x1b[K{} [{}{}] {}", label_, std::string(full, '='),
                        std::string(kBarWidth - full, ' '), state)
         << std::flush;
  }
  drawn_ = true;
}

}  // namespace fermata::cli
