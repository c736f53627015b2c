#include <cstdint>
#include <memory>

#include "infer_check.h"

// An infer request as gRPC's parser leaves it, whatever it holds.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata::serve;
  const SharedMemory regions;
  const auto message = std::make_shared<inference::ModelInferRequest>();
  if (!message->ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto call = decode_grpc_infer(message, regions);
  if (call.ok()) {
    check_call(*call, regions);
  } else {
    check_refusal(call.status());
  }
  return 0;
}
