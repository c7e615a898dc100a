// SPDX-License-Identifier: Apache-2.0
// The lite compiler's own form of a graph: ops that are one kernel each, on values whose order in
// memory is still open.
//
// A value has logical dimensions, as ONNX means them, and an `order`: which logical dimension
// comes first in memory, which next, … . Transposes, and reshapes that keep elements in their
// places, are views: another name for the same storage.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "kernel.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt::lite {

using Order = std::vector<int>;

struct LValue {
  std::string name;
  DType dtype = DType::kUndefined;
  Dims dims;
  Tensor constant;  // defined(): a constant, in row-major order
  Order order;      // set by assign_layout
  int input = -1;   // index among the model's inputs
  bool is_constant() const { return constant.defined(); }
  std::int64_t count() const { return element_count(dims); }
};

// What follows the sum of products, in the kernel.
struct Epilogue {
  bool clip = false;
  float lo = -std::numeric_limits<float>::infinity();
  float hi = std::numeric_limits<float>::infinity();
};

// Of an int8 kernel; the scale per output channel is x_scale * w_scale[c] / y_scale.
struct Quantized {
  bool on = false;
  int x_zero = 0, y_zero = 0, r_zero = 0;
  float x_scale = 1, y_scale = 1, r_scale = 1;  // as the model says
  std::vector<float> w_scales;                  // one, or one per output channel
};

// Of a kernel that slides over an image; images of one dimension are of height 1.
struct Window {
  int kh = 1, kw = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
};

// x [N,C,H,W] (or [N,C,L]); weights [O,C/groups,kh,kw] constant; bias float32[O] constant or int32.
struct LConv : Window {
  int x = -1, residual = -1;
  Tensor weights, bias;
  int groups = 1;
  Epilogue epilogue;
  Quantized q;
};

// y = a @ b * alpha + bias + residual; batch dimensions broadcast as MatMul's. Where b is a
// constant it may be transposed (Gemm).
struct LGemm {
  int a = -1, b = -1, residual = -1;
  bool transpose_a = false, transpose_b = false;
  float alpha = 1;
  Tensor bias;  // float32[n] (int32[n] where quantised) or none
  Epilogue epilogue;
  Quantized q;
};

struct LPool : Window {
  int x = -1;
  xrt_pool_kind kind = XRT_POOL_MAX;
  bool count_include_pad = false;
};

// A pointwise expression in SSA form; the last entry is the result.
struct EwNode {
  enum class Kind : std::uint8_t { kInput, kConst, kOp } kind = Kind::kOp;
  int input = -1;    // index into LEw::inputs
  double value = 0;  // kConst
  xrt_ew_op op = XRT_EW_ADD;
  int a = -1, b = -1, c = -1;  // entries; SELECT: c ? a : b
};
struct LEw {
  std::vector<int> inputs;  // values, broadcast to the output by ONNX's rule
  std::vector<EwNode> nodes;
  bool integer = false;  // computed in int64
};

struct LView {
  enum class Kind : std::uint8_t { kReshape, kTranspose } kind = Kind::kReshape;
  int x = -1;
  std::vector<int> perm;  // kTranspose
};

// A region of x to a region of y: y[y_start + i] = x[x_start + i * x_step], i over `size`. With
// size[d] > 1 and x_step[d] == 0 an element is repeated.
struct CopyPiece {
  int x = -1;
  std::vector<std::int64_t> x_start, x_step, y_start, size;
};
struct LCopy {
  std::vector<CopyPiece> pieces;
  bool fill = false;  // y is filled first
  std::uint64_t fill_bits = 0;
};

struct LReduce {
  int x = -1;
  xrt_reduce_kind kind = XRT_REDUCE_SUM;
  std::vector<int> axes;
  bool keep_dims = true;
};
struct LSoftmax {
  int x = -1, axis = 0;
  bool log = false;
};
// Normalises the dimensions from `axis` on.
struct LNorm {
  int x = -1, axis = 0;
  Tensor scale, bias;
  float epsilon = 1e-5F;
};
struct LGather {
  int x = -1, indices = -1, axis = 0;
};
struct LResize {
  int x = -1;
  bool linear = false, half_pixel = true;
  float scale_h = 1, scale_w = 1;  // input over output
};
struct LArg {
  int x = -1, axis = 0;
  bool minimum = false;
};

using LKind = std::variant<LConv, LGemm, LPool, LEw, LView, LCopy, LReduce, LSoftmax, LNorm,
                           LGather, LResize, LArg>;

struct LOp {
  std::string name;
  LKind kind;
  int y = -1;
  bool dead = false;
};

struct LGraph {
  std::string name;
  std::vector<LValue> values;
  std::vector<LOp> ops;  // in an order in which they can run
  std::vector<int> inputs, outputs;
  std::vector<std::string> output_names;
  int add_value(std::string value_name, DType dtype, Dims dims) {
    values.push_back({std::move(value_name), dtype, std::move(dims), {}, {}, -1});
    return static_cast<int>(values.size()) - 1;
  }
};

// Values an op reads that are not part of it as tensors.
std::vector<int> reads(const LOp& op);

// --- the steps ----------------------------------------------------------------------------------
// A graph with static shapes, after the standard passes. Throws kUnsupported naming a node that no
// kernel computes.
LGraph lower(const Graph& graph);
// Pointwise ops into the sums before them, into each other; views that do nothing drop out.
void fuse(LGraph& graph);
// Orders in memory; adds copies where a kernel needs another order than a value has.
void assign_layout(LGraph& graph);

}  // namespace xrt::lite
