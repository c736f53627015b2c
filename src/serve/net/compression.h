#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace fermata::serve {

enum class Encoding { kIdentity, kGzip, kDeflate };

// The value of Content-Encoding. UNIMPLEMENTED for others.
absl::StatusOr<Encoding> parse_content_encoding(std::string_view value);
// The one to answer with; identity where the client accepts no other.
Encoding choose_encoding(std::string_view accept_encoding);
std::string_view name(Encoding encoding);

// Unpacks a text a little at a time, so that who has others to look after may turn to them.
class Unpacking {
 public:
  using Hold = absl::FunctionRef<bool(size_t)>;
  static constexpr size_t kAtATime = 256 * 1024;
  // Of the text: blocks of nothing take longer than what they would say.
  static constexpr size_t kReadAtATime = kAtATime / 8;

  // Of at most `limit` bytes, so that a small text cannot fill the memory. It outlives this.
  Unpacking(std::string_view text, Encoding encoding, size_t limit);
  ~Unpacking();
  // At most kAtATime bytes further, of kReadAtATime of the text; true: it is whole. `hold` is asked
  // before so many more bytes are taken; where it says no, RESOURCE_EXHAUSTED. INVALID_ARGUMENT
  // where the text is damaged, or longer than the limit or than it says itself, which gzip does at
  // its end.
  absl::StatusOr<bool> step(Hold hold);
  // What has been unpacked. Once.
  std::string take() { return std::move(out_); }
  size_t size() const { return out_.size(); }

 private:
  struct Inflater;
  absl::Status grow(Hold hold);
  absl::Status too_long() const;

  const Encoding encoding_;
  const size_t limit_;
  const bool is_too_large_;
  std::string_view left_;       // of the text
  std::optional<size_t> said_;  // how long it is
  std::unique_ptr<Inflater> inflater_;
  std::string out_;
  size_t held_ = 0;
};

// All of it at once.
absl::StatusOr<std::string> decompress(
    std::string_view text, Encoding encoding, size_t limit,
    Unpacking::Hold hold = [](size_t) { return true; });
// All pieces as one stream.
std::string compress(const std::vector<std::string_view>& pieces, Encoding encoding);

}  // namespace fermata::serve
