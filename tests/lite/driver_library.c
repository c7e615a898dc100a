/* SPDX-License-Identifier: Apache-2.0
 * A driver in a library of its own, for xrt_lite_load_driver(): the kernels of "generic" under the
 * name "counted"; it counts how often it was opened. */
#include "xrt_lite_hal.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int times_opened = 0;

static xrt_lite_status open_device(const xrt_lite_allocator* allocator, xrt_lite_device** device) {
  (void)allocator;
  *device = NULL;
  ++times_opened;
  return XRT_LITE_OK;
}

static void close_device(xrt_lite_device* device) { (void)device; }

EXPORT const xrt_lite_driver* xrt_lite_driver_entry(void) {
  static xrt_lite_driver driver;
  driver = *xrt_lite_generic_driver();
  driver.name = "counted";
  driver.open = open_device;
  driver.close = close_device;
  return &driver;
}
