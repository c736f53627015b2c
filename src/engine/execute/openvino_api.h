#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "model/datatype.h"

namespace fermata::engine {

// The part of OpenVINO's C interface that we call, in our own words: nothing of it is needed to
// build, and its library is opened when a model first asks for it. Functions are found by name; of
// its structures only those below stand in them.
struct OvCore;
struct OvModel;
struct OvCompiled;
struct OvRequest;
struct OvTensor;
struct OvPort;
struct OvShape {
  int64_t rank = 0;
  int64_t* dims = nullptr;
};
struct OvRange {  // of a dimension, or of how many there are
  int64_t least = 0, most = 0;
};
struct OvPartialShape {
  OvRange rank;
  OvRange* dims = nullptr;
};

// A function that answers an int returns 0 where all went well.
struct OpenVino {
  const char* (*last_error)();
  void (*free)(const char*);
  int (*core_create)(OvCore**);
  int (*core_read)(const OvCore*, const char* file, const char* weights, OvModel**);
  int (*core_read_text)(const OvCore*, const char* text, size_t length, const OvTensor* weights,
                        OvModel**);
  // Behind `compiled` stand as many texts as `words` says: names and values in turn.
  int (*core_compile)(const OvCore*, const OvModel*, const char* device, size_t words,
                      OvCompiled** compiled, ...);
  int (*model_inputs)(const OvModel*, size_t*);
  int (*model_outputs)(const OvModel*, size_t*);
  int (*model_input)(const OvModel*, size_t, OvPort**);
  int (*model_output)(const OvModel*, size_t, OvPort**);
  int (*port_name)(const OvPort*, char**);
  int (*port_type)(const OvPort*, uint32_t*);
  int (*port_shape)(const OvPort*, OvPartialShape*);
  void (*free_shape)(OvPartialShape*);
  int (*compiled_request)(const OvCompiled*, OvRequest**);
  int (*request_set_input)(OvRequest*, size_t, const OvTensor*);
  int (*request_get_output)(const OvRequest*, size_t, OvTensor**);
  int (*request_infer)(OvRequest*);
  int (*tensor_over)(uint32_t type, OvShape, void* data, OvTensor**);
  int (*tensor_shape)(const OvTensor*, OvShape*);
  int (*tensor_bytes)(const OvTensor*, size_t*);
  int (*tensor_data)(const OvTensor*, void**);
  int (*free_dims)(OvShape*);
  void (*free_port)(OvPort*);
  void (*free_model)(OvModel*);
  void (*free_compiled)(OvCompiled*);
  void (*free_request)(OvRequest*);
  void (*free_tensor)(OvTensor*);

  OvCore* core = nullptr;  // one a process
  // By DataType. Versions number types differently, so the library is asked.
  std::array<uint32_t, 14> types{};
};

// Opens it, once a process: `where` is the library, a folder with it (that of the package from PyPI
// too), or empty: where the system has it. INVALID_ARGUMENT says what to install.
absl::StatusOr<const OpenVino*> open_openvino(const std::string& where);
// After open_openvino() succeeded once.
const OpenVino& openvino();

// Why the last call of this process failed, where `code` says that it did: INVALID_ARGUMENT, or
// RESOURCE_EXHAUSTED where memory is missing.
absl::Status openvino_status(int code);

struct OvRelease {
  void operator()(OvModel* p) const { openvino().free_model(p); }
  void operator()(OvCompiled* p) const { openvino().free_compiled(p); }
  void operator()(OvRequest* p) const { openvino().free_request(p); }
  void operator()(OvTensor* p) const { openvino().free_tensor(p); }
  void operator()(OvPort* p) const { openvino().free_port(p); }
};
template <class T>
using OvPtr = std::unique_ptr<T, OvRelease>;

std::optional<DataType> from_openvino(uint32_t type);

}  // namespace fermata::engine
