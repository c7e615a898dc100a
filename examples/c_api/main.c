/* SPDX-License-Identifier: Apache-2.0
 * Reads scanned digits with a network, through OpenXRT's C API:
 *   make -C examples/c_api run
 *   digits MODEL [ENGINE] */
#include <stdio.h>
#include <stdlib.h>
#include <xrt/xrt.h>

#include "pictures.h" /* 20 pictures of 8 x 8 pixels from 0 to 16, and what they show */

enum { kPictures = sizeof digits / sizeof digits[0], kPixels = 64, kClasses = 10 };

static void check(xrt_code code, xrt_status** status) {
  if (code == XRT_OK) return;
  fprintf(stderr, "%s: %s\n", xrt_code_name(code), xrt_status_message(*status));
  xrt_status_free(*status);
  exit(1);
}

static void describe(const xrt_program* program) {
  xrt_status* status = NULL;
  xrt_port port = {.size = sizeof port};
  for (size_t i = 0; i < xrt_program_input_count(program); ++i) {
    check(xrt_program_input(program, i, &port, &status), &status);
    printf("input  %s: %s\n", port.name, port.type);
  }
  for (size_t i = 0; i < xrt_program_output_count(program); ++i) {
    check(xrt_program_output(program, i, &port, &status), &status);
    printf("output %s: %s\n", port.name, port.type);
  }
}

static xrt_value* wrap(float* data, const int64_t* dims, size_t rank, size_t bytes) {
  xrt_status* status = NULL;
  xrt_value* value = NULL;
  const xrt_tensor tensor = {.size = sizeof tensor,
                             .dtype = XRT_FLOAT32,
                             .dims = dims,
                             .rank = rank,
                             .data = data,
                             .bytes = bytes};
  check(xrt_value_wrap(&tensor, &value, &status), &status);
  return value;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: digits MODEL [ENGINE]\n");
    return 2;
  }
  printf("OpenXRT %s\n", xrt_version());
  xrt_status* status = NULL;
  xrt_options* options = NULL;
  xrt_program* program = NULL;
  check(xrt_options_create(&options, &status), &status);
  check(xrt_options_set(options, "engine", argc > 2 ? argv[2] : "auto", &status), &status);
  check(xrt_program_load(argv[1], options, &program, &status), &status);
  xrt_options_free(options);
  describe(program);

  /* Input and output lie in memory of ours: a run copies neither. */
  float pixels[kPixels];
  float scores[kClasses];
  const int64_t input_dims[] = {1, 1, 8, 8};
  const int64_t output_dims[] = {1, kClasses};
  xrt_value* input = wrap(pixels, input_dims, 4, sizeof pixels);
  xrt_value* output = wrap(scores, output_dims, 2, sizeof scores);
  const xrt_value* inputs[] = {input};
  int right = 0;
  for (int i = 0; i < kPictures; ++i) {
    for (int k = 0; k < kPixels; ++k) pixels[k] = (float)pictures[i][k] / 16;
    check(xrt_program_run(program, inputs, 1, &output, 1, NULL, &status), &status);
    int best = 0;
    for (int k = 1; k < kClasses; ++k) {
      if (scores[k] > scores[best]) best = k;
    }
    right += best == digits[i];
  }
  printf("%d of %d right\n", right, (int)kPictures);

  /* The same without waiting for each: a request per picture, the library's memory. */
  xrt_request* request = NULL;
  xrt_value* result = NULL;
  check(xrt_program_submit(program, inputs, 1, NULL, 0, NULL, NULL, NULL, &request, &status),
        &status);
  check(xrt_request_result(request, &result, 1, &status), &status);
  printf("submitted: %d scores of %s\n", (int)xrt_value_count(result),
         xrt_dtype_name(xrt_value_dtype(result)));
  xrt_request_free(request);
  xrt_value_free(result);

  char* json = NULL;
  check(xrt_program_explain_json(program, &json, &status), &status);
  printf("%s\n", json);
  xrt_text_free(json);
  xrt_value_free(input);
  xrt_value_free(output);
  xrt_program_free(program);
  return 0;
}
