#include "serve/json/json_fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "serve/call/status_map.h"

namespace fermata::serve {
namespace {

constexpr size_t kLongestNumber = 40;  // of a number in an error

// Keeps where the parser stopped, and nothing of the text.
class FaultFinder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(number_integer_t) { return true; }
  bool number_unsigned(number_unsigned_t) { return true; }
  bool number_float(number_float_t, const string_t& text) {
    const bool whole = text.find_first_of(".eE") == string_t::npos;
    if (whole && beyond.empty()) beyond = text;  // which the server's parser does not take
    return true;
  }
  bool string(string_t&) { return true; }
  bool binary(binary_t&) { return true; }
  bool start_object(size_t) { return true; }
  bool key(string_t&) { return true; }
  bool end_object() { return true; }
  bool start_array(size_t) { return true; }
  bool end_array() { return true; }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& why) {
    at = position;
    says = shortened(why.what());  // which has the whole word that it stopped at
    return false;
  }

  size_t at = 0;  // bytes that were read
  std::string says, beyond;
};

// The word, or a part of it, in which the parser stopped.
std::string_view word_at(std::string_view text, size_t at) {
  constexpr size_t kLongest = 16;
  const auto in_word = [](char c) { return absl::ascii_isalnum(c) || c == '-' || c == '+'; };
  size_t from = std::min(at, text.size());
  for (size_t i = 0; i < kLongest && from > 0 && in_word(text[from - 1]); ++i) --from;
  size_t to = from;
  while (to < text.size() && to - from < kLongest && in_word(text[to])) ++to;
  return text.substr(from, to - from);
}

bool is_no_number(std::string_view word) {
  constexpr std::array<absl::string_view, 3> kWords = {"nan", "inf", "infinity"};
  if (!word.empty() && (word[0] == '-' || word[0] == '+')) word.remove_prefix(1);
  return std::any_of(kWords.begin(), kWords.end(), [word](absl::string_view known) {
    return absl::EqualsIgnoreCase(known, {word.data(), word.size()});
  });
}

}  // namespace

std::string json_fault(std::string_view text) {
  FaultFinder finder;
  if (nlohmann::json::sax_parse(text, &finder)) {
    if (finder.beyond.empty()) return {};
    return fmt::format("{} has no place in 64 bits, expected a smaller number",
                       std::string_view(finder.beyond).substr(0, kLongestNumber));
  }
  const std::string_view before = text.substr(0, std::min(finder.at, text.size()));
  const size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  if (const std::string_view word = word_at(text, finder.at); is_no_number(word)) {
    return fmt::format(
        "line {}: {} has no JSON form, expected a number: send such tensors in the "
        "binary part (binary_data_size)",
        line, word);
  }
  // "[json.exception.parse_error.101] parse error at line 1, column 9: ..."
  const size_t name = finder.says.find("] ");
  std::string says = name == std::string::npos ? finder.says : finder.says.substr(name + 2);
  return absl::StrContains(says, " line ") ? says : fmt::format("line {}: {}", line, says);
}

}  // namespace fermata::serve
