/* SPDX-License-Identifier: Apache-2.0
 * The C API as a program in C uses it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/capi/capi_test.h"

xrt_program* capi_load(const char* model) {
  size_t size = 0;
  const void* bytes = capi_model(model, &size);
  xrt_options* options = NULL;
  xrt_program* program = NULL;
  xrt_status* status = NULL;
  CHECK(xrt_options_create(&options, NULL) == XRT_OK);
  CHECK(xrt_options_set(options, "engine", "native", NULL) == XRT_OK);
  if (xrt_program_load_bytes(bytes, size, options, &program, &status) != XRT_OK) {
    capi_fail(__FILE__, __LINE__, xrt_status_message(status));
  }
  xrt_status_free(status);
  xrt_options_free(options);
  return program;
}

/* A value over `data`. */
static xrt_value* wrap(float* data, size_t rows) {
  int64_t dims[2];
  xrt_tensor tensor = {0};
  xrt_value* value = NULL;
  dims[0] = (int64_t)rows;
  dims[1] = 3;
  tensor.size = sizeof tensor;
  tensor.dtype = XRT_FLOAT32;
  tensor.dims = dims;
  tensor.rank = 2;
  tensor.data = data;
  tensor.bytes = rows * 3 * sizeof(float);
  CHECK(xrt_value_wrap(&tensor, &value, NULL) == XRT_OK);
  return value;
}

static int contains(const char* text, const char* part) {
  return text != NULL && strstr(text, part) != NULL;
}

static void names_of_version_codes_and_types(void) {
  CHECK(strcmp(xrt_version(), "0.1.0") == 0);
  CHECK(strcmp(xrt_code_name(XRT_OK), "ok") == 0);
  CHECK(strcmp(xrt_code_name(XRT_ERROR_INVALID_ARGUMENT), "invalid_argument") == 0);
  CHECK(strcmp(xrt_code_name(XRT_ERROR_INTERNAL), "internal") == 0);
  CHECK(strcmp(xrt_code_name(1000), "internal") == 0);
  CHECK(strcmp(xrt_dtype_name(XRT_BFLOAT16), "bfloat16") == 0);
  CHECK(xrt_dtype_bits(XRT_INT4) == 4);
  CHECK(xrt_dtype_bits(XRT_STRING) == 0);
}

static void describes_inputs_and_outputs(void) {
  xrt_program* program = capi_load("add");
  xrt_port port = {0};
  port.size = sizeof port;
  CHECK(xrt_program_input_count(program) == 2);
  CHECK(xrt_program_output_count(program) == 1);
  CHECK(xrt_program_input(program, 1, &port, NULL) == XRT_OK);
  CHECK(strcmp(port.name, "b") == 0);
  CHECK(strcmp(port.type, "float32[N,3]") == 0);
  CHECK(port.kind == XRT_TENSOR && port.dtype == XRT_FLOAT32 && port.rank == 2);
  CHECK(port.dims[0] == -1 && port.dims[1] == 3);
  CHECK(strcmp(port.symbols[0], "N") == 0 && port.symbols[1] == NULL);
  CHECK(port.has_default == 1);
  CHECK(xrt_program_input(program, 0, &port, NULL) == XRT_OK);
  CHECK(strcmp(port.name, "a") == 0 && port.has_default == 0);
  CHECK(xrt_program_output(program, 0, &port, NULL) == XRT_OK);
  CHECK(strcmp(port.name, "sum") == 0);
  xrt_program_free(program);

  program = capi_load("sequence");
  CHECK(xrt_program_output(program, 1, &port, NULL) == XRT_OK);
  CHECK(port.kind == XRT_SEQUENCE && port.dtype == XRT_FLOAT32 && port.rank == -1);
  CHECK(strcmp(port.type, "seq(float32[2])") == 0);
  xrt_program_free(program);
}

static void runs_into_new_memory(void) {
  xrt_program* program = capi_load("add");
  float a[] = {1, 2, 3, 4, 5, 6};
  float b[] = {10, 20, 30, 40, 50, 60};
  const xrt_value* inputs[2];
  xrt_value* values[2];
  xrt_value* sum = NULL;
  const float* made;
  int i;
  inputs[0] = values[0] = wrap(a, 2);
  inputs[1] = values[1] = wrap(b, 2);
  CHECK(xrt_program_run(program, inputs, 2, &sum, 1, NULL, NULL) == XRT_OK);
  CHECK(xrt_value_kind(sum) == XRT_TENSOR && xrt_value_dtype(sum) == XRT_FLOAT32);
  CHECK(xrt_value_rank(sum) == 2 && xrt_value_dims(sum)[0] == 2 && xrt_value_dims(sum)[1] == 3);
  CHECK(xrt_value_count(sum) == 6 && xrt_value_bytes(sum) == 24);
  CHECK(strcmp(xrt_value_device(sum), "cpu") == 0);
  made = (const float*)xrt_value_data(sum);
  for (i = 0; i < 6; ++i) CHECK(made[i] == a[i] + b[i]);
  xrt_value_free(sum);

  /* The default of b. */
  inputs[1] = NULL;
  sum = NULL;
  xrt_value_free(values[0]);
  inputs[0] = values[0] = wrap(a, 1);
  CHECK(xrt_program_run(program, inputs, 2, &sum, 1, NULL, NULL) == XRT_OK);
  made = (const float*)xrt_value_data(sum);
  for (i = 0; i < 3; ++i) CHECK(made[i] == a[i] + 1);
  xrt_value_free(sum);
  xrt_value_free(values[0]);
  xrt_value_free(values[1]);
  xrt_program_free(program);
}

static void runs_into_the_callers_memory(void) {
  xrt_program* program = capi_load("relu");
  float x[] = {-1, 2, -3, 4, -5, 6};
  const float wanted[] = {0, 2, 0, 4, 0, 6};
  float y[6] = {0};
  xrt_value* input = wrap(x, 2);
  xrt_value* output = wrap(y, 2);
  xrt_value* const kept = output;
  const xrt_value* inputs[1];
  inputs[0] = input;
  CHECK(xrt_program_run(program, inputs, 1, &output, 1, NULL, NULL) == XRT_OK);
  CHECK(output == kept);
  CHECK(memcmp(y, wanted, sizeof wanted) == 0);
  xrt_value_free(input);
  xrt_value_free(output);
  xrt_program_free(program);
}

static void runs_by_name(void) {
  xrt_program* program = capi_load("sequence");
  float a[] = {1, 2};
  float b[] = {3, 4};
  const int64_t dims[] = {2};
  const char* names[] = {"b", "a"};
  const char* wanted[] = {"whole", "second"};
  xrt_value* values[2] = {NULL, NULL};
  const xrt_value* inputs[2];
  xrt_value* outputs[2] = {NULL, NULL};
  xrt_value* item = NULL;
  int i;
  for (i = 0; i < 2; ++i) {
    CHECK(xrt_value_create(XRT_FLOAT32, dims, 1, &values[i], NULL) == XRT_OK);
    memcpy(xrt_value_data(values[i]), i == 0 ? b : a, sizeof a);
    inputs[i] = values[i];
  }
  CHECK(xrt_program_run_named(program, names, inputs, 2, wanted, outputs, 2, NULL, NULL) == XRT_OK);
  CHECK(xrt_value_kind(outputs[0]) == XRT_SEQUENCE && xrt_value_count(outputs[0]) == 2);
  CHECK(xrt_value_item(outputs[0], 0, &item, NULL) == XRT_OK);
  CHECK(memcmp(xrt_value_data(item), a, sizeof a) == 0);
  CHECK(memcmp(xrt_value_data(outputs[1]), b, sizeof b) == 0);
  xrt_value_free(item);
  /* Some outputs only. */
  xrt_value_free(outputs[0]);
  outputs[0] = NULL;
  CHECK(xrt_program_run_named(program, names, inputs, 2, wanted, outputs, 1, NULL, NULL) == XRT_OK);
  CHECK(xrt_value_kind(outputs[0]) == XRT_SEQUENCE);
  for (i = 0; i < 2; ++i) {
    xrt_value_free(values[i]);
    xrt_value_free(outputs[i]);
  }
  xrt_program_free(program);
}

static void strings_go_in_and_out(void) {
  xrt_program* program = capi_load("strings");
  const char* texts[] = {"one", "a\0b", ""};
  const size_t lengths[] = {3, 3, 0};
  const int64_t dims[] = {3};
  xrt_value* input = NULL;
  xrt_value* output = NULL;
  const xrt_value* inputs[1];
  const char* text = NULL;
  size_t length = 0;
  CHECK(xrt_value_create_strings(texts, lengths, 3, dims, 1, &input, NULL) == XRT_OK);
  inputs[0] = input;
  CHECK(xrt_program_run(program, inputs, 1, &output, 1, NULL, NULL) == XRT_OK);
  CHECK(xrt_value_dtype(output) == XRT_STRING && xrt_value_data(output) == NULL);
  CHECK(xrt_value_string(output, 0, &text, NULL, NULL) == XRT_OK && strcmp(text, "one") == 0);
  CHECK(xrt_value_string(output, 1, &text, &length, NULL) == XRT_OK);
  CHECK(length == 3 && memcmp(text, "a\0b", 4) == 0);
  CHECK(xrt_value_string(output, 2, &text, &length, NULL) == XRT_OK && length == 0);
  xrt_value_free(input);
  xrt_value_free(output);
  /* Without lengths, of rank 0. */
  input = NULL;
  CHECK(xrt_value_create_strings(texts, NULL, 1, NULL, 0, &input, NULL) == XRT_OK);
  CHECK(xrt_value_count(input) == 1 && xrt_value_rank(input) == 0);
  xrt_value_free(input);
  xrt_program_free(program);
}

static void release(void* context) { ++*(int*)context; }

static void released_when_nobody_reads_it(void) {
  float x[] = {1, 2, 3};
  const int64_t dims[] = {1, 3};
  int released = 0;
  xrt_tensor tensor = {0};
  xrt_value* value = NULL;
  xrt_value* both = NULL;
  const xrt_value* items[2];
  tensor.size = sizeof tensor;
  tensor.dtype = XRT_FLOAT32;
  tensor.dims = dims;
  tensor.rank = 2;
  tensor.data = x;
  tensor.bytes = sizeof x;
  tensor.release = release;
  tensor.context = &released;
  CHECK(xrt_value_wrap(&tensor, &value, NULL) == XRT_OK);
  items[0] = items[1] = value;
  CHECK(xrt_value_create_sequence(XRT_FLOAT32, items, 2, &both, NULL) == XRT_OK);
  xrt_value_free(value);
  CHECK(released == 0);
  xrt_value_free(both);
  CHECK(released == 1);
}

static void count_call(void* context, xrt_request* request) {
  xrt_value* output = NULL;
  if (xrt_request_result(request, &output, 1, NULL) == XRT_OK) ++*(int*)context;
  xrt_value_free(output);
}

static void free_call(void* context, xrt_request* request) {
  ++*(int*)context;
  xrt_request_free(request);
}

static void submits(void) {
  enum { kRuns = 40 };
  xrt_program* program = capi_load("relu");
  xrt_request* requests[kRuns];
  float x[kRuns][6];
  int called[kRuns];
  int i, k;
  for (i = 0; i < kRuns; ++i) {
    const xrt_value* inputs[1];
    xrt_value* input;
    called[i] = 0;
    requests[i] = NULL;
    for (k = 0; k < 6; ++k) x[i][k] = (float)(i - k);
    inputs[0] = input = wrap(x[i], 2);
    CHECK(xrt_program_submit(program, inputs, 1, NULL, 0, NULL, count_call, &called[i],
                             &requests[i], NULL) == XRT_OK);
    xrt_value_free(input);
  }
  for (i = 0; i < kRuns; ++i) {
    xrt_value* output = NULL;
    CHECK(xrt_request_wait(requests[i], -1) == 1);
    CHECK(xrt_request_wait(requests[i], 0) == 1);
    CHECK(xrt_request_result(requests[i], &output, 1, NULL) == XRT_OK);
    for (k = 0; k < 6; ++k) {
      const float wanted = x[i][k] > 0 ? x[i][k] : 0;
      CHECK(((const float*)xrt_value_data(output))[k] == wanted);
    }
    xrt_value_free(output);
  }
  xrt_program_free(program); /* callbacks have returned then */
  for (i = 0; i < kRuns; ++i) {
    CHECK(called[i] == 1);
    xrt_request_free(requests[i]); /* outlives its program */
  }
}

static void submits_into_the_callers_memory(void) {
  xrt_program* program = capi_load("relu");
  float x[] = {-1, 2, -3, 4, -5, 6};
  const float wanted[] = {0, 2, 0, 4, 0, 6};
  float y[6] = {0};
  int freed = 0;
  xrt_value* input = wrap(x, 2);
  xrt_value* output = wrap(y, 2);
  const xrt_value* inputs[1];
  const xrt_value* outputs[1];
  xrt_request* request = NULL;
  inputs[0] = input;
  outputs[0] = output;
  CHECK(xrt_program_submit(program, inputs, 1, outputs, 1, NULL, NULL, NULL, &request, NULL) ==
        XRT_OK);
  CHECK(xrt_request_wait(request, 60000) == 1);
  CHECK(memcmp(y, wanted, sizeof wanted) == 0);
  xrt_request_free(request);
  /* A callback may free its request; one that is freed early still runs. */
  CHECK(xrt_program_submit(program, inputs, 1, NULL, 0, NULL, free_call, &freed, &request, NULL) ==
        XRT_OK);
  CHECK(xrt_program_submit(program, inputs, 1, outputs, 1, NULL, NULL, NULL, &request, NULL) ==
        XRT_OK);
  xrt_request_free(request);
  xrt_program_free(program);
  CHECK(freed == 1);
  xrt_value_free(input);
  xrt_value_free(output);
}

static void a_request_gives_the_error_of_its_run(void) {
  xrt_program* program = capi_load("add");
  float a[] = {1, 2, 3};
  xrt_value* input = wrap(a, 1);
  const xrt_value* inputs[2];
  xrt_request* request = NULL;
  xrt_value* output = NULL;
  inputs[0] = NULL; /* has no default */
  inputs[1] = input;
  CHECK(xrt_program_submit(program, inputs, 2, NULL, 0, NULL, NULL, NULL, &request, NULL) ==
        XRT_OK);
  CHECK_FAILS(XRT_ERROR_INVALID_ARGUMENT, xrt_request_result(request, &output, 1, &status));
  CHECK(output == NULL);
  xrt_request_free(request);
  xrt_value_free(input);
  xrt_program_free(program);
}

/* Waits until the caller lets it go: the thread of the program has nothing else to do meanwhile. */
static void wait_call(void* context, xrt_request* request) {
  (void)request;
  while (__atomic_load_n((int*)context, __ATOMIC_ACQUIRE) == 0) {
  }
}

static void a_queue_is_bounded_and_requests_are_taken_back(void) {
  xrt_options* options = NULL;
  xrt_program* program = NULL;
  size_t size = 0;
  const void* bytes = capi_model("relu", &size);
  float x[] = {-1, 2, -3, 4, -5, 6};
  const xrt_value* inputs[1];
  xrt_value* input = wrap(x, 2);
  xrt_value* output = NULL;
  xrt_request* first = NULL;
  xrt_request* waits[2] = {NULL, NULL};
  xrt_request* none = NULL;
  xrt_run_options at_once = {sizeof at_once, XRT_RESULTS_LIKE_INPUTS, 0, 1};
  int open = 0;
  int i;
  inputs[0] = input;
  CHECK(xrt_options_create(&options, NULL) == XRT_OK);
  CHECK(xrt_options_set(options, "engine", "native", NULL) == XRT_OK);
  CHECK(xrt_options_set(options, "streams", "1", NULL) == XRT_OK);
  CHECK(xrt_options_set(options, "max_queue", "2", NULL) == XRT_OK);
  CHECK(xrt_program_load_bytes(bytes, size, options, &program, NULL) == XRT_OK);
  xrt_options_free(options);
  CHECK(xrt_program_submit(program, inputs, 1, NULL, 0, NULL, wait_call, &open, &first, NULL) ==
        XRT_OK);
  CHECK(xrt_request_wait(first, -1) == 1);
  CHECK(xrt_request_cancel(first) == 0);
  for (i = 0; i < 2; ++i) {
    CHECK(xrt_program_submit(program, inputs, 1, NULL, 0, &at_once, NULL, NULL, &waits[i], NULL) ==
          XRT_OK);
  }
  CHECK_FAILS(XRT_ERROR_RESOURCE, xrt_program_submit(program, inputs, 1, NULL, 0, &at_once, NULL,
                                                     NULL, &none, &status));
  CHECK(none == NULL);
  CHECK(xrt_request_wait(waits[0], 1) == 0);
  CHECK(xrt_request_cancel(waits[0]) == 1);
  CHECK(xrt_request_cancel(waits[0]) == 1);
  CHECK(xrt_request_wait(waits[0], 0) == 1);
  CHECK_FAILS(XRT_ERROR_INVALID_ARGUMENT, xrt_request_result(waits[0], &output, 1, &status));
  CHECK(output == NULL);
  __atomic_store_n(&open, 1, __ATOMIC_RELEASE);
  CHECK(xrt_request_result(waits[1], &output, 1, NULL) == XRT_OK);
  CHECK(((const float*)xrt_value_data(output))[1] == 2);
  CHECK(xrt_request_cancel(NULL) == 0);
  xrt_value_free(output);
  xrt_request_free(first);
  xrt_request_free(waits[0]);
  xrt_request_free(waits[1]);
  xrt_program_free(program);
  xrt_value_free(input);
}

static void tells_about_a_program(void) {
  xrt_program* program = capi_load("relu");
  float x[6] = {0};
  xrt_value* input = wrap(x, 2);
  xrt_value* output = NULL;
  const xrt_value* inputs[1];
  char* text = NULL;
  inputs[0] = input;
  CHECK(xrt_program_set_profiling(program, 1, NULL) == XRT_OK);
  CHECK(xrt_program_run(program, inputs, 1, &output, 1, NULL, NULL) == XRT_OK);
  CHECK(xrt_program_explain_json(program, &text, NULL) == XRT_OK);
  CHECK(contains(text, "\"op\":\"Relu\"") && contains(text, "\"engine\":\"native\""));
  xrt_text_free(text);
  CHECK(xrt_program_trace_json(program, &text, NULL) == XRT_OK);
  CHECK(contains(text, "native"));
  xrt_text_free(text);
  CHECK(xrt_program_graph_text(program, &text, NULL) == XRT_OK);
  CHECK(contains(text, "Relu"));
  xrt_text_free(text);
  xrt_value_free(input);
  xrt_value_free(output);
  xrt_program_free(program);
}

static void loads_a_file_and_keeps_it_in_a_cache(void) {
  xrt_options* options = NULL;
  xrt_program* program = NULL;
  char file[4096];
  char* json = NULL;
  size_t size = 0;
  size_t removed = 0;
  const void* bytes = capi_model("relu", &size);
  FILE* out;
  snprintf(file, sizeof file, "%s/relu.onnx", capi_folder());
  out = fopen(file, "wb");
  CHECK(out != NULL && fwrite(bytes, 1, size, out) == size);
  if (out != NULL) fclose(out);
  CHECK(xrt_options_create(&options, NULL) == XRT_OK);
  CHECK(xrt_options_set(options, "engine", "native", NULL) == XRT_OK);
  CHECK(xrt_options_set(options, "cache_dir", capi_folder(), NULL) == XRT_OK);
  CHECK(xrt_options_set(options, "num_threads", "1", NULL) == XRT_OK);
  CHECK(xrt_options_set(options, "strict", "true", NULL) == XRT_OK);
  CHECK(xrt_options_set_node(options, "relu", "native", NULL) == XRT_OK);
  CHECK(xrt_program_load(file, options, &program, NULL) == XRT_OK);
  xrt_program_free(program);
  xrt_options_free(options);
  CHECK(xrt_cache_list_json(capi_folder(), &json, NULL) == XRT_OK);
  CHECK(contains(json, "\"engine\":\"native\"") && contains(json, "\"valid\":true"));
  xrt_text_free(json);
  CHECK(xrt_cache_clear(capi_folder(), &removed, NULL) == XRT_OK);
  CHECK(removed > 0);
  CHECK(xrt_cache_clear(capi_folder(), NULL, NULL) == XRT_OK);
}

static void an_alias_writes_the_input(void) {
  size_t size = 0;
  const void* bytes = capi_model("relu", &size);
  xrt_options* options = NULL;
  xrt_program* program = NULL;
  float x[] = {-1, 2, -3, 4, -5, 6};
  const float wanted[] = {0, 2, 0, 4, 0, 6};
  xrt_value* input = wrap(x, 2);
  xrt_value* output = NULL;
  const xrt_value* inputs[1];
  inputs[0] = input;
  CHECK(xrt_options_create(&options, NULL) == XRT_OK);
  CHECK(xrt_options_set(options, "engine", "native", NULL) == XRT_OK);
  CHECK(xrt_options_add_alias(options, "x", "y", NULL) == XRT_OK);
  CHECK(xrt_program_load_bytes(bytes, size, options, &program, NULL) == XRT_OK);
  CHECK(xrt_program_run(program, inputs, 1, &output, 1, NULL, NULL) == XRT_OK);
  CHECK(memcmp(x, wanted, sizeof wanted) == 0);
  xrt_value_free(input);
  xrt_value_free(output);
  xrt_options_free(options);
  xrt_program_free(program);
}

static void tells_about_the_process(void) {
  const int before = xrt_thread_budget();
  char* text = NULL;
  CHECK(xrt_engines_json(&text, NULL) == XRT_OK);
  CHECK(contains(text, "\"name\":\"native\"") && contains(text, "Relu"));
  xrt_text_free(text);
  CHECK(xrt_options_names_json(&text, NULL) == XRT_OK);
  CHECK(contains(text, "\"strict\"") && contains(text, "\"precision\""));
  xrt_text_free(text);
  CHECK(xrt_cache_default_dir(&text, NULL) == XRT_OK);
  CHECK(text != NULL);
  xrt_text_free(text);
  CHECK(xrt_set_thread_budget(1, NULL) == XRT_OK);
  CHECK(xrt_thread_budget() == 1);
  CHECK(xrt_set_thread_budget(before, NULL) == XRT_OK);
  CHECK(xrt_set_log_level("off", NULL) == XRT_OK);
  CHECK(xrt_set_log_level("warning", NULL) == XRT_OK);
}

const capi_case capi_cases[] = {
    {"NamesOfVersionCodesAndTypes", names_of_version_codes_and_types},
    {"DescribesInputsAndOutputs", describes_inputs_and_outputs},
    {"RunsIntoNewMemory", runs_into_new_memory},
    {"RunsIntoTheCallersMemory", runs_into_the_callers_memory},
    {"RunsByName", runs_by_name},
    {"StringsGoInAndOut", strings_go_in_and_out},
    {"ReleasedWhenNobodyReadsIt", released_when_nobody_reads_it},
    {"Submits", submits},
    {"SubmitsIntoTheCallersMemory", submits_into_the_callers_memory},
    {"ARequestGivesTheErrorOfItsRun", a_request_gives_the_error_of_its_run},
    {"AQueueIsBoundedAndRequestsAreTakenBack", a_queue_is_bounded_and_requests_are_taken_back},
    {"TellsAboutAProgram", tells_about_a_program},
    {"LoadsAFileAndKeepsItInACache", loads_a_file_and_keeps_it_in_a_cache},
    {"AnAliasWritesTheInput", an_alias_writes_the_input},
    {"TellsAboutTheProcess", tells_about_the_process},
    {NULL, NULL},
};
