// Messages come in pieces that end wherever a read from the socket did.
#include "serve/grpc/grpc_message.h"

#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "grpc_service.pb.h"
#include "serve/net/compression.h"

namespace fermata::serve {
namespace {

constexpr size_t kLimit = 1 << 20;

grpc::ByteBuffer in_pieces(const std::vector<std::string_view>& pieces) {
  std::vector<grpc::Slice> slices;
  for (const std::string_view piece : pieces) slices.emplace_back(piece.data(), piece.size());
  return {slices.data(), slices.size()};
}

inference::ModelInferRequest whole_request() {
  inference::ModelInferRequest request;
  request.set_model_name("echo");
  request.set_id("7");
  (*request.mutable_parameters())["timeout"].set_int64_param(250'000);
  auto& input = *request.add_inputs();
  input.set_name("IN");
  input.set_datatype("FP32");
  input.add_shape(-1);
  input.add_shape(4);
  request.add_raw_input_contents(std::string(16, '\x1f'));
  request.add_raw_input_contents("");
  return request;
}

struct Sent {
  std::string bytes;
  bool packed;
};

// As they are, and with every way of packing them.
template <class Message>
std::vector<Sent> all_ways(const Message& message) {
  const std::string plain = message.SerializeAsString();
  return {{plain, false},
          {compress({plain}, Encoding::kGzip), true},
          {compress({plain}, Encoding::kDeflate), true}};
}

template <class Message>
void expect_read(const Sent& sent, const std::vector<std::string_view>& pieces,
                 const Message& message) {
  grpc::ByteBuffer bytes = in_pieces(pieces);
  ASSERT_EQ(is_packed(bytes), sent.packed);
  HeldBytes held;
  Message read;
  const absl::Status status = read_message(bytes, kLimit, held, read);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(read.SerializeAsString(), message.SerializeAsString());
}

template <class Message>
void expect_every_split(const Message& message) {
  for (const Sent& sent : all_ways(message)) {
    const std::string_view all = sent.bytes;
    for (size_t first = 0; first <= all.size(); ++first) {
      SCOPED_TRACE(testing::Message() << "split at " << first << ", packed " << sent.packed);
      expect_read(sent, {all.substr(0, first), all.substr(first)}, message);
      for (size_t second = first; second <= all.size(); second += 1 + second / 16) {
        expect_read(sent,
                    {all.substr(0, first), all.substr(first, second - first), all.substr(second)},
                    message);
      }
    }
    std::vector<std::string_view> single;
    for (size_t i = 0; i < all.size(); ++i) single.push_back(all.substr(i, 1));
    expect_read(sent, single, message);
  }
}

TEST(GrpcMessage, ReadsInferRequestsSplitAtEveryByte) { expect_every_split(whole_request()); }

TEST(GrpcMessage, ReadsOtherMessagesSplitAtEveryByte) {
  inference::ModelReadyRequest ready;
  ready.set_name("echo");
  expect_every_split(ready);
  inference::RepositoryIndexRequest index;
  index.set_ready(true);
  expect_every_split(index);
  inference::SystemSharedMemoryRegisterRequest region;
  region.set_name("r");
  region.set_key("/k");
  region.set_byte_size(1 << 20);
  expect_every_split(region);
}

// As the second answer of a stream, where the first was written.
TEST(GrpcMessage, WritesInPlaceOfWhatIsThere) {
  grpc::ByteBuffer bytes;
  for (const size_t length : {1000, 3000, 10, 2000}) {
    inference::ModelInferRequest message;
    message.set_id(std::string(length, 'x'));
    HeldBytes held;
    ASSERT_TRUE(write_message(message, held, bytes).ok());
    EXPECT_EQ(bytes.Length(), message.ByteSizeLong());
  }
}

TEST(GrpcMessage, ReadsNothingFromAnyNumberOfPieces) {
  inference::ServerLiveRequest read;
  HeldBytes held;
  for (const std::vector<std::string_view>& pieces :
       {std::vector<std::string_view>{}, {""}, {"", "", ""}}) {
    grpc::ByteBuffer bytes = in_pieces(pieces);
    EXPECT_FALSE(is_packed(bytes));
    EXPECT_TRUE(read_message(bytes, kLimit, held, read).ok());
  }
}

}  // namespace
}  // namespace fermata::serve
