// SPDX-License-Identifier: Apache-2.0
// What goes wrong in a worker, as it crosses to the other process.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "xrt/error.h"

namespace xrt {

struct Failure {
  std::uint32_t code = 0;  // 0: none; else an ErrorCode and one
  std::string cause;
};

// Does the work. Engines come from anywhere, and may throw what is no std::exception.
template <typename Work>
Failure failure_of(Work&& work) {
  const auto failed = [](ErrorCode code, std::string cause) {
    return Failure{static_cast<std::uint32_t>(code) + 1, std::move(cause)};
  };
  try {
    std::forward<Work>(work)();
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return failed(ErrorCode::kResource, "there is no memory left in its worker");
  } catch (const std::exception& error) {
    return failed(ErrorCode::kEngine, error.what());
  } catch (...) {
    return failed(ErrorCode::kEngine, "it threw something that is no std::exception");
  }
  return {};
}

}  // namespace xrt
