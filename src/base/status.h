#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fermata {

// Expected failures travel as absl::Status; these build one from a format.
// A message says where, what stands there and what was expected.
template <class... Args>
absl::Status error(absl::StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return absl::Status(code, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
absl::Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return error(absl::StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}
template <class... Args>
absl::Status not_found(fmt::format_string<Args...> format, Args&&... args) {
  return error(absl::StatusCode::kNotFound, format, std::forward<Args>(args)...);
}
template <class... Args>
absl::Status unimplemented(fmt::format_string<Args...> format, Args&&... args) {
  return error(absl::StatusCode::kUnimplemented, format, std::forward<Args>(args)...);
}
template <class... Args>
absl::Status internal(fmt::format_string<Args...> format, Args&&... args) {
  return error(absl::StatusCode::kInternal, format, std::forward<Args>(args)...);
}

// Abseil's string_view is not std's in Debian's build.
inline std::string_view view(absl::string_view s) { return {s.data(), s.size()}; }
inline std::string_view message(const absl::Status& s) { return view(s.message()); }

}  // namespace fermata

#define FERMATA_CONCAT_INNER(a, b) a##b
#define FERMATA_CONCAT(a, b) FERMATA_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expr)                          \
  do {                                                 \
    if (absl::Status s_ = (expr); !s_.ok()) return s_; \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(FERMATA_CONCAT(status_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                          \
  if (!tmp.ok()) return tmp.status();         \
  lhs = *std::move(tmp)
