/* SPDX-License-Identifier: Apache-2.0
 * The driver "x86": which instruction set, and its table of kernels. */
#include <string.h>
#if XRT_X86_HAS_AMX
#include <cpuid.h>
#endif

#include "x86.h"

XRT_TILE_TABLE(avx2, xrt_x86_avx2, xrt_x86_ew_avx2)
XRT_TILE_TABLE(avx512, xrt_x86_avx512, xrt_x86_ew_avx512)

#if XRT_X86_HAS_AMX
XRT_TILE_TABLE_OF(amx, avx512, xrt_x86_ew_avx512, xrt_x86_amx_conv_q8, xrt_x86_amx_gemm_q8)

/* Whether the processor has AMX with int8, and Linux lets this process have the tiles' 8 KiB of
 * state, which it wants to be asked for. */
static int amx_is_there(void) {
  uint32_t a, b, c, d, low, high;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  if (((d >> 24) & 3) != 3) return 0; /* AMX-TILE, AMX-INT8 */
  __get_cpuid(1, &a, &b, &c, &d);
  if (((c >> 27) & 1) == 0) return 0; /* OSXSAVE */
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if (((low >> 17) & 3) != 3) return 0; /* the system keeps the tiles and their shape */
  const long arch_prctl = 158, request_permission = 0x1023, tile_data = 18;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(arch_prctl), "D"(request_permission), "S"(tile_data)
                   : "rcx", "r11", "memory");
  return result == 0;
}
#endif

static int avx512_is_there(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

const xrt_lite_kernel* xrt_x86_kernels(const char* name) {
#if XRT_X86_HAS_AMX
  if (strcmp(name, "amx") == 0 && avx512_is_there() && amx_is_there()) return amx_table;
#endif
  if (strcmp(name, "avx512") == 0 && avx512_is_there()) return avx512_table;
  if (strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return avx2_table; /* processors with AVX2 have F16C */
  return NULL;
}

static const xrt_lite_kernel* best(void) {
  static const char* const names[] = {"amx", "avx512", "avx2"};
  const xrt_lite_kernel* kernels = NULL;
  for (int i = 0; i < 3 && kernels == NULL; ++i) kernels = xrt_x86_kernels(names[i]);
  return kernels;
}

static xrt_lite_status open_device(const xrt_lite_allocator* allocator, xrt_lite_device** device) {
  (void)allocator;
  *device = NULL; /* there is nothing to keep */
  return best() ? XRT_LITE_OK : XRT_LITE_NO_DEVICE;
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
