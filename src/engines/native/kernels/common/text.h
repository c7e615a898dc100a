// SPDX-License-Identifier: Apache-2.0
// Copies of elements, of which strings count in the run's bound on memory: no shape tells how many
// characters there are, and one that is repeated a million times comes from a short file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/work_scope.h"

namespace xrt::native {

template <typename T>
void assign_element(T& to, const T& from) {
  if constexpr (std::is_same_v<T, std::string>) WorkScope::charge_characters(from.size());
  to = from;
}

template <typename T>
void assign_elements(const T* from, std::int64_t count, T* to) {
  if constexpr (std::is_same_v<T, std::string>) {
    for (std::int64_t i = 0; i < count; ++i) assign_element(to[i], from[i]);
  } else {
    std::copy_n(from, count, to);
  }
}

template <typename T>
void fill_elements(T* to, std::int64_t count, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    for (std::int64_t i = 0; i < count; ++i) assign_element(to[i], value);
  } else {
    std::fill_n(to, count, value);
  }
}

}  // namespace xrt::native
