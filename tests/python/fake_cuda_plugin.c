// SPDX-License-Identifier: Apache-2.0
// A PJRT plugin that says it drives CUDA and computes with OpenXLA's CPU plugin, whose memory then
// stands for that of a GPU: for tests of what is copied between the host and the device.
//
// $FAKE_CUDA_BEHIND names the CPU plugin.
#include <dlfcn.h>
#include <pjrt_c_api.h>
#include <stdlib.h>
#include <string.h>

static const PJRT_Api* real;
static int views = 0, uploads = 0, downloads = 0;

static PJRT_Error* platform_name(PJRT_Client_PlatformName_Args* args) {
  args->platform_name = "cuda";
  args->platform_name_size = 4;
  return NULL;
}

static PJRT_Error* create_view(PJRT_Client_CreateViewOfDeviceBuffer_Args* args) {
  ++views;
  return real->PJRT_Client_CreateViewOfDeviceBuffer(args);
}

// What is uploaded lies in memory of its own, as on a device.
static PJRT_Error* upload(PJRT_Client_BufferFromHostBuffer_Args* args) {
  ++uploads;
  args->host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  return real->PJRT_Client_BufferFromHostBuffer(args);
}

static PJRT_Error* download(PJRT_Buffer_ToHostBuffer_Args* args) {
  ++downloads;
  return real->PJRT_Buffer_ToHostBuffer(args);
}

const PJRT_Api* GetPjrtApi(void) {
  const char* path = getenv("FAKE_CUDA_BEHIND");
  void* library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return NULL;
  real = ((const PJRT_Api* (*)(void))dlsym(library, "GetPjrtApi"))();
  PJRT_Api* fake = malloc(real->struct_size);
  memcpy(fake, real, real->struct_size);
  fake->PJRT_Client_PlatformName = platform_name;
  fake->PJRT_Client_CreateViewOfDeviceBuffer = create_view;
  fake->PJRT_Client_BufferFromHostBuffer = upload;
  fake->PJRT_Buffer_ToHostBuffer = download;
  return fake;
}

int fake_views(void) { return views; }
int fake_uploads(void) { return uploads; }
int fake_downloads(void) { return downloads; }
