/* SPDX-License-Identifier: Apache-2.0
 * Status codes as sentences. */
#include "xrt_lite.h"

const char* xrt_lite_message(xrt_lite_status status) {
  static const char* const messages[] = {
      "ok",
      "an argument is null, out of range, or a buffer's size is not the port's",
      "not a model file, or one that is truncated or inconsistent",
      "the file's format is newer than this runtime",
      "the content of the file does not match its checksum",
      "there is not enough memory",
      "the file needs a driver that is not registered",
      "a driver lacks a kernel that the file needs",
      "an input or output has no buffer",
      "a device or its library failed",
      "an index in the data lies outside the table",
      "a file cannot be opened, read or mapped",
      "the device, or the library to reach it, is not on this machine"};
  if ((unsigned)status >= sizeof(messages) / sizeof(messages[0])) return "unknown status";
  return messages[status];
}
