// SPDX-License-Identifier: Apache-2.0
// Version, statuses and texts of the C API.
#include "capi/border.h"

#include <cstdlib>
#include <cstring>

#include "base/message.h"
#include "xrt/version.h"

namespace {

using xrt::ErrorCode;

constexpr bool same(ErrorCode code, xrt_code number) { return xrt::capi::code_of(code) == number; }
static_assert(same(ErrorCode::kInvalidArgument, XRT_ERROR_INVALID_ARGUMENT));
static_assert(same(ErrorCode::kInvalidModel, XRT_ERROR_INVALID_MODEL));
static_assert(same(ErrorCode::kUnsupported, XRT_ERROR_UNSUPPORTED));
static_assert(same(ErrorCode::kNotFound, XRT_ERROR_NOT_FOUND));
static_assert(same(ErrorCode::kEngine, XRT_ERROR_ENGINE));
static_assert(same(ErrorCode::kIo, XRT_ERROR_IO));
static_assert(same(ErrorCode::kResource, XRT_ERROR_RESOURCE));
static_assert(same(ErrorCode::kInternal, XRT_ERROR_INTERNAL));

}  // namespace

namespace xrt::capi {

xrt_code fail(xrt_status** status, xrt_code code, const char* message) noexcept {
  if (status == nullptr) return code;
  try {
    *status = new xrt_status{code, told(message)};
  } catch (const std::bad_alloc&) {
    *status = nullptr;
  }
  return code;
}

char* copy_text(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace xrt::capi

// xrt::version() is a string literal's.
const char* xrt_version(void) { return xrt::version().data(); }

xrt_code xrt_status_code(const xrt_status* status) {
  return status == nullptr ? XRT_OK : status->code;
}

const char* xrt_status_message(const xrt_status* status) {
  return status == nullptr ? "" : status->message.c_str();
}

void xrt_status_free(xrt_status* status) { delete status; }

const char* xrt_code_name(xrt_code code) {
  if (code == XRT_OK) return "ok";
  if (code < XRT_OK || code > XRT_ERROR_INTERNAL) code = XRT_ERROR_INTERNAL;
  return to_string(static_cast<ErrorCode>(code - 1)).data();
}

void xrt_text_free(char* text) { std::free(text); }
