/* SPDX-License-Identifier: Apache-2.0
 * Wrong arguments of the C API: each is an error with a text, none a crash. */
#include <stdint.h>
#include <string.h>

#include "tests/capi/capi_test.h"

#define INVALID(call) CHECK_FAILS(XRT_ERROR_INVALID_ARGUMENT, call)

static xrt_tensor tensor_of(float* data, const int64_t* dims, size_t rank, size_t bytes) {
  xrt_tensor tensor = {0};
  tensor.size = sizeof tensor;
  tensor.dtype = XRT_FLOAT32;
  tensor.dims = dims;
  tensor.rank = rank;
  tensor.data = data;
  tensor.bytes = bytes;
  return tensor;
}

static void null_handles_are_freed(void) {
  xrt_status_free(NULL);
  xrt_text_free(NULL);
  xrt_value_free(NULL);
  xrt_options_free(NULL);
  xrt_program_free(NULL);
  xrt_request_free(NULL);
}

static void null_is_asked(void) {
  CHECK(xrt_status_code(NULL) == XRT_OK);
  CHECK(strcmp(xrt_status_message(NULL), "") == 0);
  CHECK(xrt_value_kind(NULL) == XRT_NONE);
  CHECK(xrt_value_dtype(NULL) == 0 && xrt_value_rank(NULL) == 0 && xrt_value_dims(NULL) == NULL);
  CHECK(xrt_value_count(NULL) == 0 && xrt_value_bytes(NULL) == 0 && xrt_value_data(NULL) == NULL);
  CHECK(strcmp(xrt_value_device(NULL), "") == 0);
  CHECK(xrt_program_input_count(NULL) == 0 && xrt_program_output_count(NULL) == 0);
  CHECK(xrt_request_wait(NULL, -1) == 1);
}

static void null_everywhere(void) {
  xrt_program* program = capi_load("relu");
  const int64_t dims[] = {1};
  const char* text = "x";
  const xrt_value* none = NULL;
  xrt_value* value = NULL;
  xrt_options* options = NULL;
  xrt_request* request = NULL;
  xrt_program* other = NULL;
  xrt_port port = {0};
  xrt_tensor tensor = {0};
  char* json = NULL;
  port.size = sizeof port;
  CHECK(xrt_options_create(&options, NULL) == XRT_OK);

  INVALID(xrt_value_wrap(NULL, &value, &status));
  INVALID(xrt_value_wrap(&tensor, NULL, &status));
  INVALID(xrt_value_create(XRT_FLOAT32, NULL, 1, &value, &status));
  INVALID(xrt_value_create(XRT_FLOAT32, dims, 1, NULL, &status));
  INVALID(xrt_value_create_strings(NULL, NULL, 1, dims, 1, &value, &status));
  INVALID(xrt_value_create_strings(&text, NULL, 1, NULL, 1, &value, &status));
  INVALID(xrt_value_create_strings(&text, NULL, 1, dims, 1, NULL, &status));
  text = NULL;
  INVALID(xrt_value_create_strings(&text, NULL, 1, dims, 1, &value, &status));
  INVALID(xrt_value_create_sequence(XRT_FLOAT32, NULL, 1, &value, &status));
  INVALID(xrt_value_create_sequence(XRT_FLOAT32, &none, 1, &value, &status));
  INVALID(xrt_value_create_sequence(XRT_FLOAT32, NULL, 0, NULL, &status));
  INVALID(xrt_value_string(NULL, 0, &text, NULL, &status));
  INVALID(xrt_value_item(NULL, 0, &value, &status));

  INVALID(xrt_options_create(NULL, &status));
  INVALID(xrt_options_set(NULL, "strict", "1", &status));
  INVALID(xrt_options_set(options, NULL, "1", &status));
  INVALID(xrt_options_set(options, "strict", NULL, &status));
  INVALID(xrt_options_set_engine(NULL, "native", "a", "b", &status));
  INVALID(xrt_options_set_engine(options, NULL, "a", "b", &status));
  INVALID(xrt_options_set_engine(options, "native", NULL, "b", &status));
  INVALID(xrt_options_set_engine(options, "native", "a", NULL, &status));
  INVALID(xrt_options_set_node(NULL, "n", "native", &status));
  INVALID(xrt_options_set_node(options, NULL, "native", &status));
  INVALID(xrt_options_set_node(options, "n", NULL, &status));
  INVALID(xrt_options_add_alias(NULL, "x", "y", &status));
  INVALID(xrt_options_add_alias(options, NULL, "y", &status));
  INVALID(xrt_options_add_alias(options, "x", NULL, &status));
  INVALID(xrt_options_names_json(NULL, &status));

  INVALID(xrt_program_load(NULL, NULL, &other, &status));
  INVALID(xrt_program_load("x.onnx", NULL, NULL, &status));
  INVALID(xrt_program_load_bytes(NULL, 1, NULL, &other, &status));
  INVALID(xrt_program_load_bytes("x", 1, NULL, NULL, &status));
  INVALID(xrt_program_input(NULL, 0, &port, &status));
  INVALID(xrt_program_input(program, 0, NULL, &status));
  INVALID(xrt_program_output(NULL, 0, &port, &status));
  INVALID(xrt_program_output(program, 0, NULL, &status));
  INVALID(xrt_program_run(NULL, &none, 1, &value, 1, NULL, &status));
  INVALID(xrt_program_run(program, NULL, 1, &value, 1, NULL, &status));
  INVALID(xrt_program_run(program, &none, 1, NULL, 1, NULL, &status));
  INVALID(xrt_program_run(program, &none, 1, &value, 1, NULL, &status)); /* x has no default */
  INVALID(xrt_program_run_named(NULL, &text, &none, 1, &text, &value, 1, NULL, &status));
  INVALID(xrt_program_run_named(program, NULL, &none, 1, &text, &value, 1, NULL, &status));
  INVALID(xrt_program_run_named(program, &text, NULL, 1, &text, &value, 1, NULL, &status));
  INVALID(xrt_program_run_named(program, &text, &none, 1, &text, &value, 1, NULL, &status));
  INVALID(xrt_program_run_named(program, &text, &none, 0, NULL, &value, 1, NULL, &status));
  INVALID(xrt_program_run_named(program, &text, &none, 0, &text, NULL, 1, NULL, &status));
  INVALID(xrt_program_submit(NULL, &none, 1, NULL, 0, NULL, NULL, NULL, &request, &status));
  INVALID(xrt_program_submit(program, NULL, 1, NULL, 0, NULL, NULL, NULL, &request, &status));
  INVALID(xrt_program_submit(program, &none, 1, NULL, 0, NULL, NULL, NULL, NULL, &status));
  INVALID(xrt_request_result(NULL, &value, 1, &status));
  INVALID(xrt_program_explain_json(NULL, &json, &status));
  INVALID(xrt_program_explain_json(program, NULL, &status));
  INVALID(xrt_program_set_profiling(NULL, 1, &status));
  INVALID(xrt_program_trace_json(NULL, &json, &status));
  INVALID(xrt_program_trace_json(program, NULL, &status));
  INVALID(xrt_program_graph_text(NULL, &json, &status));
  INVALID(xrt_program_graph_text(program, NULL, &status));

  INVALID(xrt_engines_json(NULL, &status));
  INVALID(xrt_doctor_json(NULL, &status));
  INVALID(xrt_cache_default_dir(NULL, &status));
  INVALID(xrt_cache_list_json(NULL, &json, &status));
  INVALID(xrt_cache_list_json("x", NULL, &status));
  INVALID(xrt_cache_clear(NULL, NULL, &status));
  INVALID(xrt_set_log_level(NULL, &status));

  /* Nothing was given out; a status is not needed. */
  CHECK(value == NULL && request == NULL && other == NULL && json == NULL);
  CHECK(xrt_program_run(NULL, NULL, 0, NULL, 0, NULL, NULL) == XRT_ERROR_INVALID_ARGUMENT);
  xrt_options_free(options);
  xrt_program_free(program);
}

static void wrong_tensors(void) {
  float data[6] = {0};
  const int64_t dims[] = {2, 3};
  const int64_t negative[] = {2, -3};
  const int64_t huge[] = {INT64_MAX, INT64_MAX};
  const int64_t large[] = {INT64_MAX / 4, 1};
  xrt_value* value = NULL;
  xrt_tensor tensor = tensor_of(data, dims, 2, sizeof data);
  tensor.size = 8; /* of a structure that no version had */
  INVALID(xrt_value_wrap(&tensor, &value, &status));
  tensor = tensor_of(data, dims, 2, sizeof data - 1);
  INVALID(xrt_value_wrap(&tensor, &value, &status));
  tensor = tensor_of(data, negative, 2, sizeof data);
  INVALID(xrt_value_wrap(&tensor, &value, &status));
  tensor = tensor_of(data, huge, 2, SIZE_MAX);
  INVALID(xrt_value_wrap(&tensor, &value, &status));
  tensor = tensor_of(data, dims, SIZE_MAX, sizeof data);
  INVALID(xrt_value_wrap(&tensor, &value, &status));
  tensor = tensor_of(data, dims, XRT_MAX_RANK + 1, sizeof data);
  INVALID(xrt_value_wrap(&tensor, &value, &status));
  tensor = tensor_of(NULL, dims, 2, sizeof data);
  INVALID(xrt_value_wrap(&tensor, &value, &status));
  tensor = tensor_of((float*)(void*)((char*)data + 1), dims, 1, sizeof data - 1);
  INVALID(xrt_value_wrap(&tensor, &value, &status)); /* not aligned */
  tensor = tensor_of(data, dims, 2, sizeof data);
  tensor.device = "toaster:0";
  INVALID(xrt_value_wrap(&tensor, &value, &status));
  tensor = tensor_of(data, dims, 2, sizeof data);
  tensor.dtype = XRT_STRING;
  INVALID(xrt_value_wrap(&tensor, &value, &status));
  tensor.dtype = 0;
  INVALID(xrt_value_wrap(&tensor, &value, &status));
  tensor.dtype = 27;
  INVALID(xrt_value_wrap(&tensor, &value, &status));
  tensor.dtype = INT32_MIN;
  INVALID(xrt_value_wrap(&tensor, &value, &status));
  INVALID(xrt_value_create(-1, dims, 2, &value, &status));
  INVALID(xrt_value_create(XRT_INT32, huge, 2, &value, &status));
  CHECK_FAILS(XRT_ERROR_RESOURCE, xrt_value_create(XRT_INT8, large, 2, &value, &status));
  CHECK(xrt_dtype_bits(-5) == 0 && strcmp(xrt_dtype_name(99), "") == 0);
  CHECK(value == NULL);
  /* No elements need no memory, rank 0 no dims. */
  {
    const int64_t none[] = {0, 3};
    float one = 1;
    tensor = tensor_of(NULL, none, 2, 0);
    CHECK(xrt_value_wrap(&tensor, &value, NULL) == XRT_OK);
    CHECK(xrt_value_count(value) == 0 && xrt_value_data(value) == NULL);
    xrt_value_free(value);
    tensor = tensor_of(&one, NULL, 0, sizeof one);
    CHECK(xrt_value_wrap(&tensor, &value, NULL) == XRT_OK);
    CHECK(xrt_value_count(value) == 1);
    xrt_value_free(value);
  }
}

static void wrong_items(void) {
  const char* texts[] = {"a", "b"};
  const int64_t dims[] = {2};
  const int64_t three[] = {3};
  xrt_value* strings = NULL;
  xrt_value* numbers = NULL;
  xrt_value* sequence = NULL;
  xrt_value* item = NULL;
  const xrt_value* items[1];
  const char* text = NULL;
  INVALID(xrt_value_create_strings(texts, NULL, 2, three, 1, &strings, &status));
  CHECK(xrt_value_create_strings(texts, NULL, 2, dims, 1, &strings, NULL) == XRT_OK);
  CHECK(xrt_value_create(XRT_INT64, dims, 1, &numbers, NULL) == XRT_OK);
  INVALID(xrt_value_string(strings, 2, &text, NULL, &status));
  INVALID(xrt_value_string(numbers, 0, &text, NULL, &status));
  INVALID(xrt_value_item(numbers, 0, &item, &status));
  items[0] = numbers;
  INVALID(xrt_value_create_sequence(XRT_FLOAT32, items, 1, &sequence, &status));
  CHECK(xrt_value_create_sequence(XRT_INT64, items, 1, &sequence, NULL) == XRT_OK);
  INVALID(xrt_value_item(sequence, 1, &item, &status));
  INVALID(xrt_value_item(sequence, SIZE_MAX, &item, &status));
  xrt_value_free(sequence);
  xrt_value_free(numbers);
  xrt_value_free(strings);
}

static void wrong_runs(void) {
  xrt_program* program = capi_load("relu");
  float data[6] = {0};
  double wide[6] = {0};
  const int64_t dims[] = {2, 3};
  const int64_t other[] = {3, 2};
  const int64_t small[] = {1, 3};
  const char* unknown = "nothing";
  const char* input_name = "x";
  const char* twice[] = {"y", "y"};
  xrt_value* x = NULL;
  xrt_value* wrong = NULL;
  xrt_value* outputs[2] = {NULL, NULL};
  const xrt_value* inputs[2] = {NULL, NULL};
  xrt_run_options options = {0};
  xrt_port port = {0};
  xrt_tensor tensor = tensor_of(data, dims, 2, sizeof data);
  CHECK(xrt_value_wrap(&tensor, &x, NULL) == XRT_OK);
  inputs[0] = inputs[1] = x;
  INVALID(xrt_program_run(program, inputs, 0, outputs, 1, NULL, &status));
  INVALID(xrt_program_run(program, inputs, 2, outputs, 1, NULL, &status));
  INVALID(xrt_program_run(program, inputs, 1, outputs, 0, NULL, &status));
  INVALID(xrt_program_run(program, inputs, 1, outputs, 2, NULL, &status));
  INVALID(xrt_program_run(program, inputs, 1, outputs, 1, &options, &status)); /* size 0 */
  options.size = sizeof options;
  options.results = 17;
  INVALID(xrt_program_run(program, inputs, 1, outputs, 1, &options, &status));
  options.results = XRT_RESULTS_DEVICE; /* the program's device is the host */
  INVALID(xrt_program_run(program, inputs, 1, outputs, 1, &options, &status));
  options.results = XRT_RESULTS_HOST;
  options.timeout_s = -1;
  INVALID(xrt_program_run(program, inputs, 1, outputs, 1, &options, &status));
  options.size = offsetof(xrt_run_options, timeout_s); /* a caller of the first version */
  CHECK(xrt_program_run(program, inputs, 1, outputs, 1, &options, NULL) == XRT_OK);
  xrt_value_free(outputs[0]);
  outputs[0] = NULL;
  INVALID(xrt_program_run_named(program, &unknown, inputs, 1, twice, outputs, 1, NULL, &status));
  INVALID(
      xrt_program_run_named(program, &input_name, inputs, 1, &unknown, outputs, 1, NULL, &status));
  INVALID(xrt_program_run_named(program, &input_name, inputs, 1, twice, outputs, 2, NULL, &status));
  INVALID(xrt_program_input(program, 1, &port, &status));
  port.size = sizeof port;
  INVALID(xrt_program_input(program, 1, &port, &status));
  INVALID(xrt_program_output(program, SIZE_MAX, &port, &status));

  /* An input of another shape and of another dtype. */
  tensor = tensor_of(data, other, 2, sizeof data);
  CHECK(xrt_value_wrap(&tensor, &wrong, NULL) == XRT_OK);
  inputs[0] = wrong;
  INVALID(xrt_program_run(program, inputs, 1, outputs, 1, NULL, &status));
  inputs[0] = x;
  /* An output of another shape: nothing is written beyond it. */
  outputs[0] = wrong;
  INVALID(xrt_program_run(program, inputs, 1, outputs, 1, NULL, &status));
  CHECK(outputs[0] == wrong);
  xrt_value_free(wrong);
  CHECK(xrt_value_create(XRT_FLOAT32, small, 2, &wrong, NULL) == XRT_OK);
  outputs[0] = wrong;
  INVALID(xrt_program_run(program, inputs, 1, outputs, 1, NULL, &status));
  xrt_value_free(wrong);
  tensor = tensor_of((float*)(void*)wide, dims, 2, sizeof wide);
  tensor.dtype = XRT_FLOAT64;
  CHECK(xrt_value_wrap(&tensor, &wrong, NULL) == XRT_OK);
  outputs[0] = wrong;
  INVALID(xrt_program_run(program, inputs, 1, outputs, 1, NULL, &status));
  outputs[0] = NULL;
  inputs[0] = wrong;
  INVALID(xrt_program_run(program, inputs, 1, outputs, 1, NULL, &status));
  CHECK(outputs[0] == NULL);
  xrt_value_free(wrong);

  /* A device that is not the program's: its memory is not touched. */
  tensor = tensor_of(data, dims, 2, sizeof data);
  tensor.device = "cuda:0";
  CHECK(xrt_value_wrap(&tensor, &wrong, NULL) == XRT_OK);
  CHECK(strcmp(xrt_value_device(wrong), "cuda:0") == 0);
  inputs[0] = wrong;
  INVALID(xrt_program_run(program, inputs, 1, outputs, 1, NULL, &status));
  xrt_value_free(wrong);

  /* A result asked for with a wrong count. */
  {
    xrt_request* request = NULL;
    inputs[0] = x;
    CHECK(xrt_program_submit(program, inputs, 1, NULL, 0, NULL, NULL, NULL, &request, NULL) ==
          XRT_OK);
    INVALID(xrt_request_result(request, outputs, 2, &status));
    INVALID(xrt_request_result(request, NULL, 1, &status));
    xrt_request_free(request);
    INVALID(xrt_program_submit(program, inputs, 2, NULL, 0, NULL, NULL, NULL, &request, &status));
  }
  xrt_value_free(x);
  xrt_program_free(program);
}

static void damaged_models(void) {
  size_t size = 0;
  const char* model = (const char*)capi_model("add", &size);
  size_t length;
  xrt_program* program = NULL;
  xrt_options* options = NULL;
  xrt_status* status = NULL;
  int refused = 0;
  CHECK(xrt_options_create(&options, NULL) == XRT_OK);
  CHECK(xrt_options_set(options, "engine", "native", NULL) == XRT_OK);
  for (length = 0; length < size; ++length) {
    xrt_code code = xrt_program_load_bytes(model, length, options, &program, &status);
    if (code == XRT_OK) { /* what is missing was no part of the graph */
      xrt_program_free(program);
      program = NULL;
      continue;
    }
    ++refused;
    CHECK(code == XRT_ERROR_INVALID_MODEL || code == XRT_ERROR_UNSUPPORTED);
    CHECK(program == NULL && xrt_status_message(status)[0] != '\0');
    xrt_status_free(status);
  }
  CHECK(refused > (int)size / 2);
  xrt_options_free(options);
  CHECK_FAILS(XRT_ERROR_NOT_FOUND,
              xrt_program_load("/no/such/model.onnx", NULL, &program, &status));
}

static void wrong_options(void) {
  size_t size = 0;
  const void* bytes = capi_model("relu", &size);
  xrt_options* options = NULL;
  xrt_program* program = NULL;
  const char* latin1 =
      "pr\xE9"
      "cision";
  CHECK(xrt_options_create(&options, NULL) == XRT_OK);
  INVALID(xrt_options_set(options, "stric", "true", &status));
  INVALID(xrt_options_set(options, "", "true", &status));
  INVALID(xrt_options_set(options, latin1, "f32", &status));
  INVALID(xrt_options_set(options, "strict", latin1, &status));
  INVALID(xrt_options_set(options, "max_specializations", "99999999999999999999", &status));
  INVALID(xrt_options_set(options, "num_threads", "-1", &status));
  INVALID(xrt_options_set(options, "engine", "native,,openvino", &status));
  INVALID(xrt_options_set(options, "shapes", "x", &status));
  INVALID(xrt_options_set(options, "ranges", "n=", &status));
  CHECK(xrt_options_set_engine(options, "native", "no_such_option", "1", NULL) == XRT_OK);
  INVALID(xrt_program_load_bytes(bytes, size, options, &program, &status));
  xrt_options_free(options);
  CHECK(xrt_options_create(&options, NULL) == XRT_OK);
  CHECK(xrt_options_set(options, "engine", "no_such_engine", NULL) == XRT_OK);
  CHECK_FAILS(XRT_ERROR_NOT_FOUND, xrt_program_load_bytes(bytes, size, options, &program, &status));
  xrt_options_free(options);
  CHECK(xrt_options_create(&options, NULL) == XRT_OK);
  CHECK(xrt_options_set_node(options, latin1, "native", NULL) == XRT_OK);
  INVALID(xrt_program_load_bytes(bytes, size, options, &program, &status));
  xrt_options_free(options);
  INVALID(xrt_set_thread_budget(0, &status));
  INVALID(xrt_set_thread_budget(1000000, &status));
  INVALID(xrt_set_log_level("loud", &status));
  INVALID(xrt_set_log_level(latin1, &status));
  CHECK(program == NULL);
}

static void names_that_are_no_utf8(void) {
  xrt_program* program = capi_load("bytes");
  char* json = NULL;
  xrt_port port = {0};
  port.size = sizeof port;
  CHECK(xrt_program_input(program, 0, &port, NULL) == XRT_OK);
  CHECK(strcmp(port.name, "x\\xff") == 0);
  CHECK(xrt_program_explain_json(program, &json, NULL) == XRT_OK);
  CHECK(strstr(json, "x\\\\xff") != NULL && strchr(json, '\xFF') == NULL);
  xrt_text_free(json);
  xrt_program_free(program);
}

const capi_case capi_hostile[] = {
    {"NullHandlesAreFreed", null_handles_are_freed},
    {"NullIsAsked", null_is_asked},
    {"NullEverywhere", null_everywhere},
    {"WrongTensors", wrong_tensors},
    {"WrongItems", wrong_items},
    {"WrongRuns", wrong_runs},
    {"DamagedModels", damaged_models},
    {"WrongOptions", wrong_options},
    {"NamesThatAreNoUtf8", names_that_are_no_utf8},
    {NULL, NULL},
};
