/* SPDX-License-Identifier: Apache-2.0
 * Runs a compiled model of one input in flash on a bare microcontroller and prints the bits of all
 * outputs. Defined by the build: MODEL_FILE and INPUT_FILE. */
#include "print.h"
#include "xrt_lite_hal.h"

__asm__(".section .rodata\n.balign 64\nmodel_begin:\n.incbin \"" MODEL_FILE
        "\"\nmodel_end:\n.balign 64\ninput_begin:\n.incbin \"" INPUT_FILE
        "\"\ninput_end:\n"
        ".text\n");
extern const unsigned char model_begin[], model_end[], input_begin[], input_end[];

enum { MOST_OUTPUTS = 4 };
static _Alignas(64) unsigned char model_memory[2048], context_memory[1 << 16];
static _Alignas(64) float outputs[MOST_OUTPUTS][4096];

static int fail(const char* what, xrt_lite_status status) {
  print_text(what);
  print_text(": ");
  print_text(xrt_lite_message(status));
  print_text("\n");
  return 1;
}

int main(void) {
  const xrt_lite_driver* const drivers[] = {xrt_lite_cortex_m_driver()};
  const xrt_lite_load_options options = {model_memory, sizeof(model_memory), NULL, drivers, 1, 1};
  const xrt_lite_context_options context_options = {context_memory, sizeof(context_memory), NULL};
  xrt_lite_model* model;
  xrt_lite_context* context;
  xrt_lite_status status =
      xrt_lite_load(model_begin, (size_t)(model_end - model_begin), &options, &model);
  if (status != XRT_LITE_OK) return fail("load", status);
  status = xrt_lite_context_create(model, &context_options, &context);
  if (status != XRT_LITE_OK) return fail("context", status);
  status = xrt_lite_set_input(context, 0, input_begin, (size_t)(input_end - input_begin));
  if (status != XRT_LITE_OK) return fail("input", status);
  xrt_lite_port port;
  const int count = xrt_lite_output_count(model);
  if (count > MOST_OUTPUTS) return fail("outputs", XRT_LITE_UNSUPPORTED);
  for (int i = 0; i < count; ++i) {
    status = xrt_lite_output(model, i, &port);
    if (status == XRT_LITE_OK && port.bytes > sizeof(outputs[i])) status = XRT_LITE_OUT_OF_MEMORY;
    if (status == XRT_LITE_OK) status = xrt_lite_set_output(context, i, outputs[i], port.bytes);
    if (status != XRT_LITE_OK) return fail("output", status);
  }
  status = xrt_lite_run(context);
  if (status != XRT_LITE_OK) return fail("run", status);
  for (int i = 0; i < count; ++i) {
    xrt_lite_output(model, i, &port);
    for (size_t k = 0; k < port.bytes / sizeof(float); ++k) {
      print_bits(outputs[i][k]);
      print_text("\n");
    }
  }
  return 0;
}
