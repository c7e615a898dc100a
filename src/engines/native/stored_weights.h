// SPDX-License-Identifier: Apache-2.0
// The weights that the kernels of one step packed when a function was compiled, as they come back
// from a blob: a kernel that is made anew asks for them in the order in which it packed them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/flat.h"
#include "xrt/error.h"
#include "xrt/tensor.h"

namespace xrt::native {

class StoredWeights {
 public:
  explicit StoredWeights(FlatReader& reader) {
    for (std::size_t n = reader.count(); n-- > 0;) {
      std::string layout = reader.text();
      items_.emplace_back(std::move(layout), reader.bytes());
    }
  }

  // True: the kernel saved none, its constants are whole.
  bool empty() const { return items_.empty(); }

  // Bytes of the next ones; 0 where there are no more.
  std::size_t next_bytes() const {
    return next_ < items_.size() ? items_[next_].second.bytes() : 0;
  }

  // The next ones: uint8, of `bytes` bytes. kEngine where the layout differs from the one wanted:
  // then this blob is of no use here.
  Tensor take(std::string_view layout, std::size_t bytes) {
    if (next_ >= items_.size() || items_[next_].first != layout ||
        items_[next_].second.bytes() != bytes) {
      throw Error(ErrorCode::kEngine, "the stored weights have another layout than oneDNN wants");
    }
    return items_[next_++].second;
  }

 private:
  std::vector<std::pair<std::string, Tensor>> items_;  // layout, elements
  std::size_t next_ = 0;
};

}  // namespace xrt::native
