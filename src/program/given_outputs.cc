// SPDX-License-Identifier: Apache-2.0
#include "program/given_outputs.h"

#include <utility>

namespace xrt {

void write_given(const std::vector<Data>& given, std::vector<Data>& outputs) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].is_tensor() || !outputs[i].is_tensor()) continue;
    Tensor target = given[i].tensor();
    const Tensor& made = std::as_const(outputs[i]).tensor();
    if (made.raw() == target.raw()) continue;
    copy_elements(made, target);
    outputs[i] = given[i];
  }
}

}  // namespace xrt
