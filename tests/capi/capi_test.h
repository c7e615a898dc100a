/* SPDX-License-Identifier: Apache-2.0
 * What the cases in C and the program that runs them share. */
#ifndef XRT_TESTS_CAPI_TEST_H_
#define XRT_TESTS_CAPI_TEST_H_

#include <stddef.h>

#include "xrt/xrt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct capi_case {
  const char* name;
  void (*run)(void);
} capi_case;

extern const capi_case capi_cases[];   /* cases.c; ends with null */
extern const capi_case capi_hostile[]; /* hostile.c; ends with null */

/* A failure at that place. */
void capi_fail(const char* file, int line, const char* text);

/* A small model as ONNX, by name; it lives as long as the program.
 *   "add"       sum float32[N,3] = a float32[N,3] + b float32[N,3]; b is 1 where it is left out
 *   "relu"      y float32[2,3] = max(x float32[2,3], 0)
 *   "strings"   same string[N] = x string[N]
 *   "sequence"  second float32[2], whole seq(float32[2]) of the two inputs a and b float32[2]
 *   "bytes"     as relu, with node and values of names that are no UTF-8 */
const void* capi_model(const char* name, size_t* size);

/* A folder that is empty when the program begins. */
const char* capi_folder(void);

/* The program of a model on the native engine; a failure and null where there is none. */
xrt_program* capi_load(const char* model);

#define CHECK(condition)                                         \
  do {                                                           \
    if (!(condition)) capi_fail(__FILE__, __LINE__, #condition); \
  } while (0)

/* `call` has `status` as its last argument; it fails with that code and a text. */
#define CHECK_FAILS(wanted, call)                 \
  do {                                            \
    xrt_status* status = NULL;                    \
    CHECK((call) == (wanted));                    \
    CHECK(xrt_status_code(status) == (wanted));   \
    CHECK(xrt_status_message(status)[0] != '\0'); \
    xrt_status_free(status);                      \
  } while (0)

#ifdef __cplusplus
}
#endif
#endif /* XRT_TESTS_CAPI_TEST_H_ */
