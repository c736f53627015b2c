#pragma once

#include <cstdint>

// The part of Triton's backend interface (version 1) that bench/triton/backend.cc calls and is
// called by, in our own words; tritonserver defines these functions. All but the last of a
// request's pointers belong to the server. An error that is not null belongs to who gets it.
extern "C" {

struct TRITONSERVER_Error;
struct TRITONBACKEND_Input;
struct TRITONBACKEND_Model;
struct TRITONBACKEND_ModelInstance;
struct TRITONBACKEND_Output;
struct TRITONBACKEND_Request;
struct TRITONBACKEND_Response;

enum TRITONSERVER_DataType : int { TRITONSERVER_TYPE_INT64 = 9, TRITONSERVER_TYPE_FP32 = 11 };
enum TRITONSERVER_MemoryType : int { TRITONSERVER_MEMORY_CPU = 0 };
enum TRITONSERVER_Error_Code : int { TRITONSERVER_ERROR_INTERNAL = 1 };
enum TRITONBACKEND_ArtifactType : int { TRITONBACKEND_ARTIFACT_FILESYSTEM = 0 };
constexpr uint32_t kReleaseAll = 1, kFinalResponse = 1;

TRITONSERVER_Error* TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code, const char* message);
TRITONSERVER_Error* TRITONBACKEND_ModelRepository(TRITONBACKEND_Model*, TRITONBACKEND_ArtifactType*,
                                                  const char** folder);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance*,
                                                     TRITONBACKEND_Model**);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance*, void**);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance*, void*);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportStatistics(
    TRITONBACKEND_ModelInstance*, TRITONBACKEND_Request*, bool success, uint64_t start_ns,
    uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t end_ns);
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportBatchStatistics(
    TRITONBACKEND_ModelInstance*, uint64_t batch_size, uint64_t start_ns, uint64_t compute_start_ns,
    uint64_t compute_end_ns, uint64_t end_ns);
TRITONSERVER_Error* TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request*, uint32_t index,
                                                      TRITONBACKEND_Input**);
TRITONSERVER_Error* TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request*, uint32_t*);
TRITONSERVER_Error* TRITONBACKEND_RequestRelease(TRITONBACKEND_Request*, uint32_t flags);
TRITONSERVER_Error* TRITONBACKEND_InputProperties(TRITONBACKEND_Input*, const char** name,
                                                  TRITONSERVER_DataType*, const int64_t** shape,
                                                  uint32_t* rank, uint64_t* bytes,
                                                  uint32_t* buffers);
TRITONSERVER_Error* TRITONBACKEND_InputBuffer(TRITONBACKEND_Input*, uint32_t index,
                                              const void** data, uint64_t* bytes,
                                              TRITONSERVER_MemoryType*, int64_t* device);
TRITONSERVER_Error* TRITONBACKEND_ResponseNew(TRITONBACKEND_Response**, TRITONBACKEND_Request*);
TRITONSERVER_Error* TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response*, TRITONBACKEND_Output**,
                                                 const char* name, TRITONSERVER_DataType,
                                                 const int64_t* shape, uint32_t rank);
TRITONSERVER_Error* TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output*, void** data, uint64_t bytes,
                                               TRITONSERVER_MemoryType*, int64_t* device);
TRITONSERVER_Error* TRITONBACKEND_ResponseSend(TRITONBACKEND_Response*, uint32_t flags,
                                               TRITONSERVER_Error*);

// What the server calls. Execute owns the requests and releases each.
[[gnu::visibility("default")]] TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(
    TRITONBACKEND_ModelInstance*);
[[gnu::visibility("default")]] TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(
    TRITONBACKEND_ModelInstance*);
[[gnu::visibility("default")]] TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance*, TRITONBACKEND_Request**, uint32_t count);
}
