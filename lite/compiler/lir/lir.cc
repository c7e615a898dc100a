// SPDX-License-Identifier: Apache-2.0
#include "lir/lir.h"

namespace xrt::lite {
namespace {

// Calls visit(int&) for each value that the op reads.
template <typename Op, typename Visit>
void each_read(Op& op, Visit&& visit) {
  std::visit(
      [&](auto& k) {
        using T = std::decay_t<decltype(k)>;
        if constexpr (std::is_same_v<T, LConv>) {
          visit(k.x), visit(k.residual);
        } else if constexpr (std::is_same_v<T, LGemm>) {
          visit(k.a), visit(k.b), visit(k.residual);
        } else if constexpr (std::is_same_v<T, LEw>) {
          for (auto& v : k.inputs) visit(v);
        } else if constexpr (std::is_same_v<T, LCopy>) {
          for (auto& p : k.pieces) visit(p.x);
        } else if constexpr (std::is_same_v<T, LGather>) {
          visit(k.x), visit(k.indices);
        } else {
          visit(k.x);
        }
      },
      op.kind);
}

}  // namespace

std::vector<int> reads(const LOp& op) {
  std::vector<int> result;
  each_read(op, [&](const int& v) {
    if (v >= 0) result.push_back(v);
  });
  return result;
}

}  // namespace xrt::lite
