/* SPDX-License-Identifier: Apache-2.0
 * Runs a compiled model on inputs of zeros and prints the largest value of each output.
 *   xrt-lite-compile model.onnx -o model.bin
 *   cmake -S examples/lite_c -B build/lite_c && cmake --build build/lite_c
 *   build/lite_c/lite_c model.bin */
#include <stdio.h>
#include <stdlib.h>

#include "xrt_lite.h"
#include "xrt_lite_hal.h"

static int fail(const char* what, xrt_lite_status status) {
  fprintf(stderr, "%s: %s\n", what, xrt_lite_message(status));
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return fail("usage: lite_c MODEL", XRT_LITE_INVALID_ARGUMENT);
  xrt_lite_model* model;
  xrt_lite_context* context;
  xrt_lite_register_driver(xrt_lite_generic_driver());
  xrt_lite_status status = xrt_lite_load_file(argv[1], NULL, &model);
  if (status != XRT_LITE_OK) return fail(argv[1], status);
  status = xrt_lite_context_create(model, NULL, &context);
  if (status != XRT_LITE_OK) return fail("context", status);

  xrt_lite_port port;
  for (int i = 0; i < xrt_lite_input_count(model); ++i) {
    xrt_lite_input(model, i, &port);
    xrt_lite_set_input(context, i, calloc(1, port.bytes), port.bytes);
  }
  void* outputs[16] = {NULL};
  for (int i = 0; i < xrt_lite_output_count(model) && i < 16; ++i) {
    xrt_lite_output(model, i, &port);
    outputs[i] = calloc(1, port.bytes);
    xrt_lite_set_output(context, i, outputs[i], port.bytes);
  }
  status = xrt_lite_run(context);
  if (status != XRT_LITE_OK) return fail("run", status);

  for (int i = 0; i < xrt_lite_output_count(model) && i < 16; ++i) {
    xrt_lite_output(model, i, &port);
    if (port.dtype != XRT_LITE_F32) continue;
    const float* y = (const float*)outputs[i];
    size_t best = 0;
    for (size_t k = 1; k < port.bytes / sizeof(float); ++k)
      if (y[k] > y[best]) best = k;
    printf("%s: largest %g at %zu\n", port.name, y[best], best);
  }
  xrt_lite_context_destroy(context);
  xrt_lite_unload(model);
  return 0;
}
