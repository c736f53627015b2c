#include "serve/call/shared_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/status.h"
#include "serve/grpc/grpc_codec.h"
#include "serve/json/json_reply.h"

namespace fermata::serve {
namespace {

using ::testing::HasSubstr;

// A region of this test's own, gone with it.
struct Region {
  explicit Region(size_t size) : name(fmt::format("/fermata-test-{}", getpid())) {
    const int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
    EXPECT_EQ(ftruncate(file, static_cast<off_t>(size)), 0);
    bytes = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
  }
  ~Region() { shm_unlink(name.c_str()); }
  std::string name;
  char* bytes;
};

void cut(const std::string& object, off_t size) {
  const int file = shm_open(object.c_str(), O_RDWR, 0600);
  ASSERT_EQ(ftruncate(file, size), 0);
  close(file);
}

TEST(SharedMemory, InputsAreCopiedWhenTheyCome) {
  Region object(64);
  SharedMemory regions;
  ASSERT_TRUE(regions.add({"r", object.name, 16, 48}).ok());
  EXPECT_EQ(regions.add({"r", object.name, 0, 8}).code(), absl::StatusCode::kAlreadyExists);
  std::memcpy(object.bytes + 20, "seen", 4);
  const auto input = regions.input({"r", 4, 4});
  ASSERT_TRUE(input.ok());
  regions.remove("");  // what was copied is there
  cut(object.name, 0);
  EXPECT_EQ(std::memcmp(input->bytes.data(), "seen", 4), 0);
  EXPECT_FALSE(regions.input({"r", 4, 4}).ok());
}

TEST(SharedMemory, OutputsIntoAnObjectThatWasCutAreAnError) {
  Region object(64);
  SharedMemory regions;
  ASSERT_TRUE(regions.add({"r", object.name, 0, 64}).ok());
  cut(object.name, 8);
  const std::vector<std::byte> bytes(8);
  EXPECT_THAT(std::string(message(regions.write({"r", 32, 8}, bytes))), HasSubstr("been cut"));
  EXPECT_TRUE(regions.write({"r", 0, 8}, bytes).ok());
}

TEST(SharedMemory, OnlyNamesWithThePrefixAndSoManyRegionsAndBytes) {
  Region object(64);
  const auto code = [&object](SharedMemoryOptions options, SharedMemory::Region region) {
    SharedMemory regions(std::move(options));
    (void)regions.add({"first", object.name, 0, 32});
    return regions.add(std::move(region)).code();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const auto exhausted = absl::StatusCode::kResourceExhausted;
  EXPECT_EQ(code({.prefix = "/other-"}, {"r", object.name, 0, 8}), invalid);
  EXPECT_EQ(code({.prefix = std::nullopt}, {"r", object.name, 0, 8}), invalid);
  EXPECT_EQ(code({.prefix = object.name}, {"r", object.name, 0, 8}), absl::StatusCode::kOk);
  EXPECT_EQ(code({.prefix = object.name}, {"r", object.name.substr(1), 0, 8}),
            absl::StatusCode::kOk);
  EXPECT_EQ(code({.regions = 1}, {"r", object.name, 0, 8}), exhausted);
  EXPECT_EQ(code({.bytes = 39}, {"r", object.name, 0, 8}), exhausted);
  EXPECT_EQ(code({}, {std::string("r\0", 2), object.name, 0, 8}), invalid);
  EXPECT_EQ(code({}, {"r", object.name + std::string("\0", 1), 0, 8}), invalid);
}

TEST(SharedMemory, CopiesThatAreUnderWayHaveALimit) {
  Region object(64);
  SharedMemory regions({.bytes = 64});
  ASSERT_TRUE(regions.add({"r", object.name, 0, 64}).ok());
  {
    const auto whole = regions.input({"r", 0, 64});
    ASSERT_TRUE(whole.ok());
    EXPECT_EQ(regions.input({"r", 0, 1}).status().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_TRUE(regions.input({"r", 0, 64}).ok());
}

TEST(SharedMemory, CopiesCountAgainstTheWholeBudget) {
  Region object(64);
  const auto budget = std::make_shared<ByteBudget>(40);
  SharedMemory regions({}, budget);
  ASSERT_TRUE(regions.add({"r", object.name, 0, 64}).ok());
  EXPECT_EQ(regions.input({"r", 0, 41}).status().code(), absl::StatusCode::kResourceExhausted);
  {
    const auto copy = regions.input({"r", 0, 40});
    EXPECT_TRUE(copy.ok());
    EXPECT_EQ(budget->used(), 40u);
  }
  EXPECT_EQ(budget->used(), 0u);
}

TEST(SharedMemory, CopiesOnlyWhatFitsTheShapeAndLongOnesLater) {
  constexpr int64_t kLongInput = 1 << 20;
  Region object(kLongInput);
  object.bytes[kLongInput - 1] = 'z';
  SharedMemory regions;
  ASSERT_TRUE(regions.add({"r", object.name, 0, kLongInput}).ok());
  InferCall call;
  Tensor& tensor = call.request.inputs.emplace_back();
  tensor.datatype = DataType::kInt8;
  for (const Shape& shape : {Shape{kLongInput - 1}, Shape{-1, -kLongInput},
                             Shape{int64_t{1} << 62, 4}, Shape{0}, Shape{}}) {
    tensor.shape = shape;
    EXPECT_EQ(regions.input_of(tensor, {"r", 0, kLongInput}, call).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  call.request.inputs.clear();
  Tensor large;
  large.datatype = DataType::kInt8;
  large.shape = {kLongInput};
  const auto later = regions.input_of(large, {"r", 0, kLongInput}, call);
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_TRUE(later->bytes.empty());
  EXPECT_FALSE(regions.input_of(large, {"nowhere", 0, kLongInput}, call).ok());
  call.request.inputs.push_back(large);
  ASSERT_TRUE(regions.fetch(call).ok());
  EXPECT_EQ(call.request.inputs[0].data.bytes.back(), std::byte{'z'});
  EXPECT_TRUE(call.distant.empty());
}

TEST(SharedMemory, TakesOutputsWhereAsked) {
  Region object(64);
  SharedMemory regions;
  ASSERT_TRUE(regions.add({"r", object.name, 0, 64}).ok());
  engine::ReplyPart part;
  part.outputs.push_back(
      {"y", DataType::kInt8, {4}, payload_of(std::vector<char>{'d', 'o', 'n', 'e'})});
  ReplyWishes wishes;
  wishes.outputs.push_back({"y", {}});
  wishes.outputs[0].parameters.shared_memory = RegionPlace{"r", 8, 4};
  inference::ModelInferResponse response;
  ASSERT_TRUE(encode_grpc_reply(engine::ReplyPart(part), wishes, regions, response).ok());
  EXPECT_EQ(std::memcmp(object.bytes + 8, "done", 4), 0);
  EXPECT_EQ(response.raw_output_contents(0), "");
  EXPECT_EQ(response.outputs(0).parameters().at("shared_memory_byte_size").int64_param(), 4);
  wishes.outputs[0].parameters.shared_memory->byte_size = 3;
  EXPECT_FALSE(encode_json_reply(engine::ReplyPart(part), wishes, regions).ok());
}

TEST(SharedMemory, RequestsUnderWayKeepARegionThatIsRemovedAndTakenAnew) {
  constexpr int64_t kLongInput = 1 << 20;
  Region object(kLongInput + 8);
  SharedMemory regions;
  ASSERT_TRUE(regions.add({"r", object.name, 0, kLongInput + 8}).ok());
  InferCall call;
  TensorParameters output;
  output.shared_memory = RegionPlace{"r", kLongInput, 4};
  ASSERT_TRUE(add_output("y", output, regions, call).ok());
  Tensor large{.name = "x", .datatype = DataType::kInt8, .shape = {kLongInput}};
  ASSERT_TRUE(regions.input_of(large, {"r", 0, kLongInput}, call).ok());
  call.request.inputs.push_back(large);
  ASSERT_EQ(call.distant.size(), 1u);

  regions.remove("r");
  ASSERT_TRUE(regions.add({"r", object.name, 0, 8}).ok());  // another, of the same name
  ASSERT_TRUE(regions.fetch(call).ok());
  EXPECT_EQ(call.request.inputs[0].data.bytes.size(), size_t{kLongInput});
  engine::ReplyPart part;
  part.outputs.push_back(
      {"y", DataType::kInt8, {4}, payload_of(std::vector<char>{'d', 'o', 'n', 'e'})});
  inference::ModelInferResponse response;
  ASSERT_TRUE(encode_grpc_reply(engine::ReplyPart(part), call.wishes, regions, response).ok());
  EXPECT_EQ(std::memcmp(object.bytes + kLongInput, "done", 4), 0);
  EXPECT_FALSE(add_output("z", output, regions, call).ok());  // it is not in the new one
}

TEST(SharedMemory, APlaceMayHaveNoBytesButMustSaySo) {
  Region object(64);
  SharedMemory regions;
  ASSERT_TRUE(regions.add({"r", object.name, 0, 64}).ok());
  InferCall call;
  const Tensor empty{.name = "x", .datatype = DataType::kFp32, .shape = {1, 0, 4}};
  const auto data = regions.input_of(empty, {"r", 64, 0}, call);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_TRUE(data->bytes.empty());
  TensorParameters output;
  output.shared_memory = RegionPlace{"r", 8, 0};
  EXPECT_TRUE(add_output("y", output, regions, call).ok());
  EXPECT_TRUE(regions.write(*output.shared_memory, {}).ok());
  output.shared_memory->byte_size.reset();
  EXPECT_FALSE(add_output("z", output, regions, call).ok());
}

TEST(SharedMemory, RefusesPlacesThatAreNotThere) {
  Region object(64);
  SharedMemory regions;
  EXPECT_FALSE(regions.add({"r", "/fermata-nobody", 0, 8}).ok());
  EXPECT_FALSE(regions.add({"r", object.name, 60, 8}).ok());
  EXPECT_FALSE(regions.add({"r", object.name, UINT64_MAX, 8}).ok());
  ASSERT_TRUE(regions.add({"r", object.name, 0, 64}).ok());
  EXPECT_FALSE(regions.input({"r", 60, 8}).ok());
  EXPECT_FALSE(regions.input({"r", UINT64_MAX, 8}).ok());
  cut(object.name, 8);
  EXPECT_THAT(std::string(message(regions.input({"r", 32, 8}).status())), HasSubstr("been cut"));
}

}  // namespace
}  // namespace fermata::serve
