// SPDX-License-Identifier: Apache-2.0
#include "xrt/error.h"

namespace xrt {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kInvalidModel:
      return "invalid_model";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kEngine:
      return "engine";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kResource:
      return "resource";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

}  // namespace xrt
