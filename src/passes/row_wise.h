// SPDX-License-Identifier: Apache-2.0
// Whether a graph computes each row of a dimension by itself: then rows may be added to the inputs
// and cut from the outputs, and the other results stay what they are.
//
//   y = Softmax(MatMul(x, w), axis=-1)    x: [batch, 8]     row-wise in batch
//   y = x - ReduceMean(x, axes=[0])       x: [batch, 8]     not: every row reads all rows
//
// It is a proof, not a guess: an op that this file does not know, or that it knows for other axes,
// ends it with a reason. Values that depend on the number of rows (Shape) may say how large another
// value becomes, and nothing else.
#pragma once

#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

struct RowWise {
  std::vector<int> output_axes;  // by graph output: the axis of the rows; -1: it has none
  std::string why_not;           // not empty: the graph is not row-wise
  explicit operator bool() const { return why_not.empty(); }
};

// `dimension`: the symbol that marks the rows in the types of the inputs. Types are inferred.
XRT_API RowWise row_wise(const Graph& graph, const std::string& dimension);

}  // namespace xrt
