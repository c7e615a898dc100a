/* SPDX-License-Identifier: Apache-2.0
 * The driver "x86": which instruction set, and its table of kernels. */
#include <string.h>

#include "x86.h"

XRT_TILE_TABLE(avx2, xrt_x86_avx2, xrt_x86_ew_avx2)
XRT_TILE_TABLE(avx512, xrt_x86_avx512, xrt_x86_ew_avx512)

const xrt_lite_kernel* xrt_x86_kernels(const char* name) {
  if (strcmp(name, "avx512") == 0 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni"))
    return avx512_table;
  if (strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return avx2_table; /* processors with AVX2 have F16C */
  return NULL;
}

static const xrt_lite_kernel* best(void) {
  const xrt_lite_kernel* kernels = xrt_x86_kernels("avx512");
  return kernels ? kernels : xrt_x86_kernels("avx2");
}

static xrt_lite_status open_device(const xrt_lite_allocator* allocator, xrt_lite_device** device) {
  (void)allocator;
  *device = NULL; /* there is nothing to keep */
  return best() ? XRT_LITE_OK : XRT_LITE_DEVICE_ERROR;
}

static void close_device(xrt_lite_device* device) { (void)device; }

static const xrt_lite_kernel* kernels_of(xrt_lite_device* device, int32_t* count) {
  (void)device;
  *count = XRT_K_COUNT;
  return best();
}

const xrt_lite_driver* xrt_lite_x86_driver(void) {
  static const xrt_lite_driver driver = {
      XRT_LITE_HAL_VERSION, "x86", open_device, close_device, kernels_of, NULL, NULL, NULL, NULL};
  return &driver;
}
