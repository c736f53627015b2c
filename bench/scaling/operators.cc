#include <png.h>

#include <cmath>
#include <cstdio>

#include "base/check.h"
#include "base/random.h"
#include "fuzz/operator_of.h"
#include "operators/values.h"
#include "scaling/cases.h"

namespace fermata::scaling {
namespace {

using Inputs = std::vector<Tensor>;

Tensor floats(Shape shape, std::vector<float> values) {
  return operators::floats("values", std::move(shape), std::move(values));
}

Tensor picture(size_t height, size_t width) {
  return {"image",
          DataType::kUint8,
          {static_cast<int64_t>(height), static_cast<int64_t>(width), 3},
          payload_of(std::vector<uint8_t>(height * width * 3, 100))};
}

Tensor encoded(const std::string& bytes) { return operators::texts("encoded", {bytes}); }

std::vector<float> any_floats(size_t n) {
  Random random(7);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.uniform());
  return values;
}

std::string png_of(size_t pixels) {
  png_image head = {};
  head.version = PNG_IMAGE_VERSION;
  head.width = 50;
  head.height = static_cast<uint32_t>(pixels / head.width);
  head.format = PNG_FORMAT_RGB;
  const std::vector<uint8_t> rgb(pixels * 3, 7);
  png_alloc_size_t size = 0;
  FERMATA_CHECK(png_image_write_to_memory(&head, nullptr, &size, 0, rgb.data(), 0, nullptr));
  std::string bytes(size, '\0');
  FERMATA_CHECK(png_image_write_to_memory(&head, bytes.data(), &size, 0, rgb.data(), 0, nullptr));
  return bytes;
}

// Mono, 16 bits a sample, at a rate that has to be changed.
std::string wav_of(size_t samples) {
  const auto raw = [](auto value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const auto bytes = static_cast<uint32_t>(samples * 2);
  return "RIFF" + raw(uint32_t{0}) + "WAVEfmt " + raw(uint32_t{16}) + raw(uint16_t{1}) +
         raw(uint16_t{1}) + raw(uint32_t{22'050}) + raw(uint32_t{44'100}) + raw(uint16_t{2}) +
         raw(uint16_t{16}) + "data" + raw(bytes) + std::string(bytes, 's');
}

// What a map says where `text` holds of a pixel.
template <class Text>
Tensor heat(size_t height, size_t width, Text text) {
  std::vector<float> values(height * width);
  for (size_t i = 0; i < values.size(); ++i) values[i] = text(i / width, i % width) ? 1 : 0;
  return floats({1, static_cast<int64_t>(height), static_cast<int64_t>(width)}, std::move(values));
}

// A file with three characters.
std::string characters() {
  static const std::string name = [] {
    std::string made = "/tmp/fermata-scaling-XXXXXX";
    FILE* file = fdopen(mkstemp(made.data()), "w");
    FERMATA_CHECK(file != nullptr && fputs("a\nb\nc\n", file) >= 0 && fclose(file) == 0);
    return made;
  }();
  return name;
}

}  // namespace

void add_operator_cases(Cases& cases) {
  const auto add = [&cases](const char* name, size_t n, const std::string& yaml,
                            Inputs (*inputs)(size_t n)) {
    cases.push_back({name, n, [yaml, inputs](size_t count) {
                       const auto op = operator_of("{operator: " + yaml + "}");
                       const Inputs given = inputs(count);
                       measured([&] { FERMATA_CHECK(op->run(given).ok()); });
                     }});
  };
  add("text_boxes_many", 100, "text-boxes", [](size_t n) {
    return Inputs{heat(10, 10 * n, [](size_t y, size_t x) { return y < 6 && x % 10 < 6; }),
                  picture(10, 10)};
  });
  add("text_boxes_comb", 1'000, "text-boxes", [](size_t n) {
    return Inputs{heat(20, n, [](size_t y, size_t x) { return y > 12 || x % 4 < 2; }),
                  picture(10, 10)};
  });
  // Boxes that lie across: the upright ones around them overlap.
  add("text_boxes_across", 40'000, "text-boxes, box_threshold: 0", [](size_t n) {
    const auto side = static_cast<size_t>(std::sqrt(static_cast<double>(n)));
    return Inputs{heat(side, side, [](size_t y, size_t x) { return (x + 2 * y) % 24 < 12; }),
                  picture(10, 10)};
  });
  add("decode_image", 20'000, "decode-image", [](size_t n) { return Inputs{encoded(png_of(n))}; });
  add("decode_sound", 5'000, "decode-sound, rate: 16000, max_seconds: 60",
      [](size_t n) { return Inputs{encoded(wav_of(n))}; });
  add("windows", 10'000, "windows, size: 50, step: 25, most: 100000",
      [](size_t n) { return Inputs{floats({static_cast<int64_t>(n)}, any_floats(n))}; });
  add("top_k", 10'000, "top-k, k: 5",
      [](size_t n) { return Inputs{floats({static_cast<int64_t>(n)}, any_floats(n))}; });
  add("crop", 100, "crop, size: [8, 16]", [](size_t n) {
    std::vector<float> boxes;
    for (size_t i = 0; i < n; ++i) boxes.insert(boxes.end(), {1, 1, 9, 1, 9, 5, 1, 5});
    return Inputs{picture(20, 20), floats({static_cast<int64_t>(n), 4, 2}, std::move(boxes))};
  });
  cases.push_back({"ctc_decode", 5'000, [](size_t n) {
                     const auto op =
                         operator_of("{operator: ctc-decode, characters: " + characters() + "}");
                     const Inputs given{floats({static_cast<int64_t>(n), 5}, any_floats(5 * n))};
                     measured([&] { FERMATA_CHECK(op->run(given).ok()); });
                     std::remove(characters().c_str());
                   }});
}

}  // namespace fermata::scaling
