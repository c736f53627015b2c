#include "model/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/status.h"
#include "model/tensor_values.h"

namespace fermata {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string npy(const std::string& header, const std::string& data, char major = 1) {
  std::string text = std::string("\x93NUMPY") + major + '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    text.push_back(static_cast<char>(header.size() >> (8 * i) & 255));
  }
  return text + header + data;
}

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(T)};
}

std::string header(const std::string& descr, const std::string& shape,
                   const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape +
         ", }  \n";
}

std::string says(std::string file) {
  return std::string(message(parse_npy(std::move(file), "f.npy").status()));
}

TEST(Npy, ReadsFloats) {
  const auto tensor =
      parse_npy(npy(header("<f4", "(2, 3)"), bytes_of<float>({1, 2, 3, 4, 5, 6.5})), "f.npy");
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->shape, (Shape{2, 3}));
  EXPECT_EQ(tensor->datatype, DataType::kFp32);
  EXPECT_THAT(*as_floats(*tensor), ElementsAre(1, 2, 3, 4, 5, 6.5));
}

TEST(Npy, ReadsEveryVersionAndSpelling) {
  for (char major : {1, 2, 3}) {
    const auto tensor = parse_npy(
        npy(R"({"shape":(2L,),"descr":"|u1","fortran_order":True})", "\x07\x08", major), "f");
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_THAT(*as_integers(*tensor), ElementsAre(7, 8));
  }
  const auto scalar = parse_npy(npy(header("<i8", "()"), bytes_of<int64_t>({-5})), "f");
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  EXPECT_THAT(*as_integers(*scalar), ElementsAre(-5));
  EXPECT_TRUE(parse_npy(npy(header("<f8", "(0, 3)"), ""), "f").ok());
}

TEST(Npy, WhatItCannotReadIsTold) {
  EXPECT_THAT(says("PK\x03\x04"), AllOf(HasSubstr("f.npy: "), HasSubstr("numpy.save")));
  EXPECT_THAT(says(""), HasSubstr("numpy.save"));
  EXPECT_THAT(says(npy(header("<f4", "(1,)"), "", 4)), HasSubstr("format 4"));
  EXPECT_THAT(says(npy(header("<f4", "(1,)"), "").substr(0, 40)), HasSubstr("cut off"));
  EXPECT_THAT(says(npy(header(">f4", "(1,)"), "abcd")), HasSubstr("'>f4', expected little-endian"));
  EXPECT_THAT(says(npy(header("|O", "(1,)"), "abcd")), HasSubstr("'|O'"));
  EXPECT_THAT(says(npy(header("", "(1,)"), "abcd")), HasSubstr("''"));
  EXPECT_THAT(says(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "abcd")),
              HasSubstr("array of plain numbers"));
  EXPECT_THAT(says(npy(header("<f4", "(2, 2)", "True"), std::string(16, '\0'))),
              HasSubstr("ascontiguousarray"));
}

TEST(Npy, AFileWithoutAnEndIsRefusedAtItsStart) {
  EXPECT_THAT(std::string(message(read_npy("/dev/zero").status())),
              AllOf(HasSubstr("/dev/zero: "), HasSubstr("numpy.save")));
  const std::string file = testing::TempDir() + "/long.npy";
  std::ofstream(file) << npy(header("<f4", "(2,)"), std::string(1 << 20, 'x'));
  EXPECT_THAT(std::string(message(read_npy(file).status())), HasSubstr("more than "));
}

TEST(Npy, SizesThatDoNotFitAreTold) {
  EXPECT_THAT(says(npy(header("<f4", "(2,)"), "abcd")),
              HasSubstr("has 4 bytes of data, expected 8 for shape [2] of FP32"));
  EXPECT_THAT(says(npy(header("<f4", "(1,)"), "abcdefgh")), HasSubstr("has 8 bytes"));
  EXPECT_THAT(says(npy(header("<f8", "(4611686018427387904, 4)"), "")), HasSubstr("far more"));
  for (const char* shape : {"(-1,)", "(1", "(1 2)", "1", "(99999999999999999999,)", "(1,,)"}) {
    EXPECT_THAT(says(npy(header("<f4", shape), "abcd")), HasSubstr("its header")) << shape;
  }
}

Tensor of(DataType type, std::string data, int64_t count) {
  const auto owner = std::make_shared<const std::string>(std::move(data));
  const auto* bytes = reinterpret_cast<const std::byte*>(owner->data());
  return {"t", type, {count}, {{bytes, owner->size()}, owner}};
}

TEST(TensorValues, HalvesAreWhatIeeeSays) {
  // 1, -2, the largest, the least normal, the least subnormal, infinity.
  const Tensor halves =
      of(DataType::kFp16, bytes_of<uint16_t>({0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x7c00}), 6);
  EXPECT_THAT(*as_floats(halves),
              ElementsAre(1, -2, 65504, std::ldexp(1.F, -14), std::ldexp(1.F, -24), INFINITY));
  EXPECT_TRUE(std::isnan((*as_floats(of(DataType::kFp16, bytes_of<uint16_t>({0x7e00}), 1)))[0]));
  EXPECT_THAT(*as_floats(of(DataType::kBf16, bytes_of<uint16_t>({0x3f80, 0xc040}), 2)),
              ElementsAre(1, -3));
}

TEST(TensorValues, RefusesWhatIsNoNumber) {
  EXPECT_FALSE(as_floats(of(DataType::kBytes, "", 0)).ok());
  EXPECT_FALSE(as_integers(of(DataType::kFp32, "abcd", 1)).ok());
  EXPECT_FALSE(as_integers(of(DataType::kInt32, "abc", 1)).ok());
  EXPECT_FALSE(as_integers(of(DataType::kUint64, std::string(8, '\xff'), 1)).ok());
  EXPECT_THAT(*as_floats(of(DataType::kInt8, "\xff", 1)), ElementsAre(-1));
}

TEST(Npy, WritesWhatItReads) {
  const std::string data = bytes_of<int32_t>({1, -2, 3, 4, 5, 6});
  for (const Shape& shape : {Shape{2, 3}, Shape{6}, Shape{1, 2, 3, 1}}) {
    const Tensor tensor{
        "t",
        DataType::kInt32,
        shape,
        {absl::MakeConstSpan(reinterpret_cast<const std::byte*>(data.data()), data.size()),
         nullptr}};
    const auto bytes = npy_bytes(tensor);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ((bytes->size() - data.size()) % 64, 0u);
    EXPECT_EQ((*bytes)[bytes->size() - data.size() - 1], '\n');
    const auto again = parse_npy(*bytes, "f");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->shape, shape);
    EXPECT_THAT(*as_integers(*again), ElementsAre(1, -2, 3, 4, 5, 6));
  }
  EXPECT_FALSE(npy_bytes({"t", DataType::kBytes, {0}, {}}).ok());
}

}  // namespace
}  // namespace fermata
