/* SPDX-License-Identifier: Apache-2.0
 * The same function as the C sources that the compiler writes, from a file in flash: a new model
 * then needs no new program, for some kilobytes of loader and checks, and all kernels. */
#include "digits.h"
#include "xrt_lite_hal.h"

/* The file as it is, aligned as weights want it. */
__asm__(".section .rodata\n.balign 64\nmodel_begin:\n.incbin \"" MODEL_FILE
        "\"\nmodel_end:\n"
        ".text\n");
extern const unsigned char model_begin[], model_end[];

static _Alignas(64) unsigned char model_memory[1024];
static _Alignas(64) unsigned char context_memory[DIGITS_ARENA_BYTES + 1024];

xrt_lite_status digits_run(const void* const* inputs, void* const* outputs, void* arena) {
  static xrt_lite_context* context;
  (void)arena; /* the context's memory holds it */
  if (context == NULL) {
    const xrt_lite_driver* const drivers[] = {xrt_lite_cortex_m_driver()};
    const xrt_lite_load_options options = {model_memory, sizeof(model_memory), NULL, drivers, 1, 1};
    const xrt_lite_context_options context_options = {context_memory, sizeof(context_memory), NULL};
    const size_t bytes = (size_t)(model_end - model_begin);
    xrt_lite_model* model;
    xrt_lite_status status = xrt_lite_load(model_begin, bytes, &options, &model);
    if (status != XRT_LITE_OK) return status;
    status = xrt_lite_context_create(model, &context_options, &context);
    if (status != XRT_LITE_OK) return status;
  }
  xrt_lite_status status = xrt_lite_set_input(context, 0, inputs[0], DIGITS_INPUT_0_BYTES);
  if (status == XRT_LITE_OK)
    status = xrt_lite_set_output(context, 0, outputs[0], DIGITS_OUTPUT_0_BYTES);
  return status == XRT_LITE_OK ? xrt_lite_run(context) : status;
}
