#include "engine/confine/model_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"

extern char** environ;

namespace fermata::engine {
namespace {

// docs/workers.md lists both.
constexpr auto kNames = std::to_array<std::string_view>(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV"});
constexpr auto kBeginnings = std::to_array<std::string_view>(
    {"LC_",   "LD_",      "PYTHON", "OMP_",    "KMP_", "GOMP_",     "OPENBLAS_", "MKL_",
     "BLIS_", "NUMEXPR_", "CUDA_",  "NVIDIA_", "ORT_", "OPENVINO_", "MALLOC_",   "GLIBC_TUNABLES",
     "ASAN_", "LSAN_",    "TSAN_",  "UBSAN_"});

bool is_of_all(std::string_view name) {
  return absl::c_linear_search(kNames, name) ||
         absl::c_any_of(kBeginnings, [name](auto start) { return name.starts_with(start); });
}

}  // namespace

ModelEnvironment::ModelEnvironment(absl::Span<const std::string> also) {
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view word = *one;
    const std::string_view name = word.substr(0, word.find('='));
    if (is_of_all(name) || absl::c_linear_search(also, name)) words_.emplace_back(word);
  }
}

void ModelEnvironment::set(std::string_view name, std::string_view value) {
  const std::string start = fmt::format("{}=", name);
  std::erase_if(words_, [&](const std::string& word) { return word.starts_with(start); });
  words_.push_back(fmt::format("{}{}", start, value));
}

char* const* ModelEnvironment::get() const {
  pointers_.clear();
  for (const std::string& word : words_) pointers_.push_back(const_cast<char*>(word.c_str()));
  pointers_.push_back(nullptr);
  return pointers_.data();
}

bool is_variable_name(std::string_view name) {
  return !name.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(name.front())) &&
         absl::c_all_of(name, [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

}  // namespace fermata::engine
