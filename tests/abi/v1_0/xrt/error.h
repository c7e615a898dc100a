// SPDX-License-Identifier: Apache-2.0
// Errors of the public API.
//
// Every failure that a caller can meet is an `xrt::Error`: a code for programs, a message for
// people. The message names the place (file, node, op, value), what was found, what was wanted and
// what to do. Vendor exceptions and status codes are turned into `xrt::Error` inside the engine's
// own folder and never cross it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "xrt/export.h"

namespace xrt {

enum class ErrorCode {
  kInvalidArgument,  // the caller passed something wrong: name, dtype, shape, option
  kInvalidModel,     // a model, cache entry or text is malformed or breaks a rule
  kUnsupported,      // well-formed, but no permitted engine can do it
  kNotFound,         // a file, engine or entry is missing
  kEngine,           // an engine's library failed: load, compile or run
  kIo,               // the operating system refused: read, write, map, lock
  kResource,         // out of memory, or a bound was reached
  kInternal,         // a rule of ours was broken: please report
};

// "invalid_argument", "invalid_model", …
XRT_API std::string_view to_string(ErrorCode code);

class XRT_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace xrt
