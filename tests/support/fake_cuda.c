// SPDX-License-Identifier: Apache-2.0
// A CUDA driver whose device memory is the host's, for tests of how the driver is called.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int live = 0;
static __thread void* current = NULL;
static int copies_to_device = 0, copies_to_host = 0, waits = 0, followers = 0;

int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int* count) { return (*count = 1, 0); }
int cuDeviceGet(int* device, int index) { return (*device = index, 0); }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? 8 : attribute == 76 ? 9 : -1;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  (void)device;
  ++live;
  *context = &live;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return (--live, device); }
int cuCtxGetCurrent(void** context) { return (*context = current, 0); }
int cuCtxSetCurrent(void* context) {
  if (context != NULL && context != &live) return 201;
  return (current = context, 0);
}
int cuStreamCreate(void** stream, unsigned flags) {
  if (flags != 1) return 1;
  ++live;
  return (*stream = malloc(1), 0);
}
int cuStreamDestroy_v2(void* stream) { return (free(stream), --live, 0); }
int cuStreamSynchronize(void* stream) { return stream == NULL ? 400 : (++waits, 0); }
// The stream with the handle 9 is being captured.
int cuStreamIsCapturing(void* stream, int* status) { return (*status = stream == (void*)9, 0); }
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  if (bytes > ((size_t)1 << 40)) return 2;
  ++live;
  *address = (uint64_t)(uintptr_t)aligned_alloc(256, (bytes + 255) & ~(size_t)255);
  return 0;
}
int cuMemFree_v2(uint64_t address) { return (free((void*)(uintptr_t)address), --live, 0); }
int cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  if (flags != 1) return 1;
  ++live;
  return (*memory = malloc(bytes), 0);
}
int cuMemFreeHost(void* memory) { return (free(memory), --live, 0); }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  if (stream == NULL) return 400;
  ++copies_to_device;
  return (memcpy((void*)(uintptr_t)to, from, bytes), 0);
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  if (stream == NULL) return 400;
  ++copies_to_host;
  return (memcpy(to, (const void*)(uintptr_t)from, bytes), 0);
}
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  if (stream == NULL) return 400;
  return (memcpy((void*)(uintptr_t)to, (const void*)(uintptr_t)from, bytes), 0);
}
// An event is done at the second question.
int cuEventCreate(void** event, unsigned flags) {
  if (flags != 2) return 1;
  ++live;
  return (*event = calloc(1, 1), 0);
}
int cuEventRecord(void* event, void* stream) { return ((void)stream, *(char*)event = 0, 0); }
int cuEventQuery(void* event) { return (*(char*)event)++ == 0 ? 600 : 0; }
int cuEventSynchronize(void* event) { return event == NULL ? 400 : 0; }
int cuEventDestroy_v2(void* event) { return (free(event), --live, 0); }
// The legacy default stream has the handle 1; the device's streams are the driver's own.
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  if (stream == NULL || event == NULL || flags != 0) return 400;
  return (++followers, 0);
}
int cuGetErrorName(int code, const char** name) {
  *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
int fake_live(void) { return live; }
int fake_copies_to_device(void) { return copies_to_device; }
int fake_copies_to_host(void) { return copies_to_host; }
int fake_waits(void) { return waits; }
int fake_followers(void) { return followers; }
