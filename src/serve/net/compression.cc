#include "serve/net/compression.h"

#include <zlib.h>

#include <algorithm>

#include "base/check.h"
#include "base/status.h"

namespace fermata::serve {
namespace {

constexpr size_t kStep = 64 * 1024;
constexpr int kFastest = 1;
constexpr int kMemory = 8;
// zlib's window bits: 16 more for a gzip header, 32 more to tell by the header.
constexpr int kWindow = 15, kGzipWindow = 16 + kWindow, kAnyWindow = 32 + kWindow;
constexpr int kBareWindow = -kWindow;  // without zlib's own header

struct Deflater : z_stream {
  explicit Deflater(int window) : z_stream{} {
    FERMATA_CHECK(deflateInit2(this, kFastest, Z_DEFLATED, window, kMemory, Z_DEFAULT_STRATEGY) ==
                  Z_OK);
  }
  ~Deflater() { deflateEnd(this); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
};

// Many clients send deflate without the header of zlib (RFC 1950) that the coding asks for.
bool lacks_header(std::string_view text, Encoding encoding) {
  if (encoding != Encoding::kDeflate || text.size() < 2) return false;
  const unsigned first = static_cast<unsigned char>(text[0]);
  const unsigned second = static_cast<unsigned char>(text[1]);
  return (first & 0xf) != Z_DEFLATED || (first << 8 | second) % 31 != 0;
}

void set_input(z_stream& stream, std::string_view from) {
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));
  stream.avail_in = static_cast<uInt>(from.size());
}

// Gives zlib room for the next step at the end of `out`; returns where it starts.
size_t grow(z_stream& stream, std::string& out) {
  const size_t before = out.size();
  out.resize(before + kStep);
  stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
  stream.avail_out = kStep;
  return before;
}

}  // namespace

std::string_view name(Encoding encoding) {
  switch (encoding) {
    case Encoding::kGzip:
      return "gzip";
    case Encoding::kDeflate:
      return "deflate";
    case Encoding::kIdentity:
      break;
  }
  return "identity";
}

absl::StatusOr<Encoding> parse_content_encoding(std::string_view value) {
  if (value.empty() || value == "identity") return Encoding::kIdentity;
  if (value == "gzip") return Encoding::kGzip;
  if (value == "deflate") return Encoding::kDeflate;
  return unimplemented("Content-Encoding is \"{}\", expected gzip, deflate or identity", value);
}

Encoding choose_encoding(std::string_view accept) {
  while (!accept.empty()) {
    const size_t end = std::min(accept.find(','), accept.size());
    std::string_view coding = accept.substr(0, end);
    accept.remove_prefix(std::min(end + 1, accept.size()));
    while (!coding.empty() && coding.front() == ' ') coding.remove_prefix(1);
    const std::string_view token = coding.substr(0, coding.find_first_of("; "));
    const bool refused = coding.find("q=0") != coding.npos && coding.find("q=0.") == coding.npos;
    if (refused) continue;
    if (token == "gzip") return Encoding::kGzip;
    if (token == "deflate") return Encoding::kDeflate;
  }
  return Encoding::kIdentity;
}

struct Unpacking::Inflater : z_stream {
  explicit Inflater(int window) : z_stream{} { FERMATA_CHECK(inflateInit2(this, window) == Z_OK); }
  ~Inflater() { inflateEnd(this); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

Unpacking::Unpacking(std::string_view text, Encoding encoding, size_t limit)
    : encoding_(encoding),
      limit_(limit),
      is_too_large_(text.size() > UINT32_MAX),
      left_(text),
      inflater_(
          std::make_unique<Inflater>(lacks_header(text, encoding) ? kBareWindow : kAnyWindow)) {
  constexpr size_t kTrailer = 4;  // how long it was, little-endian (RFC 1952, section 2.3.1)
  if (encoding != Encoding::kGzip || text.size() < kTrailer) return;
  said_ = 0;
  for (size_t i = 0; i < kTrailer; ++i) {
    said_ = *said_ | size_t{static_cast<unsigned char>(text[text.size() - kTrailer + i])} << 8 * i;
  }
}

Unpacking::~Unpacking() = default;

absl::Status Unpacking::too_long() const {
  return invalid("the body is larger than {} bytes when decompressed", limit_);
}

// Makes room for the next bytes at the end.
absl::Status Unpacking::grow(Hold hold) {
  const size_t before = out_.size(), wanted = before + kStep;
  if (said_ && out_.capacity() < wanted) out_.reserve(std::max(*said_ + kStep, wanted));
  if (out_.capacity() < wanted) {
    out_.reserve(std::max(std::min(2 * out_.capacity(), limit_ + kStep), wanted));
  }
  // What is not written yet takes nothing; where the length is not known, room is made by doubling.
  const size_t holds = said_ ? wanted : std::min(out_.capacity(), limit_ + kStep);
  if (holds > held_) {
    if (!hold(holds - held_)) {
      return error(absl::StatusCode::kResourceExhausted,
                   "memory limit reached (listen.memory_mb): no room for the decompressed message; "
                   "retry later");
    }
    held_ = holds;
  }
  out_.resize(wanted);
  inflater_->next_out = reinterpret_cast<Bytef*>(out_.data() + before);
  inflater_->avail_out = kStep;
  return absl::OkStatus();
}

absl::StatusOr<bool> Unpacking::step(Hold hold) {
  if (is_too_large_) return invalid("the compressed body is larger than 4 GiB");
  if (said_ && *said_ > limit_) return too_long();
  for (size_t done = 0, read = 0; done < kAtATime && read < kReadAtATime; done += kStep) {
    const size_t before = out_.size(), given = std::min(left_.size(), kReadAtATime);
    RETURN_IF_ERROR(grow(hold));
    set_input(*inflater_, left_.substr(0, given));
    const int result = inflate(inflater_.get(), Z_NO_FLUSH);
    const size_t taken = given - inflater_->avail_in;
    left_.remove_prefix(taken);
    read += taken;
    out_.resize(before + kStep - inflater_->avail_out);
    if (out_.size() > limit_) return too_long();
    if (result == Z_STREAM_END) {
      if (left_.empty()) return true;
      return invalid("the body goes on after the end of its {} stream", name(encoding_));
    }
    if (result != Z_OK || (left_.empty() && inflater_->avail_out > 0)) {
      return invalid("the body is not whole {}: {}", name(encoding_),
                     inflater_->msg != nullptr ? inflater_->msg : "it ends too early");
    }
    if (said_ && out_.size() > *said_) {
      return invalid("the body is longer than the {} bytes that its {} stream says", *said_,
                     name(encoding_));
    }
  }
  return false;
}

absl::StatusOr<std::string> decompress(std::string_view text, Encoding encoding, size_t limit,
                                       Unpacking::Hold hold) {
  Unpacking unpacking(text, encoding, limit);
  for (bool whole = false; !whole;) {
    ASSIGN_OR_RETURN(whole, unpacking.step(hold));
  }
  return unpacking.take();
}

std::string compress(const std::vector<std::string_view>& pieces, Encoding encoding) {
  Deflater stream(encoding == Encoding::kGzip ? kGzipWindow : kWindow);
  std::string out;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool last = i + 1 == pieces.size();
    set_input(stream, pieces[i]);
    do {
      const size_t before = grow(stream, out);
      deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);
      out.resize(before + kStep - stream.avail_out);
    } while (stream.avail_out == 0);
  }
  return out;
}

}  // namespace fermata::serve
