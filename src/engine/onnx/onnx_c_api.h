#pragma once

#include <cstddef>
#include <cstdint>

// The part of ONNX Runtime's C interface that we call, in our own words: a build needs the
// library and no headers. The interface is a table of function pointers to which versions only
// append, so a function's place never changes; GetApi() gives no table where the library is
// older than the version asked for. Places that we do not call are skipped. Where ONNX Runtime's
// own header is installed, tests/python/test_onnx_c_api.py compares the two.
extern "C" {

// The first version that has every function below.
constexpr uint32_t ORT_API_VERSION = 15;

struct OrtAllocator;
struct OrtCUDAProviderOptionsV2;
struct OrtEnv;
struct OrtMemoryInfo;
struct OrtRunOptions;
struct OrtSession;
struct OrtSessionOptions;
struct OrtStatus;
struct OrtTensorRTProviderOptionsV2;
struct OrtTensorTypeAndShapeInfo;
struct OrtTypeInfo;
struct OrtValue;

enum ONNXTensorElementDataType : int {
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED = 0,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 = 2,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 = 3,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16 = 4,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16 = 5,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 = 6,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 = 7,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING = 8,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL = 9,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 = 10,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE = 11,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32 = 12,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64 = 13,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 = 16,
};
enum OrtErrorCode : int { ORT_INVALID_ARGUMENT = 2 };
enum OrtLoggingLevel : int { ORT_LOGGING_LEVEL_FATAL = 4 };
enum GraphOptimizationLevel : int { ORT_ENABLE_ALL = 99 };
enum ExecutionMode : int { ORT_SEQUENTIAL = 0 };
enum OrtAllocatorType : int { OrtArenaAllocator = 1 };
enum OrtMemType : int { OrtMemTypeDefault = 0 };

using OrtLoggingFunction = void (*)(void* first_argument, OrtLoggingLevel, const char* category,
                                    const char* name, const char* place, const char* message);
using OrtUnused = void*;

// A status is null when all went well; the caller releases others.
struct OrtApi {
  OrtUnused to_1[1];
  OrtErrorCode (*GetErrorCode)(const OrtStatus*);
  const char* (*GetErrorMessage)(const OrtStatus*);
  OrtUnused to_4[1];
  OrtStatus* (*CreateEnvWithCustomLogger)(OrtLoggingFunction, void* first_argument, OrtLoggingLevel,
                                          const char* name, OrtEnv**);
  OrtUnused to_7[2];
  OrtStatus* (*CreateSession)(const OrtEnv*, const char* file, const OrtSessionOptions*,
                              OrtSession**);
  OrtUnused to_9[1];
  OrtStatus* (*Run)(OrtSession*, const OrtRunOptions*, const char* const* input_names,
                    const OrtValue* const* inputs, size_t input_count,
                    const char* const* output_names, size_t output_count, OrtValue** outputs);
  OrtStatus* (*CreateSessionOptions)(OrtSessionOptions**);
  OrtUnused to_13[2];
  OrtStatus* (*SetSessionExecutionMode)(OrtSessionOptions*, ExecutionMode);
  OrtUnused to_17[3];
  OrtStatus* (*DisableMemPattern)(OrtSessionOptions*);
  OrtUnused to_19[1];
  OrtStatus* (*DisableCpuMemArena)(OrtSessionOptions*);
  OrtUnused to_23[3];
  OrtStatus* (*SetSessionGraphOptimizationLevel)(OrtSessionOptions*, GraphOptimizationLevel);
  OrtStatus* (*SetIntraOpNumThreads)(OrtSessionOptions*, int);
  OrtStatus* (*SetInterOpNumThreads)(OrtSessionOptions*, int);
  OrtUnused to_30[4];
  OrtStatus* (*SessionGetInputCount)(const OrtSession*, size_t*);
  OrtStatus* (*SessionGetOutputCount)(const OrtSession*, size_t*);
  OrtStatus* (*SessionGetOverridableInitializerCount)(const OrtSession*, size_t*);
  OrtStatus* (*SessionGetInputTypeInfo)(const OrtSession*, size_t index, OrtTypeInfo**);
  OrtStatus* (*SessionGetOutputTypeInfo)(const OrtSession*, size_t index, OrtTypeInfo**);
  OrtStatus* (*SessionGetOverridableInitializerTypeInfo)(const OrtSession*, size_t index,
                                                         OrtTypeInfo**);
  OrtStatus* (*SessionGetInputName)(const OrtSession*, size_t index, OrtAllocator*, char**);
  OrtStatus* (*SessionGetOutputName)(const OrtSession*, size_t index, OrtAllocator*, char**);
  OrtStatus* (*SessionGetOverridableInitializerName)(const OrtSession*, size_t index, OrtAllocator*,
                                                     char**);
  OrtStatus* (*CreateRunOptions)(OrtRunOptions**);
  OrtUnused to_46[6];
  OrtStatus* (*RunOptionsSetTerminate)(OrtRunOptions*);
  OrtStatus* (*RunOptionsUnsetTerminate)(OrtRunOptions*);
  OrtStatus* (*CreateTensorAsOrtValue)(OrtAllocator*, const int64_t* shape, size_t rank,
                                       ONNXTensorElementDataType, OrtValue**);
  OrtStatus* (*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo*, void* data, size_t bytes,
                                               const int64_t* shape, size_t rank,
                                               ONNXTensorElementDataType, OrtValue**);
  OrtUnused to_51[1];
  OrtStatus* (*GetTensorMutableData)(OrtValue*, void**);
  OrtUnused to_53[1];
  OrtStatus* (*GetStringTensorDataLength)(const OrtValue*, size_t*);
  OrtStatus* (*GetStringTensorContent)(const OrtValue*, void* text, size_t bytes, size_t* offsets,
                                       size_t count);
  OrtStatus* (*CastTypeInfoToTensorInfo)(const OrtTypeInfo*, const OrtTensorTypeAndShapeInfo**);
  OrtUnused to_60[4];
  OrtStatus* (*GetTensorElementType)(const OrtTensorTypeAndShapeInfo*, ONNXTensorElementDataType*);
  OrtStatus* (*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo*, size_t*);
  OrtStatus* (*GetDimensions)(const OrtTensorTypeAndShapeInfo*, int64_t* dimensions, size_t count);
  OrtStatus* (*GetSymbolicDimensions)(const OrtTensorTypeAndShapeInfo*, const char** names,
                                      size_t count);
  OrtStatus* (*GetTensorShapeElementCount)(const OrtTensorTypeAndShapeInfo*, size_t*);
  OrtStatus* (*GetTensorTypeAndShape)(const OrtValue*, OrtTensorTypeAndShapeInfo**);
  OrtUnused to_69[3];
  OrtStatus* (*CreateCpuMemoryInfo)(OrtAllocatorType, OrtMemType, OrtMemoryInfo**);
  OrtUnused to_76[6];
  OrtStatus* (*AllocatorFree)(OrtAllocator*, void*);
  OrtUnused to_78[1];
  OrtStatus* (*GetAllocatorWithDefaultOptions)(OrtAllocator**);
  OrtUnused to_93[14];
  void (*ReleaseStatus)(OrtStatus*);
  OrtUnused to_95[1];
  void (*ReleaseSession)(OrtSession*);
  void (*ReleaseValue)(OrtValue*);
  void (*ReleaseRunOptions)(OrtRunOptions*);
  void (*ReleaseTypeInfo)(OrtTypeInfo*);
  void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo*);
  void (*ReleaseSessionOptions)(OrtSessionOptions*);
  OrtUnused to_130[29];
  OrtStatus* (*AddSessionConfigEntry)(OrtSessionOptions*, const char* key, const char* value);
  OrtUnused to_165[34];
  OrtStatus* (*AddRunConfigEntry)(OrtRunOptions*, const char* key, const char* value);
  OrtUnused to_170[4];
  OrtStatus* (*SessionOptionsAppendExecutionProvider_TensorRT_V2)(
      OrtSessionOptions*, const OrtTensorRTProviderOptionsV2*);
  OrtStatus* (*CreateTensorRTProviderOptions)(OrtTensorRTProviderOptionsV2**);
  OrtUnused to_174[2];
  void (*ReleaseTensorRTProviderOptions)(OrtTensorRTProviderOptionsV2*);
  OrtUnused to_204[29];
  OrtStatus* (*SessionOptionsAppendExecutionProvider_CUDA_V2)(OrtSessionOptions*,
                                                              const OrtCUDAProviderOptionsV2*);
  OrtStatus* (*CreateCUDAProviderOptions)(OrtCUDAProviderOptionsV2**);
  OrtUnused to_208[2];
  void (*ReleaseCUDAProviderOptions)(OrtCUDAProviderOptionsV2*);
  OrtUnused to_252[43];
  OrtStatus* (*GetResizedStringTensorElementBuffer)(OrtValue*, size_t index, size_t bytes, char**);
};

static_assert(offsetof(OrtApi, GetErrorMessage) == 2 * sizeof(void*));
static_assert(offsetof(OrtApi, CreateEnvWithCustomLogger) == 4 * sizeof(void*));
static_assert(offsetof(OrtApi, CreateSession) == 7 * sizeof(void*));
static_assert(offsetof(OrtApi, CreateSessionOptions) == 10 * sizeof(void*));
static_assert(offsetof(OrtApi, SetSessionExecutionMode) == 13 * sizeof(void*));
static_assert(offsetof(OrtApi, DisableMemPattern) == 17 * sizeof(void*));
static_assert(offsetof(OrtApi, DisableCpuMemArena) == 19 * sizeof(void*));
static_assert(offsetof(OrtApi, SetInterOpNumThreads) == 25 * sizeof(void*));
static_assert(offsetof(OrtApi, SessionGetOutputCount) == 31 * sizeof(void*));
static_assert(offsetof(OrtApi, SessionGetOutputTypeInfo) == 34 * sizeof(void*));
static_assert(offsetof(OrtApi, SessionGetOutputName) == 37 * sizeof(void*));
static_assert(offsetof(OrtApi, CreateRunOptions) == 39 * sizeof(void*));
static_assert(offsetof(OrtApi, CreateTensorWithDataAsOrtValue) == 49 * sizeof(void*));
static_assert(offsetof(OrtApi, GetTensorMutableData) == 51 * sizeof(void*));
static_assert(offsetof(OrtApi, CastTypeInfoToTensorInfo) == 55 * sizeof(void*));
static_assert(offsetof(OrtApi, GetTensorTypeAndShape) == 65 * sizeof(void*));
static_assert(offsetof(OrtApi, CreateCpuMemoryInfo) == 69 * sizeof(void*));
static_assert(offsetof(OrtApi, AllocatorFree) == 76 * sizeof(void*));
static_assert(offsetof(OrtApi, GetAllocatorWithDefaultOptions) == 78 * sizeof(void*));
static_assert(offsetof(OrtApi, ReleaseStatus) == 93 * sizeof(void*));
static_assert(offsetof(OrtApi, ReleaseSessionOptions) == 100 * sizeof(void*));
static_assert(offsetof(OrtApi, AddSessionConfigEntry) == 130 * sizeof(void*));
static_assert(offsetof(OrtApi, AddRunConfigEntry) == 165 * sizeof(void*));
static_assert(offsetof(OrtApi, CreateTensorRTProviderOptions) == 171 * sizeof(void*));
static_assert(offsetof(OrtApi, ReleaseTensorRTProviderOptions) == 174 * sizeof(void*));
static_assert(offsetof(OrtApi, CreateCUDAProviderOptions) == 205 * sizeof(void*));
static_assert(offsetof(OrtApi, ReleaseCUDAProviderOptions) == 208 * sizeof(void*));
static_assert(offsetof(OrtApi, GetResizedStringTensorElementBuffer) == 252 * sizeof(void*));

struct OrtApiBase {
  const OrtApi* (*GetApi)(uint32_t version);  // null where the library is older
  const char* (*GetVersionString)();
};
const OrtApiBase* OrtGetApiBase();

}  // extern "C"
