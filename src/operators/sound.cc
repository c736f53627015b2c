#include "operators/sound.h"

#include <algorithm>
#include <array>
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

constexpr uint32_t kMostChannels = 64;
// What writes into a pipe does not know how much will come, and says that it is about so much.
constexpr uint32_t kUnknownLength = 0x7fff'0000;
constexpr double kLobes = 16;  // of the sinc, each way
// Places between two samples for which weights are made; between two of them they are blended,
// which is 100 dB below the sound.
constexpr uint64_t kPlaces = 512;

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
  if (format.rate < kLeastSoundRate || format.rate > kMostSoundRate) {
    return invalid("the sound has {} samples a second, expected {} to {}", format.rate,
                   kLeastSoundRate, kMostSoundRate);
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

float clipped(float sample) { return std::clamp(sample, -1.0F, 1.0F); }

absl::StatusOr<std::vector<float>> samples_of(Bytes data, const Format& format) {
  const size_t frame = format.width() * format.channels, frames = data.size() / frame;
  std::vector<float> samples(frames);
  for (size_t i = 0; i < frames; ++i) {
    float sum = 0;
    for (size_t c = 0; c < format.channels; ++c) {
      const float sample = sample_at(data, i * frame + c * format.width(), format);
      if (!std::isfinite(sample)) return invalid("sample {} of the sound is no finite number", i);
      sum += clipped(sample);
    }
    samples[i] = sum / static_cast<float>(format.channels);
  }
  return samples;
}

// The weights of samples around each of `count` places between two of them, and around the next
// one; each made when it is first asked for.
class Weights {
 public:
  Weights(uint64_t count, double cutoff)
      : cutoff_(cutoff),
        reach_(static_cast<int64_t>(std::ceil(kLobes / cutoff))),
        rows_(count + 1) {}

  // The sum of the samples around `at`, as the place weighs them.
  float sum(absl::Span<const float> samples, int64_t at, uint64_t place) {
    std::vector<float>& row = rows_[place];
    if (row.empty()) row = made(place);
    const int64_t first = std::max<int64_t>(0, at - reach_);
    const int64_t end = std::min(static_cast<int64_t>(samples.size()), at + reach_ + 1);
    const float* sample = samples.data() + first;
    const float* weight = row.data() + (first - at + reach_);
    std::array<float, 4> sums{};  // side by side: a processor adds four at once
    int64_t left = end - first;
    for (; left >= 4; left -= 4, sample += 4, weight += 4) {
      sums[0] += sample[0] * weight[0];
      sums[1] += sample[1] * weight[1];
      sums[2] += sample[2] * weight[2];
      sums[3] += sample[3] * weight[3];
    }
    for (; left > 0; --left) sums[0] += *sample++ * *weight++;
    return std::accumulate(sums.begin(), sums.end(), 0.0F);
  }

 private:
  std::vector<float> made(uint64_t place) const {
    const double offset = static_cast<double>(place) / static_cast<double>(rows_.size() - 1);
    std::vector<double> weights;
    double sum = 0;
    for (int64_t i = -reach_; i <= reach_; ++i) {
      const double x = (static_cast<double>(i) - offset) * cutoff_;
      const double angle = std::numbers::pi * x;
      const double sinc = std::abs(x) < 1e-9 ? 1 : std::sin(angle) / angle;
      const double window = std::abs(x) < kLobes ? 0.5 + 0.5 * std::cos(angle / kLobes) : 0;
      sum += weights.emplace_back(sinc * window);
    }
    std::vector<float> row;
    for (const double weight : weights) row.push_back(static_cast<float>(weight / sum));
    return row;
  }

  const double cutoff_;
  const int64_t reach_;
  std::vector<std::vector<float>> rows_;
};

}  // namespace

std::vector<float> resampled(absl::Span<const float> samples, uint32_t from, uint32_t to) {
  if (from == to) return {samples.begin(), samples.end()};
  const uint64_t common = std::gcd(from, to), step = from / common, phases = to / common;
  const size_t count = (samples.size() * phases + step - 1) / step;
  // Sample k lies k * step / phases inputs from the first: `phases` different places come again.
  const bool exact = phases <= kPlaces;
  const uint64_t places = exact ? phases : kPlaces;
  Weights weights(places, std::min(1.0, static_cast<double>(to) / from));
  std::vector<float> result(count);
  for (size_t k = 0; k < count; ++k) {
    const auto at = static_cast<int64_t>(k * step / phases);
    const uint64_t offset = k * step % phases * places;  // in parts of `phases`
    const uint64_t place = offset / phases;
    float sample = weights.sum(samples, at, place);
    if (!exact) {
      const float part = static_cast<float>(offset % phases) / static_cast<float>(phases);
      sample += part * (weights.sum(samples, at, place + 1) - sample);
    }
    result[k] = clipped(sample);
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
