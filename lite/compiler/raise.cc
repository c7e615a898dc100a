// SPDX-License-Identifier: Apache-2.0
#include "raise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

#include "lir/ew_ops.h"
#include "xrt/error.h"

namespace xrt::lite {
namespace {

using Ints = std::vector<std::int64_t>;

// A strided walk that visits the elements of a dense block once each, in some order of its
// dimensions; those with stride 0 are repeated.
struct Walk {
  Ints dims;               // as the op names them; 1 where repeated
  Ints memory_dims;        // in memory, outermost first, without those of size 1
  std::vector<int> order;  // memory dimension -> dimension of dims
  std::int64_t count = 1;
};

std::optional<Walk> dense_walk(const Ints& dims, const Ints& strides) {
  Walk w;
  w.dims = dims;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (strides[d] == 0) w.dims[d] = 1;
    if (w.dims[d] > 1) w.order.push_back(static_cast<int>(d));
  }
  std::sort(w.order.begin(), w.order.end(), [&](int a, int b) {
    return strides[static_cast<std::size_t>(a)] > strides[static_cast<std::size_t>(b)];
  });
  for (auto at = w.order.rbegin(); at != w.order.rend(); ++at) {
    const auto d = static_cast<std::size_t>(*at);
    if (strides[d] != w.count) return {};
    w.count *= dims[d];
  }
  for (const int d : w.order) w.memory_dims.push_back(dims[static_cast<std::size_t>(d)]);
  return w;
}

Ints row_major(const Ints& dims) {
  Ints strides(dims.size());
  std::int64_t step = 1;
  for (std::size_t d = dims.size(); d-- > 0;) strides[d] = step, step *= dims[d];
  return strides;
}

template <std::size_t N>
Ints ints(const std::int32_t (&values)[N], std::size_t count = N) {
  return {values, values + count};
}

// What a copy writes: rows of adjacent elements, `pitch` apart.
struct Block {
  std::int64_t rows = 1, columns = 1, pitch = 0;
};

std::optional<Block> block_of(const xrt_k_copy& p) {
  Block b;
  bool adjacent = true;
  for (int d = p.rank - 1; d >= 0; --d) {
    if (p.dims[d] == 1) continue;
    if (adjacent && p.y_strides[d] == b.columns) {
      b.columns *= p.dims[d];
      continue;
    }
    if (adjacent) b.pitch = p.y_strides[d];
    adjacent = false;
    if (b.pitch < b.columns || p.y_strides[d] != b.pitch * b.rows) return {};
    b.rows *= p.dims[d];
  }
  return b;
}

struct GemmWalks {
  Ints batch;
  std::optional<Walk> a, b, y;
};

GemmWalks walks_of(const xrt_k_gemm& p) {
  GemmWalks w;
  w.batch = ints(p.batch);
  const auto walk = [&](const std::int32_t(&batch)[4], std::int64_t rows, std::int64_t columns,
                        std::int64_t row, std::int64_t column) {
    Ints dims = w.batch, strides = ints(batch);
    dims.insert(dims.end(), {rows, columns});
    strides.insert(strides.end(), {row, column});
    return dense_walk(dims, strides);
  };
  w.a = walk(p.a_batch, p.m, p.k, p.a_row, p.a_col);
  w.b = walk(p.b_batch, p.k, p.n, p.b_row, p.b_col);
  Ints dims = w.batch, strides = ints(p.y_batch);
  dims.insert(dims.end(), {p.m, p.n});
  strides.insert(strides.end(), {p.y_row, 1});
  const Ints expected = row_major(dims);
  bool dense = true;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    dense = dense && (dims[d] == 1 || strides[d] == expected[d]);
  }
  if (dense) w.y = dense_walk(dims, strides);
  return w;
}

std::int64_t far_pad(std::int64_t in, std::int64_t out, std::int64_t k, std::int64_t stride,
                     std::int64_t dilation, std::int64_t near) {
  return std::max<std::int64_t>(0, (out - 1) * stride + (k - 1) * dilation + 1 - in - near);
}

std::int64_t windows(std::int64_t in, std::int64_t k, std::int64_t stride, std::int64_t dilation,
                     std::int64_t pads) {
  return (in + pads - (k - 1) * dilation - 1) / stride + 1;
}

struct EwProgram {
  xrt_k_ew p;
  std::vector<xrt_ew_input> inputs;
  const std::uint32_t* code;
};

EwProgram ew_program(const void* params) {
  EwProgram e;
  std::memcpy(&e.p, params, sizeof(e.p));
  e.inputs.resize(static_cast<std::size_t>(e.p.inputs));
  const auto* at = static_cast<const char*>(params) + sizeof(e.p);
  if (e.p.inputs > 0) std::memcpy(e.inputs.data(), at, e.inputs.size() * sizeof(xrt_ew_input));
  e.code = reinterpret_cast<const std::uint32_t*>(at + e.inputs.size() * sizeof(xrt_ew_input));
  return e;
}

template <typename Params>
Params params_of(const ModuleOp& op) {
  Params p;
  std::memcpy(&p, op.params.data(), sizeof(p));
  return p;
}

class Raiser {
 public:
  explicit Raiser(const Module& m) : m_(m) { graph_.opsets()[""] = kOnnxOpset; }

  Graph run(const ModuleFunction& f, const std::vector<int>& inputs,
            const std::vector<int>& outputs) {
    for (const int s : inputs) {
      const Storage& storage = m_.storages[static_cast<std::size_t>(s)];
      flat_[s] = graph_.add_input(
          fmt::format("x{}", s),
          Type::tensor(DType::kFloat32,
                       Dims{static_cast<std::int64_t>(storage_bytes(m_, storage) / 4)}));
    }
    for (int i = 0; i < f.op_count; ++i) {
      const ModuleOp& o = m_.ops[static_cast<std::size_t>(f.first_op + i)];
      for (const Operand& operand : o.operands) {
        if (operand.dtype == DType::kFloat32) continue;
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("op '{}' works on {}: only float32 is passed on as a model", o.name,
                                to_string(operand.dtype)));
      }
      op(o);
    }
    for (const int s : outputs) {
      graph_.add_output(graph_.add_op("Identity", {flat_.at(s)}, {}, fmt::format("y{}", s)));
    }
    return std::move(graph_);
  }

 private:
  ValueId constant(Tensor t) {
    return graph_.add_constant(fmt::format("c{}", names_++), std::move(t));
  }
  ValueId list(const Ints& values) {
    Tensor t = Tensor::allocate(DType::kInt64, {static_cast<std::int64_t>(values.size())});
    std::copy(values.begin(), values.end(), t.data<std::int64_t>());
    return constant(std::move(t));
  }
  ValueId scalar(float v) {
    Tensor t = Tensor::allocate(DType::kFloat32, {});
    *t.data<float>() = v;
    return constant(std::move(t));
  }
  ValueId reshape(ValueId v, const Ints& dims) { return graph_.add_op("Reshape", {v, list(dims)}); }
  ValueId transpose(ValueId v, const std::vector<std::int64_t>& perm) {
    return graph_.add_op("Transpose", {v}, {{"perm", perm}});
  }

  // An operand's elements as a vector.
  ValueId flat(const Operand& o) {
    if (o.at == Operand::At::kStorage) return flat_.at(o.index);
    const std::string& bytes = m_.constants[static_cast<std::size_t>(o.index)];
    Tensor t = Tensor::allocate(DType::kFloat32, {static_cast<std::int64_t>(o.bytes / 4)});
    std::memcpy(t.data<char>(), bytes.data() + o.offset, o.bytes);
    return constant(std::move(t));
  }
  ValueId walk(const Operand& o, const Walk& w, std::int64_t offset = 0) {
    ValueId v = flat(o);
    if (offset != 0 || w.count * 4 != static_cast<std::int64_t>(o.bytes)) {
      v = graph_.add_op("Slice", {v, list({offset}), list({offset + w.count})});
    }
    std::vector<int> dims = w.order;  // in the order of dims
    std::sort(dims.begin(), dims.end());
    if (dims != w.order) {
      Ints perm;
      for (const int d : dims) {
        perm.push_back(std::find(w.order.begin(), w.order.end(), d) - w.order.begin());
      }
      v = transpose(reshape(v, w.memory_dims), perm);
    }
    return reshape(v, w.dims);
  }
  ValueId image(const Operand& o, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
    return transpose(reshape(flat(o), {n, h, w, c}), {0, 3, 1, 2});
  }
  // Row-major elements of `v` become an op's output.
  void store(const ModuleOp& op, ValueId v) {
    const Operand& y = op.operands[static_cast<std::size_t>(op.output)];
    flat_[y.index] = reshape(v, {static_cast<std::int64_t>(y.bytes / 4)});
  }
  // `v` is a block of a copy's output; the rest keeps what it has.
  void store_part(const ModuleOp& op, ValueId v) {
    const Operand& y = op.operands[static_cast<std::size_t>(op.output)];
    const auto whole = static_cast<std::int64_t>(y.bytes / 4);
    const auto p = params_of<xrt_k_copy>(op);
    const Block b = *block_of(p);
    if (b.rows * b.columns == whole) return store(op, v);
    const std::int64_t pitch = b.rows == 1 ? whole : b.pitch;
    const std::int64_t row = p.y_offset / pitch, column = p.y_offset % pitch;
    const std::int64_t row_end = row + b.rows, column_end = column + b.columns;
    if (whole % pitch != 0 || row_end * pitch > whole || column_end > pitch) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("op '{}' writes a region that is no block of its output", op.name));
    }
    const auto known = flat_.find(y.index);
    const ValueId before = reshape(
        known != flat_.end() ? known->second : graph_.add_op("Expand", {scalar(0), list({whole})}),
        {whole / pitch, pitch});
    const auto part = [&](ValueId from, std::int64_t begin, std::int64_t end, std::int64_t axis) {
      return graph_.add_op("Slice", {from, list({begin}), list({end}), list({axis})});
    };
    const auto join = [&](const std::vector<ValueId>& parts, std::int64_t axis) {
      return parts.size() == 1 ? parts[0] : graph_.add_op("Concat", parts, {{"axis", axis}});
    };
    const ValueId middle = part(before, row, row_end, 0);
    std::vector<ValueId> columns, rows;
    if (column > 0) columns.push_back(part(middle, 0, column, 1));
    columns.push_back(reshape(v, {b.rows, b.columns}));
    if (column_end < pitch) columns.push_back(part(middle, column_end, pitch, 1));
    if (row > 0) rows.push_back(part(before, 0, row, 0));
    rows.push_back(join(columns, 1));
    if (row_end < whole / pitch) rows.push_back(part(before, row_end, whole / pitch, 0));
    store(op, join(rows, 0));
  }
  void store_image(const ModuleOp& op, ValueId v) { store(op, transpose(v, {0, 2, 3, 1})); }

  template <typename Params>
  ValueId clip(const Params& p, ValueId v) {
    if (p.activation != XRT_ACT_CLIP) return v;
    const float infinity = std::numeric_limits<float>::infinity();
    if (p.lo == 0 && p.hi == infinity) return graph_.add_op("Relu", {v});
    return graph_.add_op("Clip", {v, scalar(std::max(p.lo, std::numeric_limits<float>::lowest())),
                                  scalar(std::min(p.hi, std::numeric_limits<float>::max()))});
  }

  void op(const ModuleOp& op);
  void conv(const ModuleOp& op, bool depthwise);
  void gemm(const ModuleOp& op);
  void pool(const ModuleOp& op);
  void ew(const ModuleOp& op);
  void reduce(const ModuleOp& op);

  const Module& m_;
  Graph graph_{"function"};
  std::map<int, ValueId> flat_;  // storage -> its newest elements
  int names_ = 0;
};

void Raiser::conv(const ModuleOp& op, bool depthwise) {
  const auto p = params_of<xrt_k_conv>(op);
  const std::int64_t groups = p.groups, icg = p.ic / p.groups, area = std::int64_t{p.kh} * p.kw;
  const Operand& packed = op.operands[1];
  const auto* from = reinterpret_cast<const float*>(
      m_.constants[static_cast<std::size_t>(packed.index)].data() + packed.offset);
  Tensor weights = Tensor::allocate(DType::kFloat32, {p.oc, icg, p.kh, p.kw});
  for (std::int64_t o = 0; o < p.oc; ++o) {
    for (std::int64_t i = 0; i < icg; ++i) {
      for (std::int64_t k = 0; k < area; ++k) {
        weights.data<float>()[(o * icg + i) * area + k] =
            depthwise ? from[k * p.oc + o] : from[(o * area + k) * icg + i];
      }
    }
  }
  std::vector<ValueId> inputs = {image(op.operands[0], p.n, p.ih, p.iw, p.ic),
                                 constant(std::move(weights))};
  std::size_t next = 2;
  if ((p.flags & XRT_HAS_BIAS) != 0) inputs.push_back(flat(op.operands[next++]));
  const Ints pads = {p.pad_top, p.pad_left,
                     far_pad(p.ih, p.oh, p.kh, p.stride_h, p.dilation_h, p.pad_top),
                     far_pad(p.iw, p.ow, p.kw, p.stride_w, p.dilation_w, p.pad_left)};
  ValueId v = graph_.add_op("Conv", inputs,
                            {{"group", groups},
                             {"kernel_shape", Ints{p.kh, p.kw}},
                             {"strides", Ints{p.stride_h, p.stride_w}},
                             {"dilations", Ints{p.dilation_h, p.dilation_w}},
                             {"pads", pads}},
                            op.name);
  if ((p.flags & XRT_HAS_RESIDUAL) != 0) {
    v = graph_.add_op("Add", {v, image(op.operands[next], p.n, p.oh, p.ow, p.oc)});
  }
  store_image(op, clip(p, v));
}

void Raiser::gemm(const ModuleOp& op) {
  const auto p = params_of<xrt_k_gemm>(op);
  const GemmWalks w = walks_of(p);
  const ValueId a = walk(op.operands[0], *w.a);
  const ValueId b = p.pack_n > 0 ? transpose(reshape(flat(op.operands[1]), {p.n, p.k}), {1, 0})
                                 : walk(op.operands[1], *w.b);
  ValueId v = graph_.add_op("MatMul", {a, b}, {}, op.name);
  std::size_t next = 2;
  if (p.alpha != 1) v = graph_.add_op("Mul", {v, scalar(p.alpha)});
  if ((p.flags & XRT_HAS_BIAS) != 0) v = graph_.add_op("Add", {v, flat(op.operands[next++])});
  if ((p.flags & XRT_HAS_RESIDUAL) != 0) {
    v = graph_.add_op("Add", {v, walk(op.operands[next], *w.y)});
  }
  store(op, clip(p, v));
}

void Raiser::pool(const ModuleOp& op) {
  const auto p = params_of<xrt_k_pool>(op);
  Attributes attributes = {{"kernel_shape", Ints{p.kh, p.kw}},
                           {"strides", Ints{p.stride_h, p.stride_w}},
                           {"pads", Ints{p.pad_top, p.pad_left, p.pad_bottom, p.pad_right}}};
  const bool max = p.kind == XRT_POOL_MAX;
  if (max) attributes["dilations"] = Ints{p.dilation_h, p.dilation_w};
  if (!max) attributes["count_include_pad"] = std::int64_t{p.count_include_pad};
  store_image(op,
              graph_.add_op(max ? "MaxPool" : "AveragePool",
                            {image(op.operands[0], p.n, p.ih, p.iw, p.c)}, attributes, op.name));
}

void Raiser::ew(const ModuleOp& op) {
  const EwProgram e = ew_program(op.params.data());
  std::vector<ValueId> registers(XRT_EW_REGISTERS);
  const Ints dims = ints(e.p.dims);
  for (std::size_t k = 0; k < e.inputs.size(); ++k) {
    registers[k] = walk(op.operands[k], *dense_walk(dims, ints(e.inputs[k].strides)));
  }
  for (int c = 0; c < e.p.code_words; ++c) {
    const std::uint32_t w = e.code[c];
    const auto o = static_cast<xrt_ew_op>(w & 255);
    ValueId& d = registers[(w >> 8) & 255];
    if (o == XRT_EW_CONST) {
      float v;
      std::memcpy(&v, &e.code[++c], 4);
      d = scalar(v);
    } else if (o < XRT_EW_SELECT) {
      d = graph_.add_op(raised_ew_op(o)->onnx, {registers[(w >> 16) & 255], registers[w >> 24]});
    } else {
      d = graph_.add_op(raised_ew_op(o)->onnx, {registers[(w >> 16) & 255]});
    }
  }
  store(op, graph_.add_op("Expand", {registers[static_cast<std::size_t>(e.p.result)], list(dims)}));
}

void Raiser::reduce(const ModuleOp& op) {
  const auto p = params_of<xrt_k_reduce>(op);
  static constexpr const char* kNames[XRT_REDUCE_COUNT] = {
      "ReduceSum",  "ReduceMean",      "ReduceMax", "ReduceMin",
      "ReduceProd", "ReduceSumSquare", "ReduceL1",  "ReduceL2"};
  Ints dims = ints(p.kept), strides = ints(p.kept_strides);
  const Ints reduced = ints(p.reduced), steps = ints(p.reduced_strides);
  dims.insert(dims.end(), reduced.begin(), reduced.end());
  strides.insert(strides.end(), steps.begin(), steps.end());
  store(op, graph_.add_op(kNames[p.kind],
                          {walk(op.operands[0], *dense_walk(dims, strides)), list({4, 5, 6, 7})},
                          {{"keepdims", std::int64_t{0}}}, op.name));
}

void Raiser::op(const ModuleOp& op) {
  switch (op.kernel) {
    case XRT_K_CONV_F32:
    case XRT_K_DWCONV_F32:
      return conv(op, op.kernel == XRT_K_DWCONV_F32);
    case XRT_K_GEMM_F32:
      return gemm(op);
    case XRT_K_POOL:
      return pool(op);
    case XRT_K_EW:
      return ew(op);
    case XRT_K_REDUCE:
      return reduce(op);
    case XRT_K_SOFTMAX: {
      const auto p = params_of<xrt_k_softmax>(op);
      return store(op, graph_.add_op(p.log != 0 ? "LogSoftmax" : "Softmax",
                                     {reshape(flat(op.operands[0]), {p.outer, p.size, p.inner})},
                                     {{"axis", std::int64_t{1}}}, op.name));
    }
    case XRT_K_COPY: {
      const auto p = params_of<xrt_k_copy>(op);
      const auto rank = static_cast<std::size_t>(p.rank);
      const auto x = dense_walk(ints(p.dims, rank), ints(p.x_strides, rank));
      return store_part(op, walk(op.operands[0], *x, p.x_offset));
    }
    case XRT_K_FILL: {
      const auto p = params_of<xrt_k_fill>(op);
      float v;
      std::memcpy(&v, &p.low, 4);
      return store(op, graph_.add_op("Expand", {scalar(v), list({p.count})}));
    }
    default:
      throw Error(ErrorCode::kInternal, fmt::format("op '{}' does not raise", op.name));
  }
}

std::optional<std::string> refuse_sum(int weight_dtype) {
  if (weight_dtype == XRT_LITE_F32) return {};
  return "weights are not float32";
}

}  // namespace

std::optional<std::string> cannot_raise(xrt_kernel_id kernel, const void* params) {
  const auto when = [](bool bad, const char* why) -> std::optional<std::string> {
    if (bad) return why;
    return {};
  };
  const char* const strided = "an operand is a part of a wider tensor";
  switch (kernel) {
    case XRT_K_CONV_F32:
    case XRT_K_DWCONV_F32: {
      const auto& p = *static_cast<const xrt_k_conv*>(params);
      if (p.x_pitch != p.ic || p.y_pitch != p.oc || p.r_pitch != p.oc) return strided;
      return refuse_sum(p.weight_dtype);
    }
    case XRT_K_GEMM_F32: {
      const auto& p = *static_cast<const xrt_k_gemm*>(params);
      const GemmWalks w = walks_of(p);
      if (!w.a || !w.y || (p.pack_n == 0 && !w.b)) return strided;
      return refuse_sum(p.weight_dtype);
    }
    case XRT_K_POOL: {
      const auto& p = *static_cast<const xrt_k_pool*>(params);
      if (p.dtype != XRT_LITE_F32) return "not float32";
      if (p.x_pitch != p.c || p.y_pitch != p.c) return strided;
      const bool max = p.kind == XRT_POOL_MAX;
      return when(
          windows(p.ih, p.kh, p.stride_h, p.dilation_h, p.pad_top + p.pad_bottom) != p.oh ||
              windows(p.iw, p.kw, p.stride_w, p.dilation_w, p.pad_left + p.pad_right) != p.ow ||
              (!max && (p.dilation_h != 1 || p.dilation_w != 1)),
          "windows reach over the padded image, or a mean has holes");
    }
    case XRT_K_EW: {
      const EwProgram e = ew_program(params);
      if (e.p.domain != 0 || e.p.y_dtype != XRT_LITE_F32) return "not float32";
      for (const xrt_ew_input& in : e.inputs) {
        if (in.dtype != XRT_LITE_F32) return "not float32";
        if (!dense_walk(ints(e.p.dims), ints(in.strides))) return strided;
      }
      for (int c = 0; c < e.p.code_words; ++c) {
        const auto o = static_cast<xrt_ew_op>(e.code[c] & 255);
        if (o == XRT_EW_CONST) {
          ++c;
        } else if (raised_ew_op(o) == nullptr) {
          return "a pointwise operation that is not passed on";
        }
      }
      return {};
    }
    case XRT_K_REDUCE: {
      const auto& p = *static_cast<const xrt_k_reduce*>(params);
      Ints dims = ints(p.kept), strides = ints(p.kept_strides);
      const Ints reduced = ints(p.reduced), steps = ints(p.reduced_strides);
      dims.insert(dims.end(), reduced.begin(), reduced.end());
      strides.insert(strides.end(), steps.begin(), steps.end());
      return when(!dense_walk(dims, strides), strided);
    }
    case XRT_K_COPY: {
      const auto& p = *static_cast<const xrt_k_copy*>(params);
      if (p.element_bytes != 4) return "not float32";
      const auto rank = static_cast<std::size_t>(p.rank);
      const Ints dims = ints(p.dims, rank);
      const auto x = dense_walk(dims, ints(p.x_strides, rank));
      return when(!x || x->dims != dims || !block_of(p), strided);
    }
    case XRT_K_FILL:
      return when(static_cast<const xrt_k_fill*>(params)->element_bytes != 4, "not float32");
    case XRT_K_SOFTMAX:
      return {};
    default:
      return "the kernel is not passed on";
  }
}

Graph raise(const Module& module, const ModuleFunction& function, const std::vector<int>& inputs,
            const std::vector<int>& outputs) {
  return Raiser(module).run(function, inputs, outputs);
}

}  // namespace xrt::lite
