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
typedef struct cu_graph_st* cu_graph;
typedef struct cu_graph_exec_st* cu_graph_exec;
typedef unsigned long long cu_address;

enum {
  CU_COMPUTE_MAJOR = 75, /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
  CU_COMPUTE_MINOR = 76,
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_CAPTURE_THREAD_LOCAL = 1,
  CU_ATTRIBUTE_OVERLAP = 6,      /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
  CU_GRAPHS_KEEP_OVERLAP = 12030 /* the version from which on they do */
};

/* CUlaunchAttribute, CUlaunchConfig */
typedef struct cu_attribute {
  int id;
  int unused;
  union {
    int value;
    char size[64];
  };
} cu_attribute;
typedef struct cu_launch {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  cu_stream stream;
  cu_attribute* attributes;
  unsigned attribute_count;
} cu_launch;

/* X(name in the library, member, parameters) */
#define XRT_CUDA_FUNCTIONS(X)                                                                      \
  X(cuInit, init, (unsigned flags))                                                                \
  X(cuDriverGetVersion, version, (int* version))                                                   \
  X(cuDeviceGetCount, device_count, (int* count))                                                  \
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

/* Those that older libraries lack; null there. */
#define XRT_CUDA_NEWER_FUNCTIONS(X)                                            \
  X(cuStreamBeginCapture_v2, capture_begin, (cu_stream stream, int mode))      \
  X(cuStreamEndCapture, capture_end, (cu_stream stream, cu_graph * graph))     \
  X(cuGraphInstantiateWithFlags, graph_instantiate,                            \
    (cu_graph_exec * executable, cu_graph graph, unsigned long long flags))    \
  X(cuGraphLaunch, graph_launch, (cu_graph_exec executable, cu_stream stream)) \
  X(cuGraphExecDestroy, graph_exec_destroy, (cu_graph_exec executable))        \
  X(cuGraphDestroy, graph_destroy, (cu_graph graph))                           \
  X(cuLaunchKernelEx, launch_ex,                                               \
    (const cu_launch* config, cu_function function, void** params, void** extra))

typedef struct cuda_api {
#define XRT_MEMBER(name, member, parameters) cu_result(*member) parameters;
  XRT_CUDA_FUNCTIONS(XRT_MEMBER)
  XRT_CUDA_NEWER_FUNCTIONS(XRT_MEMBER)
#undef XRT_MEMBER
} cuda_api;

#endif /* XRT_LITE_CUDA_API_H_ */
