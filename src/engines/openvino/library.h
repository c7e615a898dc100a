// SPDX-License-Identifier: Apache-2.0
// The OpenVINO library: its one Core, its version, and its errors as ours.
#pragma once

#include <memory>
#include <openvino/runtime/core.hpp>
#include <string>

#include "xrt/error.h"

namespace xrt::openvino {

// The first lines of an OpenVINO message that say something: it opens with the place in OpenVINO's
// own sources, which tells a user nothing.
std::string readable(const std::string& message);

// "2026.4.1-22106-…"
std::string library_version();
// Path of the libopenvino that this process has loaded.
std::string library_location();

// Runs `call`; whatever it throws that is not ours becomes Error(kEngine) starting with `place`.
template <typename Call>
auto translated(const std::string& place, Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kResource, place + ": out of memory");
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kEngine, place + ": " + readable(error.what()));
  }
}

}  // namespace xrt::openvino
