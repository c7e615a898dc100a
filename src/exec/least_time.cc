// SPDX-License-Identifier: Apache-2.0
#include "exec/least_time.h"

#include <fmt/format.h>

#include "base/work_scope.h"
#include "partition/cost.h"
#include "xrt/error.h"

namespace xrt {

LeastTime least_time(const Graph& function, bool narrow, int threads) {
  // Multiplications and additions a second, above what a core does: of float32 with AVX-512, of
  // bytes and half precision with AMX; elements of windows that are compared or added.
  constexpr double kFloat32 = 2.5e11;
  constexpr double kNarrow = 16 * kFloat32;
  constexpr double kElements = 4e10;
  LeastTime least;
  double most = 0;
  for (const NodeId id : function.nodes()) {
    const Node& node = function.node(id);
    const NodeWork work = node_work(function, id);
    const bool is_float32 = !narrow && !work.quantised && node.input(0).valid() &&
                            function.type(node.input(0)).dtype == DType::kFloat32;
    double speed = is_float32 ? kFloat32 : kNarrow;
    if (work.kind == WorkKind::kElements) speed = kElements;
    const double seconds = work.operations / (speed * threads);
    least.seconds += seconds;
    if (seconds <= most) continue;
    most = seconds;
    least.node = fmt::format("node '{}' ({})", node.name, node.qualified_op());
  }
  return least;
}

void check_least_time(const LeastTime& least) {
  if (least.seconds < 1) return;
  const RunLimit* limit = WorkScope::time_limit();
  if (limit == nullptr || limit->left() >= least.seconds) return;
  throw Error(ErrorCode::kResource,
              fmt::format("its arithmetic, most of it of {}, takes {:.0f} s at least; of the limit "
                          "of {:g} s are left {:.1f}",
                          least.node, least.seconds, limit->seconds(), limit->left()));
}

}  // namespace xrt
