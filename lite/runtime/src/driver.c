/* SPDX-License-Identifier: Apache-2.0
 * The drivers that are known to the process. */
#include <string.h>

#include "internal.h"

#define MAX_DRIVERS 8

static const xrt_lite_driver* drivers[MAX_DRIVERS];

xrt_lite_status xrt_lite_register_driver(const xrt_lite_driver* driver) {
  if (driver == NULL || driver->name == NULL || driver->version != XRT_LITE_HAL_VERSION)
    return XRT_LITE_INVALID_ARGUMENT;
  if (driver->kernels == NULL && driver->executable == NULL) return XRT_LITE_INVALID_ARGUMENT;
  if (driver->executable != NULL && driver->buffer == NULL) return XRT_LITE_INVALID_ARGUMENT;
  for (int32_t i = 0; i < MAX_DRIVERS; ++i) {
    if (drivers[i] == NULL || strcmp(drivers[i]->name, driver->name) == 0) {
      drivers[i] = driver;
      return XRT_LITE_OK;
    }
  }
  return XRT_LITE_OUT_OF_MEMORY;
}

const xrt_lite_driver* xrt_find_driver(const char* name) {
  for (int32_t i = 0; i < MAX_DRIVERS && drivers[i] != NULL; ++i) {
    if (strcmp(drivers[i]->name, name) == 0) return drivers[i];
  }
  return NULL;
}
