#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "engine/catalog.h"
#include "engine/request.h"

namespace fermata::serve {

// A parameter's value, whichever codec read it. Text is valid as long as the
// message it was read from.
using ParameterValue = std::variant<bool, int64_t, uint64_t, double, std::string_view>;

struct SharedObject;  // serve/call/shared_memory.cc

// A place in a registered shared memory region.
struct RegionPlace {
  std::string region;
  uint64_t offset = 0;
  std::optional<uint64_t> byte_size;  // none: nobody has said; 0 is a place of no bytes
  // After SharedMemory::hold(): what the region was then. The place stays, whatever becomes of the
  // region's registration.
  std::shared_ptr<const SharedObject> object = nullptr;
  uint64_t object_offset = 0;
};

// The parameters of one tensor of a request, input or output.
struct TensorParameters {
  std::optional<uint64_t> binary_data_size;  // input: its share of the body's binary part
  std::optional<bool> binary_data;           // output: in binary, or as JSON
  uint32_t classification = 0;               // output: so many top classes; 0: the values
  std::optional<RegionPlace> shared_memory;
};

struct WantedOutput {
  std::string name;
  TensorParameters parameters;
};

// What a client wants of its reply, beside the outputs' names.
struct ReplyWishes {
  std::vector<WantedOutput> outputs;  // in the order asked for; empty: all
  bool binary_data_output = false;    // for outputs that say nothing themselves
  bool explain = false;               // why in the reply's parameters
  bool empty_final_response = false;  // of a stream: mark each response as final or not
  std::string unknown;                // parameters that are the model's own, or spelt wrong
  // What it is that classifies, where an output is wanted so.
  std::shared_ptr<const engine::Variant> classifier;

  bool classifies() const;
};

class SharedMemory;

// One infer request as every codec decodes it. Shapes and datatypes are checked
// by the engine against the model; codecs only check what the message says of itself.
struct InferCall {
  // An input that is in shared memory, and is too long to be copied while others wait.
  struct Distant {
    size_t input = 0;
    RegionPlace place;
  };
  engine::InferRequest request;
  ReplyWishes wishes;
  std::vector<Distant> distant;  // SharedMemory::fetch() brings them
};

constexpr size_t kLongestId = 4096;  // bytes, which replies repeat, read or not

absl::Status set_id(std::string_view id, InferCall& call);
// Each takes one parameter; names that nobody knows are the model's own, as the protocol asks, and
// ReplyWishes::unknown says which were probably meant. INVALID_ARGUMENT names the parameter and
// what it holds; UNIMPLEMENTED for sequences.
absl::Status set_request_parameter(std::string_view name, const ParameterValue& value,
                                   InferCall& call);
absl::Status set_tensor_parameter(std::string_view tensor, std::string_view name,
                                  const ParameterValue& value, TensorParameters& parameters);

// Once after all parameters of a tensor: half a shared memory place is an error.
absl::Status check_tensor_parameters(std::string_view tensor, const TensorParameters& parameters);

// Adds an output the client asks for; a place in shared memory is held from here on. Errors as
// SharedMemory::hold() too.
absl::Status add_output(std::string name, TensorParameters parameters, const SharedMemory& regions,
                        InferCall& call);

// Once after all outputs: two of the same name are an error. O(n log n).
absl::Status check_outputs(const InferCall& call);

}  // namespace fermata::serve
