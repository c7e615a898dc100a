// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/common/byte_panels.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "engines/native/context.h"
#include "engines/native/kernels/vector/panels.h"

namespace xrt::native {

std::int64_t whole_panels(std::int64_t columns) {
  const std::int64_t panel = panel_ops().panel;
  return (columns + panel - 1) / panel * panel;
}

BytePanels::BytePanels(const void* weights, DType dtype, std::int64_t columns, std::int64_t depth)
    : depth_(depth), columns_(whole_panels(columns)), sums_(static_cast<std::size_t>(columns_)) {
  const std::int64_t panel = panel_ops().panel;
  lowest_.resize(static_cast<std::size_t>(columns_ / panel));
  panels_ = allocate_checked(DType::kInt8, {columns_, quads(), 4});
  auto* to = panels_.data<std::int8_t>();
  std::fill_n(to, panels_.count(), std::int8_t{0});
  const auto* from = static_cast<const std::uint8_t*>(weights);
  const std::uint8_t flip = dtype == DType::kUInt8 ? 128 : 0;  // less 128, as int8
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto w = static_cast<std::int8_t>(from[k * columns + j] ^ flip);
      to[(j / panel * quads() + k / 4) * panel * 4 + j % panel * 4 + k % 4] = w;
      sums_[static_cast<std::size_t>(j)] += w;
      if (w == -128) lowest_[static_cast<std::size_t>(j / panel)] = 1;
    }
  }
}

const std::int8_t* BytePanels::panel(std::int64_t p) const {
  return panels_.data<std::int8_t>() + p * panel_ops().panel * 4 * quads();
}

std::shared_ptr<const void> shared_packing(const Tensor& source, const std::string& kind,
                                           const std::function<std::shared_ptr<void>()>& make) {
  struct Entry {
    std::weak_ptr<const void> source, packed;
  };
  static std::mutex mutex;
  static std::map<std::pair<const void*, std::string>, Entry> entries;
  const std::lock_guard lock(mutex);
  std::erase_if(entries, [](const auto& entry) { return entry.second.packed.expired(); });
  Entry& entry = entries[{source.raw(), kind}];
  // Memory that another tensor has now is none of the one that was packed.
  const bool same =
      !entry.source.owner_before(source.owner()) && !source.owner().owner_before(entry.source);
  if (auto packed = entry.packed.lock(); packed != nullptr && same) return packed;
  std::shared_ptr<const void> packed = make();
  entry = {source.owner(), packed};
  return packed;
}

}  // namespace xrt::native
