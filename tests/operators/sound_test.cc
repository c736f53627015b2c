#include "operators/sound.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "base/status.h"
#include "operators/fixture.h"

namespace fermata::operators {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

struct Wav {
  uint16_t tag = 1, channels = 1, bits = 16;
  uint32_t rate = 16'000;
  std::string data;
  std::optional<uint32_t> says = {};  // of how many bytes there are

  std::string bytes() const {
    const auto width = static_cast<uint16_t>(channels * (bits / 8));
    std::string text = "RIFF" + raw<uint32_t>(0) + "WAVEfmt " + raw<uint32_t>(16) + raw(tag) +
                       raw(channels) + raw(rate) + raw<uint32_t>(rate * width) + raw(width) +
                       raw(bits);
    text += "LIST" + raw<uint32_t>(3) + "odd" + std::string(1, 0);
    return text + "data" + raw(says.value_or(static_cast<uint32_t>(data.size()))) + data;
  }
};

absl::StatusOr<std::vector<float>> decoded(const std::string& bytes, uint32_t rate = 16'000) {
  return decode_sound({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, rate, 10);
}

std::string decoding_error(const std::string& bytes) {
  return std::string(message(decoded(bytes).status()));
}

TEST(Sound, IsReadInEveryEncoding) {
  const auto near = [](std::vector<float> expected) {
    return Pointwise(FloatNear(1e-6), expected);
  };
  const std::string word = raw<int16_t>(16384) + raw<int16_t>(-32768);
  EXPECT_THAT(*decoded(Wav{.data = word}.bytes()), near({0.5, -1}));
  EXPECT_THAT(*decoded(Wav{.bits = 8, .data = "\x40\xc0"}.bytes()), near({-0.5, 0.5}));
  const std::string three("\x00\x00\x40\x00\x00\xc0", 6);
  EXPECT_THAT(*decoded(Wav{.bits = 24, .data = three}.bytes()), near({0.5, -0.5}));
  EXPECT_THAT(*decoded(Wav{.bits = 32, .data = raw<int32_t>(1 << 30)}.bytes()), near({0.5}));
  EXPECT_THAT(*decoded(Wav{.tag = 3, .bits = 32, .data = raw(0.25F)}.bytes()), near({0.25}));
  EXPECT_THAT(*decoded(Wav{.channels = 2, .data = word}.bytes()), near({-0.25}));
}

TEST(Sound, IsClipped) {
  const std::string loud = raw(1.5F) + raw(-7.0F) + raw(0.5F) + raw(1.0F);
  EXPECT_THAT(*decoded(Wav{.tag = 3, .bits = 32, .data = loud}.bytes()),
              ElementsAre(1, -1, 0.5, 1));
  EXPECT_THAT(*decoded(Wav{.tag = 3, .channels = 2, .bits = 32, .data = loud}.bytes()),
              ElementsAre(0, 0.75));
  // Between samples that are as high as can be, the sound is higher.
  std::string square;
  for (int i = 0; i < 400; ++i) square += raw<int16_t>(i / 10 % 2 == 0 ? 32767 : -32768);
  const auto samples = decoded(Wav{.rate = 44'100, .data = square}.bytes());
  EXPECT_THAT(*samples, testing::Each(testing::AllOf(testing::Ge(-1), testing::Le(1))));
  EXPECT_THAT(*samples, testing::Contains(1));
}

TEST(Sound, IsTheSameAtAnotherRate) {
  const auto wave = [](uint32_t rate, size_t count) {
    std::vector<float> samples(count);
    for (size_t i = 0; i < count; ++i) {
      samples[i] =
          static_cast<float>(std::sin(2 * std::numbers::pi * 440 * static_cast<double>(i) / rate));
    }
    return samples;
  };
  for (const uint32_t rate : {8'000u, 15'999u, 22'050u, 44'100u, 48'000u, 191'999u}) {
    const auto found = resampled(wave(rate, (rate + 9) / 10), rate, 16'000);
    ASSERT_NEAR(static_cast<double>(found.size()), 1600, 1);
    const auto expected = wave(16'000, 1600);
    for (size_t i = 100; i < 1500; ++i)
      ASSERT_NEAR(found[i], expected[i], 0.01) << rate << ' ' << i;
  }
}

// Rates without a common factor: the weights of all places between two samples would be 16,000
// times 387.
TEST(Sound, AtAnOddRateIsThatAtTheNext) {
  const auto wave = [](uint32_t rate) {
    std::vector<float> samples(rate / 20);
    for (size_t i = 0; i < samples.size(); ++i) {
      const double at = static_cast<double>(i) / rate;
      samples[i] = static_cast<float>(0.5 * std::sin(2 * std::numbers::pi * 3'000 * at));
    }
    return samples;
  };
  const auto even = resampled(wave(192'000), 192'000, 16'000);
  const auto odd = resampled(wave(191'999), 191'999, 16'000);
  ASSERT_LE(odd.size(), even.size());
  for (size_t i = 30; i + 30 < odd.size(); ++i) ASSERT_NEAR(odd[i], even[i], 1e-4) << i;
}

TEST(Sound, WithoutItsLengthIsReadToTheEnd) {
  EXPECT_EQ(decoded(Wav{.data = "1234", .says = 0x7fff'f000}.bytes())->size(), 2);
  EXPECT_EQ(decoded(Wav{.data = "1234", .says = 0xffff'ffff}.bytes())->size(), 2);
}

TEST(Sound, ThatIsBrokenIsSaid) {
  EXPECT_THAT(decoding_error(""), HasSubstr("does not begin"));
  EXPECT_THAT(decoding_error(Wav{.data = "1234", .says = 100}.bytes()),
              HasSubstr("cut off: 4 bytes"));
  EXPECT_THAT(decoding_error(Wav{.data = ""}.bytes().substr(0, 50)), HasSubstr("no samples"));
  EXPECT_THAT(decoding_error(Wav{.tag = 2, .data = ""}.bytes()), HasSubstr("encoding 2"));
  EXPECT_THAT(decoding_error(Wav{.channels = 0, .data = ""}.bytes()), HasSubstr("0 channels"));
  EXPECT_THAT(decoding_error(Wav{.bits = 12, .data = ""}.bytes()), HasSubstr("12 bits"));
  EXPECT_THAT(decoding_error(Wav{.rate = 1, .data = ""}.bytes()), HasSubstr("1 samples a second"));
  EXPECT_THAT(decoding_error(Wav{.rate = 1000, .data = std::string(22'000, 0)}.bytes()),
              HasSubstr("lasts 11.0 s"));
  EXPECT_THAT(decoding_error(Wav{.tag = 3, .bits = 32, .data = raw(std::nanf(""))}.bytes()),
              HasSubstr("sample 0"));
}

Tensor samples(std::vector<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  return {"samples", DataType::kFp32, {count}, payload_of(std::move(values))};
}

TEST(Windows, OverlapAndFillTheLast) {
  const auto op = make("{operator: windows, size: 4, step: 2}");
  const auto made = *op->run({samples({1, 2, 3, 4, 5, 6, 7})});
  EXPECT_THAT(made[0].shape, ElementsAre(3, 4));
  EXPECT_THAT(floats_of(made[0]), ElementsAre(1, 2, 3, 4, 3, 4, 5, 6, 5, 6, 7, 0));
  EXPECT_THAT(made[1].shape, ElementsAre(3, 1));
  EXPECT_THAT((*op->run({samples({1, 2})}))[0].shape, ElementsAre(1, 4));
  EXPECT_THAT((*op->run({samples({})}))[0].shape, ElementsAre(0, 4));
}

TEST(Windows, MayLeaveGaps) {
  const auto op = make("{operator: windows, size: 2, step: 5}");
  EXPECT_THAT(floats_of((*op->run({samples({1, 2, 3, 4, 5, 6})}))[0]), ElementsAre(1, 2, 6, 0));
  EXPECT_THAT((*op->run({samples({1, 2, 3, 4, 5})}))[0].shape, ElementsAre(1, 2));
}

TEST(Windows, AreLimited) {
  const auto op = make("{operator: windows, size: 1, most: 3}");
  EXPECT_TRUE(op->run({samples({1, 2, 3})}).ok());
  EXPECT_THAT(message(op->run({samples({1, 2, 3, 4})}).status()), HasSubstr("4 windows"));
}

TEST(Keep, KeepsWhatReachesTheScore) {
  const auto op = make("{operator: keep, class: 1, least: 0.5}");
  const auto run = [&op](std::vector<float> scores) {
    const Tensor start{"start", DataType::kInt64, {1}, payload_of(std::vector<int64_t>{7})};
    return op->run({samples({1, 2}), start, samples(std::move(scores))});
  };
  EXPECT_THAT((*run({0, 0.5}))[0].shape, ElementsAre(1, 2));
  EXPECT_THAT((*run({1, 0.4}))[0].shape, ElementsAre(0, 2));
  EXPECT_THAT((*run({1, std::nanf("")}))[0].shape, ElementsAre(0, 2));
  EXPECT_THAT(message(run({1}).status()), HasSubstr("1 classes"));
}

}  // namespace
}  // namespace fermata::operators
