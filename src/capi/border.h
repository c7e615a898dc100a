// SPDX-License-Identifier: Apache-2.0
// What the functions of xrt/xrt.h share: the structures behind the handles, and the border that no
// exception crosses.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "xrt/error.h"
#include "xrt/options.h"
#include "xrt/tensor.h"
#include "xrt/xrt.h"

struct xrt_status {
  xrt_code code = XRT_OK;
  std::string message;
};

struct xrt_value {
  xrt::Data data;
  std::string device;  // what xrt_value_device() gives out
};

struct xrt_options {
  xrt::ProgramOptions options;
};

namespace xrt::capi {

// 0 is success, so that codes begin with 1.
constexpr xrt_code code_of(ErrorCode code) { return static_cast<xrt_code>(code) + 1; }

// Records a failure. Where there is no memory for the text, *status is null.
xrt_code fail(xrt_status** status, xrt_code code, const char* message) noexcept;

// Runs `body` and turns what it throws into a code and a status.
template <typename Body>
xrt_code guarded(xrt_status** status, Body&& body) noexcept {
  if (status != nullptr) *status = nullptr;
  try {
    std::forward<Body>(body)();
    return XRT_OK;
  } catch (const Error& error) {
    return fail(status, code_of(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return fail(status, XRT_ERROR_RESOURCE, "out of memory");
  } catch (const std::exception& error) {
    return fail(status, XRT_ERROR_INTERNAL, error.what());
  } catch (...) {
    return fail(status, XRT_ERROR_INTERNAL, "an exception of unknown type");
  }
}

// kInvalidArgument where a pointer that has to be there is null. It comes before the result is
// made:
// `*need(p) = make()` would call make() first.
template <typename T>
T* need(T* pointer, const char* name) {
  if (pointer == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, std::string(name) + " is null");
  }
  return pointer;
}

// `count` may be anything where the array is there; none is needed for 0.
template <typename T>
T* need_array(T* pointer, std::size_t count, const char* name) {
  return count == 0 ? pointer : need(pointer, name);
}

// A structure of the caller is at least as long as the first version of it.
inline void check_size(std::size_t given, std::size_t least, const char* name) {
  if (given >= least) return;
  throw Error(ErrorCode::kInvalidArgument, std::string(name) + ".size is " + std::to_string(given) +
                                               "; sizeof(" + name + "), " + std::to_string(least) +
                                               ", is wanted");
}

// A copy that xrt_text_free() frees.
char* copy_text(const std::string& text);

// A new handle; the tensor's device as text goes with it.
xrt_value* new_value(Data data);

}  // namespace xrt::capi
