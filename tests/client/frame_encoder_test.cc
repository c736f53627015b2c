#include "client/frame_encoder.h"

#include <gtest/gtest.h>

#include <cstring>

#include "operators/pictures.h"

namespace fermata::client {
namespace {

cv::Mat red(int width, int height) { return {height, width, CV_8UC3, cv::Scalar(250, 10, 10)}; }

absl::StatusOr<Tensor> encoded(DataType datatype, Shape shape, uint32_t side) {
  auto encoder = FrameEncoder::make({{"frame", datatype, std::move(shape)}}, {});
  if (!encoder.ok()) return encoder.status();
  return encoder->encode(red(80, 60), side);
}

TEST(FrameEncoder, MakesAJpegOfTheSideThatIsAskedFor) {
  for (const Shape& shape : {Shape{-1, 1}, Shape{1}}) {
    const auto tensor = encoded(DataType::kBytes, shape, 32);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->shape, shape.size() == 2 ? Shape({1, 1}) : Shape({1}));
    uint32_t length = 0;
    std::memcpy(&length, tensor->data.bytes.data(), sizeof length);
    ASSERT_EQ(tensor->data.bytes.size(), length + sizeof length);
    const auto picture = operators::decode_picture(tensor->data.bytes.subspan(sizeof length));
    ASSERT_TRUE(picture.ok()) << picture.status();
    EXPECT_EQ(picture->size(), cv::Size(32, 32));
    EXPECT_NEAR(picture->at<cv::Vec3b>(16, 16)[0], 250, 4);
    EXPECT_NEAR(picture->at<cv::Vec3b>(16, 16)[2], 10, 4);
  }
}

TEST(FrameEncoder, MakesFloatsChannelByChannel) {
  const auto tensor = encoded(DataType::kFp32, {-1, 3, -1, -1}, 16);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->shape, Shape({1, 3, 16, 16}));
  const auto* values = reinterpret_cast<const float*>(tensor->data.bytes.data());
  EXPECT_FLOAT_EQ(values[0], 250 / 255.0f);
  EXPECT_FLOAT_EQ(values[16 * 16], 10 / 255.0f);
}

TEST(FrameEncoder, MakesBytesPixelByPixel) {
  const auto tensor = encoded(DataType::kUint8, {64, 64, 3}, 64);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->shape, Shape({64, 64, 3}));
  EXPECT_EQ(tensor->data.bytes[0], std::byte{250});
  EXPECT_EQ(tensor->data.bytes[1], std::byte{10});
}

TEST(FrameEncoder, SaysWhatAServiceShouldTake) {
  const auto wrong = encoded(DataType::kInt64, {-1, 4}, 64);
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(wrong.status().message(),
            "the service's input 'frame' is INT64 [-1,4], expected BYTES [1] for a JPEG, UINT8 "
            "[height, width, 3] or FP32 [3, height, width]");
  EXPECT_EQ(FrameEncoder::make({}, {}).status().message(),
            "the service has 0 inputs, expected one, for a picture");
}

TEST(FrameEncoder, RejectsWhatIsNoPicture) {
  auto encoder = FrameEncoder::make({{"frame", DataType::kBytes, {1}}}, {});
  ASSERT_TRUE(encoder.ok());
  EXPECT_FALSE(encoder->encode(cv::Mat(), 32).ok());
  EXPECT_FALSE(encoder->encode(cv::Mat(4, 4, CV_8UC1), 32).ok());
}

}  // namespace
}  // namespace fermata::client
