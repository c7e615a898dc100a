// SPDX-License-Identifier: Apache-2.0
// The name of an op as a template argument: handlers that differ in it alone.
#pragma once

#include <cstddef>

namespace xrt::oneflow {

template <std::size_t N>
struct OpName {
  constexpr OpName(const char (&text)[N]) {  // NOLINT(google-explicit-constructor)
    for (std::size_t i = 0; i < N; ++i) value[i] = text[i];
  }
  char value[N] = {};
};

}  // namespace xrt::oneflow
