/* SPDX-License-Identifier: Apache-2.0
 * The driver "cortex-m": its sums; what else a model has runs in the portable kernels. */
#include "cortex_m.h"

static const xrt_lite_kernel table[XRT_K_COUNT] = {
    [XRT_K_CONV_F32] = xrt_cortex_m_conv_f32,
    [XRT_K_CONV_Q8] = xrt_cortex_m_conv_q8,
    [XRT_K_DWCONV_F32] = xrt_cortex_m_dwconv_f32,
    [XRT_K_DWCONV_Q8] = xrt_cortex_m_dwconv_q8,
    [XRT_K_GEMM_F32] = xrt_cortex_m_gemm_f32,
    [XRT_K_GEMM_Q8] = xrt_cortex_m_gemm_q8,
    [XRT_K_POOL] = xrt_generic_pool,
    [XRT_K_EW] = xrt_generic_ew,
    XRT_GENERIC_ROWS,
};

static const xrt_lite_kernel* kernels(xrt_lite_device* device, int32_t* count) {
  (void)device;
  *count = XRT_K_COUNT;
  return table;
}

const xrt_lite_driver* xrt_lite_cortex_m_driver(void) {
  static const xrt_lite_driver driver = {
      XRT_LITE_HAL_VERSION, "cortex-m", NULL, NULL, kernels, NULL, NULL, NULL, NULL};
  return &driver;
}
