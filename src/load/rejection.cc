#include "load/rejection.h"

#include <charconv>

namespace fermata::load {
namespace {

// The milliseconds that follow `words`; moves `text` behind them.
std::optional<double> take(std::string_view& text, std::string_view words) {
  const size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + words.size());
  double ms = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), ms);
  if (problem != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return ms;
}

}  // namespace

std::optional<Duration> rejection_margin(std::string_view text) {
  const auto budget = take(text, "the budget was ");
  const std::string_view after = text;
  auto left = take(text, " ms and ended ");
  if (left) {
    left = -*left;
  } else {
    text = after;
    left = take(text, " ms, ");
  }
  const auto run = take(text, "the run time ");
  if (!budget || !left || !run) return std::nullopt;
  const double needs = *run + take(text, "server's own delay ").value_or(0);
  if (needs > *budget) return std::nullopt;
  return Duration::from_millis(*left - needs);
}

}  // namespace fermata::load
