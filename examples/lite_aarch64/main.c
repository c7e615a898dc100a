/* SPDX-License-Identifier: Apache-2.0
 * Runs a compiled model on 64-bit Arm, for instance a Raspberry Pi. From another machine:
 *   xrt-lite-compile model.onnx -o model.bin --targets=arm,generic
 *   cmake -S examples/lite_aarch64 -B build/lite_aarch64 \
 *     --toolchain $PWD/examples/lite_aarch64/toolchain.cmake
 *   cmake --build build/lite_aarch64
 *   qemu-aarch64-static -L /usr/aarch64-linux-gnu build/lite_aarch64/lite_aarch64 model.bin
 * On the Arm machine itself the toolchain file is left out.
 *
 *   lite_aarch64 MODEL [FOLDER] [RUNS]
 * reads the inputs from FOLDER/input0, input1 … (the elements, little-endian) and writes output0,
 * output1 … there; without FOLDER inputs are zeros. With RUNS it prints the time of a run. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "xrt_lite.h"
#include "xrt_lite_hal.h"

enum { MOST_PORTS = 16 };

static int fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  return 1;
}

/* Reads or writes a port's whole file. */
static int transfer(const char* folder, const char* kind, int index, void* data, size_t bytes) {
  char path[4096];
  const int reads = strcmp(kind, "input") == 0;
  snprintf(path, sizeof(path), "%s/%s%d", folder, kind, index);
  FILE* file = fopen(path, reads ? "rb" : "wb");
  if (file == NULL) return fail(path, "cannot be opened");
  const size_t done = reads ? fread(data, 1, bytes, file) : fwrite(data, 1, bytes, file);
  const int whole = done == bytes && (!reads || fgetc(file) == EOF);
  const int good = fclose(file) == 0 && whole;
  return good ? 0 : fail(path, "has another size than the port");
}

int main(int argc, char** argv) {
  if (argc < 2) return fail("usage", "lite_aarch64 MODEL [FOLDER] [RUNS]");
  const char* folder = argc > 2 ? argv[2] : NULL;
  xrt_lite_register_driver(xrt_lite_generic_driver());
  xrt_lite_register_driver(xrt_lite_arm_driver());
  xrt_lite_model* model;
  xrt_lite_context* context;
  xrt_lite_status status = xrt_lite_load_file(argv[1], NULL, &model);
  if (status != XRT_LITE_OK) return fail(argv[1], xrt_lite_message(status));
  status = xrt_lite_context_create(model, NULL, &context);
  if (status != XRT_LITE_OK) return fail("context", xrt_lite_message(status));

  xrt_lite_port port;
  void *inputs[MOST_PORTS], *outputs[MOST_PORTS];
  const int input_count = xrt_lite_input_count(model), output_count = xrt_lite_output_count(model);
  if (input_count > MOST_PORTS || output_count > MOST_PORTS) return fail(argv[1], "too many ports");
  for (int i = 0; i < input_count; ++i) {
    xrt_lite_input(model, i, &port);
    inputs[i] = calloc(1, port.bytes);
    if (folder && transfer(folder, "input", i, inputs[i], port.bytes) != 0) return 1;
    xrt_lite_set_input(context, i, inputs[i], port.bytes);
  }
  for (int i = 0; i < output_count; ++i) {
    xrt_lite_output(model, i, &port);
    outputs[i] = calloc(1, port.bytes);
    xrt_lite_set_output(context, i, outputs[i], port.bytes);
  }
  status = xrt_lite_run(context);
  if (status != XRT_LITE_OK) return fail("run", xrt_lite_message(status));

  const int runs = argc > 3 ? atoi(argv[3]) : 0;
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < runs; ++i) xrt_lite_run(context);
  clock_gettime(CLOCK_MONOTONIC, &end);
  if (runs > 0)
    printf("%.3f ms\n", ((double)(end.tv_sec - begin.tv_sec) * 1e3 +
                         (double)(end.tv_nsec - begin.tv_nsec) * 1e-6) /
                            runs);

  for (int i = 0; i < output_count; ++i) {
    xrt_lite_output(model, i, &port);
    if (folder && transfer(folder, "output", i, outputs[i], port.bytes) != 0) return 1;
    if (port.dtype == XRT_LITE_F32) {
      const float* y = (const float*)outputs[i];
      size_t best = 0;
      for (size_t k = 1; k < port.bytes / sizeof(float); ++k)
        if (y[k] > y[best]) best = k;
      printf("%s: largest %g at %zu\n", port.name, y[best], best);
    }
    free(outputs[i]);
  }
  for (int i = 0; i < input_count; ++i) free(inputs[i]);
  xrt_lite_context_destroy(context);
  xrt_lite_unload(model);
  return 0;
}
