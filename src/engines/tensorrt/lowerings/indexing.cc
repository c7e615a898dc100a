// SPDX-License-Identifier: Apache-2.0
// Ops that take elements by index, and those that put them there.
//
// Indices below zero count from the end in ONNX; TensorRT's layers take none, so they are brought
// into range first, on the host where they are constants.
#include <algorithm>

#include "engines/tensorrt/lowering.h"

namespace xrt::tensorrt {

namespace {

using nvinfer1::GatherMode;
using nvinfer1::ScatterMode;

// Operand `i` as indices of an axis of length `length`, none below zero.
Value indices(NodeContext& c, std::size_t i, std::int64_t length) {
  const DType type = c.dtype(i);
  c.need(type == DType::kInt32 || type == DType::kInt64, "indices are int32 or int64");
  c.need(length >= 0, "the indexed axis is of unknown length");
  if (const Tensor* known = c.constant(i)) {
    Dims values = known->to_int64();
    for (std::int64_t& v : values) v = v < 0 ? v + length : v;
    return c.net.constant(Tensor::from_int64(values).reshaped(known->dims()));
  }
  const Value x = c.in(i);
  const Value wrapped = c.net.binary(x, static_cast<double>(length), EW::kSUM);
  return c.net.select(c.net.binary(x, 0.0, EW::kLESS), wrapped, x);
}

// TensorRT gathers and scatters no bool: those pass as int32.
struct Carrier {
  NodeContext& c;
  bool is_bool;
  Value in(std::size_t i) const { return is_bool ? c.net.cast(c.in(i), DType::kInt32) : c.in(i); }
  Value back(Value x) const { return is_bool ? c.net.cast(x, DType::kBool) : x; }
};

Carrier carrier(NodeContext& c, std::size_t i) {
  if (c.dtype(i) != DType::kBool) c.require_number(i);
  return {c, c.dtype(i) == DType::kBool};
}

nvinfer1::IGatherLayer* add_gather(NodeContext& c, Value data, Value at, GatherMode mode,
                                   std::int64_t axis, std::int64_t batch = 0) {
  auto* layer = c.net.made(c.net.network().addGatherV2(*data, *at, mode), "a gather layer");
  layer->setGatherAxis(static_cast<std::int32_t>(axis));
  if (batch > 0) layer->setNbElementWiseDims(static_cast<std::int32_t>(batch));
  return layer;
}

void gather(NodeContext& c) {
  const Carrier data = carrier(c, 0);
  const std::int64_t axis = c.attr("axis");
  const Value at = indices(c, 1, c.dims(0)[static_cast<std::size_t>(axis)]);
  c.out(data.back(c.net.out(add_gather(c, data.in(0), at, GatherMode::kDEFAULT, axis))));
}

void gather_elements(NodeContext& c) {
  const Carrier data = carrier(c, 0);
  const std::int64_t axis = c.attr("axis");
  const Value at = indices(c, 1, c.dims(0)[static_cast<std::size_t>(axis)]);
  c.out(data.back(c.net.out(add_gather(c, data.in(0), at, GatherMode::kELEMENT, axis))));
}

// Index vectors of ND ops: each component counts along its own axis.
Value index_vectors(NodeContext& c, std::size_t i, const Dims& data, std::int64_t batch) {
  const Dims dims = c.dims(i);
  c.need(!dims.empty() && dims.back() > 0, "the index vectors have no known length");
  Dims lengths;
  for (std::int64_t k = 0; k < dims.back(); ++k) {
    const auto axis = static_cast<std::size_t>(batch + k);
    c.need(axis < data.size() && data[axis] >= 0, "an indexed axis is of unknown length");
    lengths.push_back(data[axis]);
  }
  if (const Tensor* known = c.constant(i)) {
    Dims values = known->to_int64();
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (values[k] < 0) values[k] += lengths[k % lengths.size()];
    }
    return c.net.constant(Tensor::from_int64(values).reshaped(dims));
  }
  const Value x = c.net.cast(c.in(i), DType::kInt64);
  const Value wrapped = c.net.binary(x, c.net.integers(lengths), EW::kSUM);
  return c.net.select(c.net.binary(x, 0.0, EW::kLESS), wrapped, x);
}

void gather_nd(NodeContext& c) {
  const Carrier data = carrier(c, 0);
  const std::int64_t batch = c.attr("batch_dims");
  c.need(batch < c.rank(0) - 1 || batch == 0, "batch_dims leaves one axis only");
  const Value at = index_vectors(c, 1, c.dims(0), batch);
  c.out(data.back(c.net.out(add_gather(c, data.in(0), at, GatherMode::kND, 0, batch))));
}

void scatter_elements(NodeContext& c) {
  c.need(need_string(c.node, "reduction") == "none", "TensorRT's scatter does not reduce");
  const Carrier data = carrier(c, 0);
  const std::int64_t axis = c.attr("axis");
  const Value at = indices(c, 1, c.dims(0)[static_cast<std::size_t>(axis)]);
  auto* layer =
      c.net.made(c.net.network().addScatter(*data.in(0), *at, *data.in(2), ScatterMode::kELEMENT),
                 "a scatter layer");
  layer->setAxis(static_cast<std::int32_t>(axis));
  c.out(data.back(c.net.out(layer)));
}

void scatter_nd(NodeContext& c) {
  c.need(need_string(c.node, "reduction") == "none", "TensorRT's scatter does not reduce");
  const Carrier data = carrier(c, 0);
  const Value at = index_vectors(c, 1, c.dims(0), 0);
  c.out(data.back(c.net.out(
      c.net.made(c.net.network().addScatter(*data.in(0), *at, *data.in(2), ScatterMode::kND),
                 "a scatter layer"))));
}

// on where the index is that of the position along the new axis, else off
void one_hot(NodeContext& c) {
  const DType type = c.dtype(0);
  c.need(type == DType::kInt32 || type == DType::kInt64, "indices are int32 or int64");
  const Dims depth = c.integers(1, "the depth");
  c.need(depth.size() == 1 && depth[0] > 0, "the depth is not one number above zero");
  c.require_number(2);
  const std::int64_t rank = c.rank(0) + 1;
  const std::int64_t axis = c.attr("axis");
  Dims positions;
  for (std::int64_t i = 0; i < depth[0]; ++i) positions.push_back(i);
  Extents line(static_cast<std::size_t>(rank), Extent(1));
  line[static_cast<std::size_t>(axis)] = Extent(depth[0]);
  const Value ruler = c.net.cast(c.net.reshape(c.net.integers(positions), line), type);
  const Value x = c.in(0);
  const Value wrapped = c.net.select(c.net.binary(x, 0.0, EW::kLESS),
                                     c.net.binary(x, static_cast<double>(depth[0]), EW::kSUM), x);
  const Value hit = c.net.binary(c.net.unsqueeze(wrapped, {axis}), ruler, EW::kEQUAL);
  const Value off = c.net.reshape(c.net.slice(c.in(2), {0}, {1}, {1}), {});
  const Value on = c.net.reshape(c.net.slice(c.in(2), {1}, {1}, {1}), {});
  c.out(c.net.select(hit, on, off));
}

// Keeps the upper or lower triangle of the last two axes.
void trilu(NodeContext& c) {
  const Carrier data = carrier(c, 0);
  const Dims dims = c.dims(0);
  c.need(dims.size() >= 2, "its operand is no matrix");
  const std::int64_t rows = dims[dims.size() - 2];
  const std::int64_t columns = dims[dims.size() - 1];
  c.need(rows > 0 && columns > 0, "the matrix is of unknown size");
  std::int64_t k = 0;
  if (c.has(1)) {
    const Dims given = c.integers(1, "k");
    c.need(given.size() == 1, "k is not one number");
    k = given[0];
  }
  const bool upper = c.attr("upper") != 0;
  Tensor keep = Tensor::allocate(DType::kBool, {rows, columns});
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      keep.data<bool>()[i * columns + j] = upper ? j - i >= k : j - i <= k;
    }
  }
  const Value x = data.in(0);
  const Value zero = c.net.scalar(dtype_of(x), 0.0);
  c.out(data.back(c.net.select(c.net.constant(keep), x, zero)));
}

// [rank, count]: the count is the data's to decide.
void non_zero(NodeContext& c) {
  c.need(!is_rtx(), "TensorRT-RTX has no kernel for it");
  if (c.dtype(0) != DType::kBool) c.require_number(0);
  c.need(c.rank(0) > 0, "a scalar");
  c.out(c.net.cast(c.net.out(c.net.made(c.net.network().addNonZero(*c.in(0)), "a non-zero layer")),
                   DType::kInt64));
}

// The first elements of each sequence in reverse, as many as the lengths say.
void reverse_sequence(NodeContext& c) {
  c.require_number(0);
  auto* layer = c.net.made(c.net.network().addReverseSequence(*c.in(0), *c.in(1)),
                           "a reverse-sequence layer");
  layer->setBatchAxis(static_cast<std::int32_t>(c.attr("batch_axis")));
  layer->setSequenceAxis(static_cast<std::int32_t>(c.attr("time_axis")));
  c.out(c.net.out(layer));
}

// Ones on a diagonal: a constant, for its operand says no more than its shape.
void eye_like(NodeContext& c) {
  const Dims dims = c.require_static(0, "EyeLike");
  c.need(dims.size() == 2, "its operand is no matrix");
  const std::int64_t k = c.attr("k");
  Tensor ones = Tensor::allocate(DType::kInt32, dims);
  for (std::int64_t i = 0; i < ones.count(); ++i) {
    ones.data<std::int32_t>()[i] = i % dims[1] - i / dims[1] == k ? 1 : 0;
  }
  c.require_computed(c.out_dtype());
  c.out(c.net.cast(c.net.constant(ones), c.out_dtype()));
}

void grid_sample(NodeContext& c) {
  c.require_float(0);
  c.need(c.rank(0) == 4, "TensorRT samples images of rank 4");
  const std::string mode = need_string(c.node, "mode");
  const std::string padding = need_string(c.node, "padding_mode");
  auto* layer =
      c.net.made(c.net.network().addGridSample(*c.in(0), *c.in(1)), "a grid-sample layer");
  using nvinfer1::InterpolationMode;
  using nvinfer1::SampleMode;
  layer->setInterpolationMode(mode == "nearest" ? InterpolationMode::kNEAREST
                              : mode == "cubic" ? InterpolationMode::kCUBIC
                                                : InterpolationMode::kLINEAR);
  layer->setSampleMode(padding == "border"       ? SampleMode::kCLAMP
                       : padding == "reflection" ? SampleMode::kREFLECT
                                                 : SampleMode::kFILL);
  layer->setAlignCorners(c.attr("align_corners") != 0);
  c.out(c.net.out(layer));
}

}  // namespace

void register_indexing(LoweringTable& t) {
  t.add("Gather", gather);
  t.add("GatherElements", gather_elements);
  t.add("GatherND", gather_nd);
  t.add("ScatterElements", scatter_elements);
  t.add("ScatterND", scatter_nd);
  t.add("OneHot", one_hot);
  t.add("Trilu", trilu);
  t.add("NonZero", non_zero);
  t.add("ReverseSequence", reverse_sequence);
  t.add("EyeLike", eye_like);
  t.add("GridSample", grid_sample);
}

}  // namespace xrt::tensorrt
