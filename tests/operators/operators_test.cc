#include <gmock/gmock.h>
#include <png.h>
#include <turbojpeg.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <opencv2/imgproc.hpp>

#include "base/status.h"
#include "operators/fixture.h"
#include "operators/values.h"

namespace fermata::operators {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

std::string complaint(const std::string& text) {
  return std::string(message(try_make(text).status()));
}

Tensor image(int height, int width, std::vector<uint8_t> rgb) {
  return {"image", DataType::kUint8, {height, width, 3}, payload_of(std::move(rgb))};
}

Tensor plain(int height, int width, uint8_t value) {
  return image(height, width, std::vector<uint8_t>(static_cast<size_t>(height * width) * 3, value));
}

Tensor numbers(Shape shape, std::vector<float> values) {
  return {"numbers", DataType::kFp32, std::move(shape), payload_of(std::move(values))};
}

Tensor encoded(const std::string& bytes) { return texts("encoded", {bytes}); }

std::string jpeg(int height, int width, uint8_t value, TJPF format = TJPF_RGB) {
  std::vector<uint8_t> pixels(static_cast<size_t>(height * width * tjPixelSize[format]), value);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  tjhandle handle = tjInitCompress();
  EXPECT_EQ(
      tjCompress2(handle, pixels.data(), width, 0, height, format, &out, &size, TJSAMP_444, 90, 0),
      0);
  std::string bytes(reinterpret_cast<char*>(out), size);
  tjFree(out);
  tjDestroy(handle);
  return bytes;
}

std::string png(int height, int width, const std::vector<uint8_t>& rgb) {
  png_image header = {};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<uint32_t>(width);
  header.height = static_cast<uint32_t>(height);
  header.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  EXPECT_TRUE(png_image_write_to_memory(&header, nullptr, &size, 0, rgb.data(), 0, nullptr));
  std::string bytes(size, '\0');
  EXPECT_TRUE(png_image_write_to_memory(&header, bytes.data(), &size, 0, rgb.data(), 0, nullptr));
  return bytes;
}

std::vector<int> pixels_of(const Tensor& tensor) {
  std::vector<int> values;
  for (const std::byte b : tensor.data.bytes) values.push_back(std::to_integer<int>(b));
  return values;
}

std::string text_of(const Tensor& tensor) {
  const auto* bytes = reinterpret_cast<const char*>(tensor.data.bytes.data());
  return {bytes + 4, tensor.data.bytes.size() - 4};
}

std::vector<Tensor> run(const Operator& op, const std::vector<Tensor>& inputs) {
  auto result = op.run(inputs);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : std::vector<Tensor>{};
}

std::string failure(const Operator& op, const std::vector<Tensor>& inputs) {
  return std::string(message(op.run(inputs).status()));
}

// By the size that the file says of itself; nothing is decoded for it.
TEST(DecodeImage, SaysHowMuchWorkAPictureIs) {
  const auto decode = make("{operator: decode-image}");
  const auto work = [&](std::string bytes) {
    const std::vector inputs = {encoded(bytes)};
    return decode->work(inputs);
  };
  EXPECT_EQ(work(jpeg(20, 30, 7)), 20 * 30 * 3);
  EXPECT_EQ(work(png(20, 30, std::vector<uint8_t>(20 * 30 * 3))), 20 * 30 * 3);
  EXPECT_EQ(work(png(20, 30, std::vector<uint8_t>(20 * 30 * 3)).substr(0, 24)), 20 * 30 * 3);
  EXPECT_EQ(work(jpeg(20, 30, 7).substr(0, 3)), 0);
  EXPECT_EQ(work("x"), 0);
  EXPECT_EQ(work(""), 0);
  // What looks like a frame and a scan within another segment is none.
  const std::string comment("\xff\xfe\x00\x0f\xff\xc0\x00\x11\x08\xff\xff\xff\xff\xff\xda\x00\x00",
                            17);
  EXPECT_EQ(work(jpeg(20, 30, 7).insert(2, comment)), 20 * 30 * 3);
  // A second scan is a second pass, and beyond what is looked through there may be many.
  const std::string scan("\xff\xda\x00\x08\x01\x01\x00\x00\x00\x00", 10);
  const auto before_its_end = [](const std::string& more) {
    const std::string whole = jpeg(20, 30, 7);
    return whole.substr(0, whole.size() - 2) + more + whole.substr(whole.size() - 2);
  };
  EXPECT_EQ(work(before_its_end(scan)), 2 * 20 * 30 * 3);
  EXPECT_EQ(work(jpeg(20, 30, 7) + scan), 20 * 30 * 3);
  for (const char filling : {'\xff', '\0'}) {
    EXPECT_GT(work(before_its_end(std::string(2 << 20, filling))), 50'000 * 20 * 30 * 3);
  }
}

TEST(DecodeImage, GivesThePixelsOfPng) {
  const auto out =
      run(*make("operator: decode-image"), {encoded(png(1, 2, {255, 0, 0, 0, 128, 255}))});
  EXPECT_THAT(out[0].shape, ElementsAre(1, 2, 3));
  EXPECT_THAT(pixels_of(out[0]), ElementsAre(255, 0, 0, 0, 128, 255));
}

TEST(DecodeImage, GivesThePixelsOfJpeg) {
  const auto out = run(*make("operator: decode-image"), {encoded(jpeg(5, 7, 200))});
  EXPECT_THAT(out[0].shape, ElementsAre(5, 7, 3));
  for (const int value : pixels_of(out[0])) EXPECT_NEAR(value, 200, 2);
}

TEST(DecodeImage, RejectsEveryTruncation) {
  const auto op = make("operator: decode-image");
  for (const std::string& whole : {jpeg(16, 16, 90), png(8, 8, std::vector<uint8_t>(192, 7))}) {
    for (size_t size = 0; size + 12 < whole.size(); size += 7) {
      EXPECT_THAT(failure(*op, {encoded(whole.substr(0, size))}), HasSubstr("picture")) << size;
    }
  }
}

TEST(DecodeImage, RejectsMorePixelsThanAllowedBeforeItDecodes) {
  const auto op = make("{operator: decode-image, max_pixels: 100}");
  EXPECT_THAT(failure(*op, {encoded(jpeg(11, 10, 0))}),
              HasSubstr("has 10 x 11 pixels, expected at most 100"));
  std::string bomb = png(1, 1, {0, 0, 0});
  bomb[16] = bomb[20] = 0x70;  // 1.8 thousand million pixels a side, of a few bytes
  EXPECT_THAT(failure(*make("operator: decode-image"), {encoded(bomb)}), HasSubstr("picture"));
}

TEST(DecodeImage, RejectsWhatIsNoOnePicture) {
  const auto op = make("operator: decode-image");
  EXPECT_THAT(failure(*op, {encoded("GIF89a")}), HasSubstr("neither"));
  EXPECT_THAT(failure(*op, {encoded(jpeg(8, 8, 90, TJPF_CMYK))}),
              HasSubstr("a JPEG in CMYK, as for print, expected one in grey or RGB"));
  Tensor two = encoded(jpeg(2, 2, 0));
  two.data.bytes.remove_suffix(1);
  EXPECT_THAT(failure(*op, {two}), HasSubstr("expected a length of 4 bytes and one element"));
  EXPECT_THAT(failure(*op, {plain(1, 1, 0)}), HasSubstr("UINT8 [1,1,3], expected BYTES [1]"));
}

TEST(Resize, MakesMultiplesOfAtMostTheLongestSide) {
  const auto op = make("{operator: resize, longest: 960, multiple: 32}");
  EXPECT_THAT(run(*op, {plain(1000, 2000, 9)})[0].shape, ElementsAre(480, 960, 3));
  EXPECT_THAT(run(*op, {plain(5, 100, 9)})[0].shape, ElementsAre(32, 96, 3));
}

TEST(Resize, KeepsTheRatioAndFillsTheRest) {
  const auto op = make("{operator: resize, size: [2, 4], keep_ratio: true, fill: 7}");
  const auto out = run(*op, {plain(2, 2, 200)});
  EXPECT_THAT(out[0].shape, ElementsAre(2, 4, 3));
  EXPECT_THAT(pixels_of(out[0]), ElementsAre(200, 200, 200, 200, 200, 200, 7, 7, 7, 7, 7, 7, 200,
                                             200, 200, 200, 200, 200, 7, 7, 7, 7, 7, 7));
}

TEST(Resize, RejectsEmptyPictures) {
  EXPECT_THAT(failure(*make("{operator: resize, size: [2, 2]}"), {plain(0, 5, 0)}),
              HasSubstr("no pixels"));
}

TEST(Resize, NeedsOneSize) {
  EXPECT_THAT(complaint("operator: resize"), HasSubstr("either size"));
  EXPECT_THAT(complaint("{operator: resize, size: [2, 2], longest: 3}"), HasSubstr("either size"));
  EXPECT_THAT(complaint("{operator: resize, size: [2]}"), HasSubstr("size"));
  EXPECT_THAT(complaint("{operator: resize, size: [2, 0]}"), HasSubstr("$.size[1]"));
  EXPECT_THAT(complaint("{operator: resize, size: [2, 2], longst: 3}"), HasSubstr("longst"));
}

TEST(Normalise, PutsChannelsFirstAndBlueFirst) {
  const auto op = make(
      "{operator: normalise, mean: [0.5, 0, 0], deviation: [0.5, 1, 2], scale: 0.01, channels: "
      "bgr}");
  const auto out = run(*op, {image(1, 2, {100, 0, 50, 200, 10, 0})});
  EXPECT_THAT(out[0].shape, ElementsAre(3, 1, 2));
  EXPECT_THAT(floats_of(out[0]), Pointwise(FloatNear(1e-6F), {0.F, -1.F, 0.F, 0.1F, 0.5F, 1.F}));
}

TEST(Normalise, KeepsChannelsLastWhereAsked) {
  const auto out =
      run(*make("{operator: normalise, layout: hwc, scale: 1}"), {image(1, 2, {1, 2, 3, 4, 5, 6})});
  EXPECT_THAT(out[0].shape, ElementsAre(1, 2, 3));
  EXPECT_THAT(floats_of(out[0]), ElementsAre(1, 2, 3, 4, 5, 6));
}

std::vector<float> box(float left, float top, float right, float bottom) {
  return {left, top, right, top, right, bottom, left, bottom};
}

TEST(Crop, CutsAPictureForEachBox) {
  std::vector<uint8_t> rgb(4 * 8 * 3, 0);
  for (size_t y = 0; y < 4; ++y) std::fill_n(rgb.begin() + static_cast<long>(y * 24 + 12), 12, 250);
  auto boxes = box(0, 0, 4, 4), right = box(4, 0, 8, 4);
  boxes.insert(boxes.end(), right.begin(), right.end());
  const auto op = make("{operator: crop, size: [4, 4]}");
  EXPECT_TRUE(op->fans_out());
  const auto out = run(*op, {image(4, 8, rgb), numbers({2, 4, 2}, boxes)});
  EXPECT_THAT(out[0].shape, ElementsAre(2, 4, 4, 3));
  const auto pixels = pixels_of(out[0]);
  EXPECT_EQ(pixels.front(), 0);
  EXPECT_EQ(pixels.back(), 250);
}

TEST(Crop, NoBoxesMakeNoPictures) {
  const auto out =
      run(*make("{operator: crop, size: [4, 6]}"), {plain(4, 4, 1), numbers({0, 4, 2}, {})});
  EXPECT_THAT(out[0].shape, ElementsAre(0, 4, 6, 3));
}

TEST(Crop, GetsAsWideAsTheWidestBoxInSteps) {
  const auto op = make("{operator: crop, size: [10, 20], widest: 60, step: 20}");
  const auto width = [&](float right) {
    return run(*op, {plain(10, 200, 1), numbers({1, 4, 2}, box(0, 0, right, 10))})[0].shape[2];
  };
  EXPECT_EQ(width(15), 20);
  EXPECT_EQ(width(21), 40);
  EXPECT_EQ(width(200), 60);
}

TEST(Crop, RejectsBoxesOutsideAndHostileOnes) {
  const auto op = make("{operator: crop, size: [4, 4]}");
  const auto of = [&](const std::vector<float>& corners) {
    return failure(*op, {plain(4, 4, 1), numbers({1, 4, 2}, corners)});
  };
  EXPECT_THAT(of(box(5, 5, 9, 9)), HasSubstr("box 0 of 'numbers' from (5, 5) has no area"));
  EXPECT_THAT(of(box(1, 1, 1, 3)), HasSubstr("no area"));
  EXPECT_THAT(of(box(NAN, 1, 2, 3)), HasSubstr("no finite number"));
  EXPECT_THAT(of(box(-INFINITY, 1, 2, 3)), HasSubstr("no finite number"));
  EXPECT_TRUE(op->run({plain(4, 4, 1), numbers({1, 4, 2}, box(-1e30F, 1, 1e30F, 3))}).ok());
  EXPECT_THAT(failure(*op, {plain(4, 4, 1), numbers({1001, 4, 2}, std::vector<float>(8008, 1))}),
              HasSubstr("1001 boxes, expected at most 1000"));
}

TEST(Rotate, TurnsWhereTheModelSaysSo) {
  const auto op = make("{operator: rotate, threshold: 0.9}");
  const Tensor picture = image(1, 2, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(pixels_of(run(*op, {picture, numbers({2}, {0.05F, 0.95F})})[0]),
              ElementsAre(4, 5, 6, 1, 2, 3));
  EXPECT_THAT(pixels_of(run(*op, {picture, numbers({2}, {0.5F, 0.5F})})[0]),
              ElementsAre(1, 2, 3, 4, 5, 6));
}

// Two blocks of text in one line and one below, in a map of half the picture's size.
TEST(TextBoxes, FindsBlocksInReadingOrder) {
  std::vector<float> heat(64 * 64, 0);
  const auto block = [&](size_t left, size_t top, size_t width, size_t height, float value) {
    for (size_t y = top; y < top + height; ++y) {
      for (size_t x = left; x < left + width; ++x) heat[y * 64 + x] = value;
    }
  };
  block(40, 10, 16, 8, 0.9F);
  block(8, 12, 16, 8, 0.8F);
  block(8, 40, 32, 8, 0.7F);
  block(50, 50, 8, 8, 0.4F);   // less than box_threshold
  block(60, 60, 2, 2, 0.99F);  // too small
  const auto out = run(*make("{operator: text-boxes, unclip: 0}"),
                       {numbers({1, 64, 64}, heat), plain(128, 128, 0)});
  EXPECT_THAT(out[0].shape, ElementsAre(3, 4, 2));
  const auto corners = floats_of(out[0]);
  const auto left_top = [&](size_t i) { return std::pair(corners[i * 8], corners[i * 8 + 1]); };
  EXPECT_EQ(left_top(0), std::pair(16.F, 24.F));
  EXPECT_EQ(left_top(1), std::pair(80.F, 20.F));
  EXPECT_EQ(left_top(2), std::pair(16.F, 80.F));
  EXPECT_THAT(floats_of(out[1]), Pointwise(FloatNear(0.01F), {0.8F, 0.9F, 0.7F}));
}

TEST(TextBoxes, GrowInsideThePicture) {
  std::vector<float> heat(32 * 32, 1);
  const auto out =
      run(*make("operator: text-boxes"), {numbers({1, 32, 32}, heat), plain(32, 64, 0)});
  EXPECT_THAT(floats_of(out[0]), ElementsAre(0, 0, 64, 0, 64, 32, 0, 32));
}

TEST(TextBoxes, AnEmptyMapHasNone) {
  const auto op = make("operator: text-boxes");
  EXPECT_THAT(
      run(*op, {numbers({1, 32, 32}, std::vector<float>(1024, 0)), plain(32, 32, 0)})[0].shape,
      ElementsAre(0, 4, 2));
  EXPECT_THAT(
      run(*op, {numbers({1, 32, 32}, std::vector<float>(1024, NAN)), plain(32, 32, 0)})[0].shape,
      ElementsAre(0, 4, 2));
}

std::shared_ptr<const Operator> make_ctc_decode() {
  std::ofstream(testing::TempDir() + "characters.txt") << "a\nb\nä\n";
  return make("{operator: ctc-decode, characters: characters.txt}");
}

class CtcDecode : public testing::Test {
 protected:
  std::shared_ptr<const Operator> op_ = make_ctc_decode();
  // The classes are blank, a, b, ä and a space.
  Tensor steps(const std::vector<size_t>& classes) {
    std::vector<float> values(classes.size() * 5, 0.1F);
    for (size_t i = 0; i < classes.size(); ++i) values[i * 5 + classes[i]] = 0.6F;
    return numbers({static_cast<int64_t>(classes.size()), 5}, values);
  }
};

TEST_F(CtcDecode, LeavesOutRepetitionsAndBlanks) {
  const auto out = run(*op_, {steps({0, 1, 1, 0, 1, 4, 3, 3, 2, 0})});
  EXPECT_EQ(text_of(out[0]), "aa äb");
  EXPECT_THAT(floats_of(out[1]), ElementsAre(FloatNear(0.6F, 1e-6F)));
}

TEST_F(CtcDecode, NothingReadIsAnEmptyText) {
  EXPECT_EQ(text_of(run(*op_, {steps({0, 0})})[0]), "");
  EXPECT_THAT(floats_of(run(*op_, {steps({})})[1]), ElementsAre(0));
}

TEST_F(CtcDecode, NeedsACharacterForEachClass) {
  EXPECT_THAT(failure(*op_, {numbers({1, 4}, {1, 2, 3, 4})}),
              HasSubstr("has 4 classes, expected 5"));
}

TEST_F(CtcDecode, ReadsItsFileWhenItIsThere) {
  const std::string file = testing::TempDir() + "later.txt";
  std::filesystem::remove(file);
  const auto op = make("{operator: ctc-decode, characters: later.txt, space: false}");
  const Tensor step = numbers({1, 2}, {0.1F, 0.9F});
  EXPECT_EQ(op->run({step}).status().code(), absl::StatusCode::kUnavailable);
  std::ofstream(file) << "z\n";
  EXPECT_EQ(text_of(run(*op, {step})[0]), "z");
}

TEST(TopK, GivesTheBestFirstWithLabels) {
  std::ofstream(testing::TempDir() + "labels.txt") << "cat\ndog\neel\n";
  const auto out =
      run(*make("{operator: top-k, k: 2, labels: labels.txt}"), {numbers({3}, {0.2F, NAN, 0.7F})});
  EXPECT_THAT(floats_of(out[1]), ElementsAre(0.7F, 0.2F));
  EXPECT_EQ(text_of(out[2]).substr(0, 3), "eel");
  EXPECT_THAT(complaint("{operator: top-k, k: 4, labels: labels.txt}"), HasSubstr("$.k"));
}

TEST(Argmax, GivesTheFirstOfTheBest) {
  const auto out = run(*make("operator: argmax"), {numbers({3}, {1, 5, 5})});
  EXPECT_EQ(*reinterpret_cast<const int64_t*>(out[0].data.bytes.data()), 1);
  EXPECT_THAT(failure(*make("operator: argmax"), {numbers({0}, {})}), HasSubstr("no classes"));
}

TEST(Threshold, KeepsBoxesThatReachIt) {
  auto boxes = box(0, 0, 1, 1), second = box(2, 2, 3, 3);
  boxes.insert(boxes.end(), second.begin(), second.end());
  const auto op = make("{operator: threshold, least: 0.5}");
  const auto out = run(*op, {numbers({2, 4, 2}, boxes), numbers({2}, {0.4F, 0.5F})});
  EXPECT_THAT(floats_of(out[0]), testing::ElementsAreArray(second));
  EXPECT_THAT(failure(*op, {numbers({2, 4, 2}, boxes), numbers({1}, {0.4F})}),
              HasSubstr("expected one of each of 2 boxes"));
}

TEST(Operator, SaysWhichInputsItWants) {
  const auto op = make("operator: argmax");
  EXPECT_THAT(failure(*op, {}), HasSubstr("0 inputs, expected 1"));
  Tensor short_one = numbers({4}, {1, 2, 3});
  EXPECT_THAT(failure(*op, {short_one}), HasSubstr("has 12 bytes, expected 16"));
}

}  // namespace
}  // namespace fermata::operators
