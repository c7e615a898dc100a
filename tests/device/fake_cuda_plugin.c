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
static int views_behind = 0, waits = 0, fail_wait = 0, fail_await = 0, exhausted_times = 0;

// The layout of XLA's extension for streams, of which there is only one here.
struct stream_args {
  size_t struct_size;
  PJRT_Device* device;
  intptr_t stream;
};
struct wait_args {
  size_t struct_size;
  intptr_t stream;
  PJRT_Buffer* buffer;
};
enum { kStream = 4711 };

// The one error of our own: memory is exhausted.
static char exhausted;

static PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  if ((const void*)args->error != &exhausted) return real->PJRT_Error_GetCode(args);
  args->code = PJRT_Error_Code_RESOURCE_EXHAUSTED;
  return NULL;
}
static void error_message(PJRT_Error_Message_Args* args) {
  if ((const void*)args->error != &exhausted) {
    real->PJRT_Error_Message(args);
    return;
  }
  args->message = "exhausted";
  args->message_size = 9;
}
static void destroy_error(PJRT_Error_Destroy_Args* args) {
  if ((const void*)args->error != &exhausted) real->PJRT_Error_Destroy(args);
}

// Some error of the real plugin's.
static PJRT_Error* refuse(void) {
  PJRT_Buffer_Dimensions_Args args = {0};
  return real->PJRT_Buffer_Dimensions(&args);
}

static PJRT_Error* stream_of_device(struct stream_args* args) {
  args->stream = kStream;
  return NULL;
}

static PJRT_Error* let_wait(struct wait_args* args) {
  if (exhausted_times > 0) return (--exhausted_times, (PJRT_Error*)&exhausted);
  if (fail_wait) return (fail_wait = 0, refuse());
  // Those who read on the stream afterwards do so at once, here.
  PJRT_Buffer_ReadyEvent_Args ready = {PJRT_Buffer_ReadyEvent_Args_STRUCT_SIZE};
  ready.buffer = args->buffer;
  PJRT_Error* error = real->PJRT_Buffer_ReadyEvent(&ready);
  if (error != NULL) return error;
  PJRT_Event_Await_Args await = {PJRT_Event_Await_Args_STRUCT_SIZE, NULL, ready.event};
  error = real->PJRT_Event_Await(&await);
  PJRT_Event_Destroy_Args destroy = {PJRT_Event_Destroy_Args_STRUCT_SIZE, NULL, ready.event};
  real->PJRT_Event_Destroy(&destroy);
  if (args->stream != 0) ++waits;
  return error;
}

static PJRT_Error* await_event(PJRT_Event_Await_Args* args) {
  PJRT_Error* error = real->PJRT_Event_Await(args);
  return fail_await ? (fail_await = 0, refuse()) : error;
}

static struct {
  PJRT_Extension_Base base;
  PJRT_Error* (*stream_of_device)(struct stream_args*);
  PJRT_Error* (*let_wait)(struct wait_args*);
} streams = {{sizeof(streams), PJRT_Extension_Type_Stream, NULL}, stream_of_device, let_wait};

static PJRT_Error* platform_name(PJRT_Client_PlatformName_Args* args) {
  args->platform_name = "cuda";
  args->platform_name_size = 4;
  return NULL;
}

static PJRT_Error* create_view(PJRT_Client_CreateViewOfDeviceBuffer_Args* args) {
  ++views;
  if (args->stream == kStream) ++views_behind;
  args->stream = 0;  // unknown to the CPU plugin
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
  fake->PJRT_Event_Await = await_event;
  fake->PJRT_Error_GetCode = error_code;
  fake->PJRT_Error_Message = error_message;
  fake->PJRT_Error_Destroy = destroy_error;
  streams.base.next = fake->extension_start;
  fake->extension_start = &streams.base;
  return fake;
}

int fake_views_behind(void) { return views_behind; }
int fake_stream_waits(void) { return waits; }
void fake_fail_wait(void) { fail_wait = 1; }
void fake_exhaust(int times) { exhausted_times = times; }
void fake_fail_await(void) { fail_await = 1; }
int fake_views(void) { return views; }
int fake_uploads(void) { return uploads; }
int fake_downloads(void) { return downloads; }
