/* SPDX-License-Identifier: Apache-2.0
 * The part of the CUDA driver API that the driver calls: its public prototypes, resolved at run
 * time, so that nothing of CUDA is needed to build or to load the runtime. */
#ifndef XRT_LITE_CUDA_API_H_
#define XRT_LITE_CUDA_API_H_

#include <stddef.h>
#include <stdint.h>

typedef int cu_result; /* 0: success */
typedef int cu_device;
typedef struct cu_context_st* cu_context;
typedef struct cu_module_st* cu_module;
typedef struct cu_function_st* cu_function;
typedef struct cu_stream_st* cu_stream;
typedef struct cu_event_st* cu_event;
typedef unsigned long long cu_address;

enum {
  CU_COMPUTE_MAJOR = 75, /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
  CU_COMPUTE_MINOR = 76,
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DISABLE_TIMING = 2
};

/* X(name in the library, member, parameters) */
#define XRT_CUDA_FUNCTIONS(X)                                                                      \
  X(cuInit, init, (unsigned flags))                                                                \
  X(cuDeviceGet, device_get, (cu_device * device, int ordinal))                                    \
  X(cuDeviceGetAttribute, device_attribute, (int* value, int attribute, cu_device device))         \
  X(cuDevicePrimaryCtxRetain, context_retain, (cu_context * context, cu_device device))            \
  X(cuDevicePrimaryCtxRelease_v2, context_release, (cu_device device))                             \
  X(cuCtxSetCurrent, context_set, (cu_context context))                                            \
  X(cuModuleLoadData, module_load, (cu_module * module, const void* image))                        \
  X(cuModuleUnload, module_unload, (cu_module module))                                             \
  X(cuModuleGetFunction, module_function,                                                          \
    (cu_function * function, cu_module module, const char* name))                                  \
  X(cuMemAlloc_v2, alloc, (cu_address * address, size_t bytes))                                    \
  X(cuMemFree_v2, free, (cu_address address))                                                      \
  X(cuMemcpyHtoD_v2, write, (cu_address to, const void* from, size_t bytes))                       \
  X(cuMemcpyDtoH_v2, read, (void* to, cu_address from, size_t bytes))                              \
  X(cuMemcpyHtoDAsync_v2, write_async,                                                             \
    (cu_address to, const void* from, size_t bytes, cu_stream stream))                             \
  X(cuMemcpyDtoHAsync_v2, read_async, (void* to, cu_address from, size_t bytes, cu_stream stream)) \
  X(cuStreamCreate, stream_create, (cu_stream * stream, unsigned flags))                           \
  X(cuStreamDestroy_v2, stream_destroy, (cu_stream stream))                                        \
  X(cuStreamSynchronize, stream_synchronize, (cu_stream stream))                                   \
  X(cuStreamWaitEvent, stream_wait, (cu_stream stream, cu_event event, unsigned flags))            \
  X(cuEventCreate, event_create, (cu_event * event, unsigned flags))                               \
  X(cuEventDestroy_v2, event_destroy, (cu_event event))                                            \
  X(cuEventRecord, event_record, (cu_event event, cu_stream stream))                               \
  X(cuLaunchKernel, launch,                                                                        \
    (cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,    \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, cu_stream stream, void** params,   \
     void** extra))

typedef struct cuda_api {
#define XRT_MEMBER(name, member, parameters) cu_result(*member) parameters;
  XRT_CUDA_FUNCTIONS(XRT_MEMBER)
#undef XRT_MEMBER
} cuda_api;

#endif /* XRT_LITE_CUDA_API_H_ */
