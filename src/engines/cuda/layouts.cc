// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/layouts.h"

namespace xrt::cuda {

std::vector<std::size_t> channels_last(std::size_t rank) {
  std::vector<std::size_t> order{0};
  for (std::size_t i = 2; i < rank; ++i) order.push_back(i);
  order.push_back(1);
  return order;
}

bool lies_in_order(const View& view, const std::vector<std::size_t>& order) {
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    if (view.dims[order[i]] != 1 && view.strides[order[i]] != stride) return false;
    stride *= view.dims[order[i]];
  }
  return true;
}

View in_order(View view, const std::vector<std::size_t>& order) {
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    view.strides[order[i]] = stride;
    stride *= view.dims[order[i]];
  }
  return view;
}

View brought_to(Planner& planner, const View& from, const std::vector<std::size_t>& order) {
  if (lies_in_order(from, order)) return in_order(from, order);
  const View made = planner.temporary(from.dtype, from.dims, order);
  planner.copy("a layout for " + planner.what(), from, made);
  return made;
}

}  // namespace xrt::cuda
