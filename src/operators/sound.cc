#include "operators/sound.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>
#include <optional>
#include <string_view>

#include "base/status.h"

namespace fermata::operators {
namespace {

using Bytes = absl::Span<const std::byte>;

constexpr uint32_t kLeastRate = 1000, kMostRate = 192'000;
constexpr uint32_t kMostChannels = 64;
// What writes into a pipe does not know how much will come, and says that it is about so much.
constexpr uint32_t kUnknownLength = 0x7fff'0000;
constexpr double kLobes = 16;  // of the sinc, each way

template <class T>
T number_at(Bytes bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool stands_at(Bytes bytes, size_t at, std::string_view text) {
  return bytes.size() >= at + text.size() &&
         std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

struct Format {
  uint16_t tag = 0, channels = 0, bits = 0;
  uint32_t rate = 0;
  size_t width() const { return bits / 8; }
};

enum : uint16_t { kWholeNumbers = 1, kFloats = 3, kExtensible = 0xfffe };

absl::StatusOr<Format> format_of(Bytes chunk) {
  if (chunk.size() < 16) return invalid("the sound's format has {} bytes", chunk.size());
  Format format{.tag = number_at<uint16_t>(chunk, 0),
                .channels = number_at<uint16_t>(chunk, 2),
                .bits = number_at<uint16_t>(chunk, 14),
                .rate = number_at<uint32_t>(chunk, 4)};
  if (format.tag == kExtensible && chunk.size() >= 26) format.tag = number_at<uint16_t>(chunk, 24);
  const bool whole =
      format.tag == kWholeNumbers && format.bits % 8 == 0 && format.bits >= 8 && format.bits <= 32;
  if (!whole && !(format.tag == kFloats && format.bits == 32)) {
    return invalid(
        "the sound has encoding {} of {} bits, expected whole numbers of 8, 16, 24 or 32 bits or "
        "floating-point ones of 32",
        format.tag, format.bits);
  }
  if (format.channels < 1 || format.channels > kMostChannels) {
    return invalid("the sound has {} channels, expected 1 to {}", format.channels, kMostChannels);
  }
  if (format.rate < kLeastRate || format.rate > kMostRate) {
    return invalid("the sound has {} samples a second, expected {} to {}", format.rate, kLeastRate,
                   kMostRate);
  }
  return format;
}

float sample_at(Bytes bytes, size_t at, const Format& format) {
  if (format.tag == kFloats) return number_at<float>(bytes, at);
  if (format.bits == 8) return (static_cast<float>(number_at<uint8_t>(bytes, at)) - 128) / 128;
  uint32_t value = 0;  // its highest bits
  std::memcpy(reinterpret_cast<std::byte*>(&value) + sizeof value - format.width(),
              bytes.data() + at, format.width());
  return static_cast<float>(static_cast<int32_t>(value)) / 2147483648.0F;
}

absl::StatusOr<std::vector<float>> samples_of(Bytes data, const Format& format) {
  const size_t frame = format.width() * format.channels, frames = data.size() / frame;
  std::vector<float> samples(frames);
  for (size_t i = 0; i < frames; ++i) {
    float sum = 0;
    for (size_t c = 0; c < format.channels; ++c) {
      sum += sample_at(data, i * frame + c * format.width(), format);
    }
    if (!std::isfinite(sum)) return invalid("sample {} of the sound is no finite number", i);
    samples[i] = sum / static_cast<float>(format.channels);
  }
  return samples;
}

// The weights of the input samples around one that lies `offset` behind one of them.
void set_weights(double offset, double cutoff, int64_t reach, float* weights) {
  double sum = 0;
  for (int64_t i = -reach; i <= reach; ++i) {
    const double x = (static_cast<double>(i) - offset) * cutoff;
    const double angle = std::numbers::pi * x;
    const double sinc = std::abs(x) < 1e-9 ? 1 : std::sin(angle) / angle;
    const double window = std::abs(x) < kLobes ? 0.5 + 0.5 * std::cos(angle / kLobes) : 0;
    weights[i + reach] = static_cast<float>(sinc * window);
    sum += sinc * window;
  }
  for (int64_t i = 0; i <= 2 * reach; ++i) weights[i] /= static_cast<float>(sum);
}

}  // namespace

std::vector<float> resampled(absl::Span<const float> samples, uint32_t from, uint32_t to) {
  if (from == to) return {samples.begin(), samples.end()};
  const uint64_t common = std::gcd(from, to), step = from / common, phases = to / common;
  const size_t count = (samples.size() * phases + step - 1) / step;
  const double cutoff = std::min(1.0, static_cast<double>(to) / from);
  const auto reach = static_cast<int64_t>(std::ceil(kLobes / cutoff));
  const size_t taps = static_cast<size_t>(2 * reach + 1);
  // Sample k lies k * step / phases inputs from the first: `phases` different offsets come again.
  std::vector<float> weights(std::min<uint64_t>(phases, count) * taps);
  std::vector<float> result(count);
  for (size_t k = 0; k < count; ++k) {
    float* const own = weights.data() + k % phases * taps;
    if (k < phases) {
      const double offset = static_cast<double>(k * step % phases) / static_cast<double>(phases);
      set_weights(offset, cutoff, reach, own);
    }
    const auto at = static_cast<int64_t>(k * step / phases);
    const int64_t first = std::max<int64_t>(0, at - reach);
    const int64_t last = std::min(static_cast<int64_t>(samples.size()) - 1, at + reach);
    float sum = 0;
    for (int64_t i = first; i <= last; ++i) {
      sum += samples[static_cast<size_t>(i)] * own[i - at + reach];
    }
    result[k] = sum;
  }
  return result;
}

absl::StatusOr<std::vector<float>> decode_sound(Bytes bytes, uint32_t rate, double most_seconds) {
  if (!stands_at(bytes, 0, "RIFF") || !stands_at(bytes, 8, "WAVE")) {
    return invalid("the sound does not begin with the bytes of a WAV file");
  }
  std::optional<Format> format;
  for (size_t at = 12; bytes.size() >= at + 8;) {
    const auto size = number_at<uint32_t>(bytes, at + 4);
    const Bytes rest = bytes.subspan(at + 8);
    const bool is_data = stands_at(bytes, at, "data");
    if (size > rest.size() && !(is_data && size >= kUnknownLength)) {
      return invalid("the sound is cut off: {} bytes of a part of {} are there", rest.size(), size);
    }
    const Bytes chunk = rest.first(std::min<size_t>(size, rest.size()));
    if (stands_at(bytes, at, "fmt ")) {
      ASSIGN_OR_RETURN(format, format_of(chunk));
    } else if (is_data) {
      if (!format) return invalid("the sound has samples before it says of which format");
      const double frames =
          static_cast<double>(chunk.size() / (format->width() * format->channels));
      const double seconds = frames / format->rate;
      if (seconds > most_seconds) {
        return invalid("the sound lasts {:.1f} s, expected at most {} s", seconds, most_seconds);
      }
      ASSIGN_OR_RETURN(const std::vector<float> samples, samples_of(chunk, *format));
      return resampled(samples, format->rate, rate);
    }
    at += 8 + size_t{size} + size % 2;
  }
  return invalid("the sound has no samples");
}

}  // namespace fermata::operators
