/* SPDX-License-Identifier: Apache-2.0
 * The driver "arm": which instructions the processor has, and the table of kernels. */
#include "arm.h"

#if defined(__linux__)
#include <sys/auxv.h>
#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1 << 20)
#endif
#endif

static int has_dot_products(void) {
#if defined(__ARM_FEATURE_DOTPROD)
  return 1; /* everything was compiled for such a processor */
#elif defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
  return 0;
#endif
}

XRT_TILE_TABLE(neon, xrt_arm_neon, xrt_generic_ew)
XRT_TILE_TABLE(dotprod, xrt_arm_dotprod, xrt_generic_ew)

const xrt_lite_kernel* xrt_arm_kernels(const char* name) {
  if (strcmp(name, "neon") == 0) return neon_table;
  if (strcmp(name, "dotprod") == 0 && has_dot_products()) return dotprod_table;
  return NULL;
}

static const xrt_lite_kernel* kernels_of(xrt_lite_device* device, int32_t* count) {
  (void)device;
  *count = XRT_K_COUNT;
  return has_dot_products() ? dotprod_table : neon_table;
}

const xrt_lite_driver* xrt_lite_arm_driver(void) {
  static const xrt_lite_driver driver = {
      XRT_LITE_HAL_VERSION, "arm", NULL, NULL, kernels_of, NULL, NULL, NULL, NULL};
  return &driver;
}
