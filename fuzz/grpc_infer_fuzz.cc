#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstdint>
#include <memory>

#include "infer_check.h"
#include "serve/grpc/message_weight.h"

// An infer request as gRPC's parser leaves it, whatever it holds; what can be parsed can be
// weighed.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata::serve;
  const SharedMemory regions;
  const auto message = std::make_shared<inference::ModelInferRequest>();
  google::protobuf::io::ArrayInputStream wire(data, static_cast<int>(size));
  fermata::HeldBytes unlimited;
  const absl::Status weighed =
      hold_parsed(wire, *inference::ModelInferRequest::descriptor(), unlimited);
  if (!message->ParseFromArray(data, static_cast<int>(size))) return 0;
  FERMATA_CHECK(weighed.ok());
  const auto call = decode_grpc_infer(message, regions);
  if (call.ok()) {
    check_call(*call, regions);
  } else {
    check_refusal(call.status());
  }
  return 0;
}
