// SPDX-License-Identifier: Apache-2.0
// Ops that write elements at computed places: the Scatter family, TensorScatter, Col2Im.
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "engines/xla/lowerings/places.h"
#include "engines/xla/lowerings/take.h"

namespace xrt::xla {

namespace {

// The combining op of ONNX's attribute "reduction"; empty assigns.
std::string_view combiner(NodeContext& c) {
  const std::string reduction = need_string(c.node, "reduction");
  if (reduction == "none") return {};
  if (reduction == "add") return "add";
  if (reduction == "mul") return "multiply";
  if (reduction == "max") return "maximum";
  if (reduction == "min") return "minimum";
  c.refuse(fmt::format("no reduction '{}'", reduction));
}

void lower_scatter_elements(NodeContext& c) {
  HloBuilder& b = c.b;
  const Hlo x = c.in(0);
  const std::int64_t axis = c.attr("axis");
  const Hlo index = wrap_negative(b, c.in(1), x.dims[at(axis)]);
  const std::int64_t count = element_count(index.dims);
  if (count == 0) {
    c.out(x);
    return;
  }
  Hlos coordinates;
  for (std::int64_t i = 0; i < x.rank(); ++i) {
    const Hlo part = i == axis ? index : b.iota(DType::kInt64, index.dims, i);
    coordinates.push_back(b.reshape(part, {count, 1}));
  }
  ScatterSpec spec;
  spec.inserted_window_dims = range_dims(0, x.rank());
  spec.scatter_dims_to_operand_dims = spec.inserted_window_dims;
  spec.index_vector_dim = 1;
  c.out(
      b.scatter(x, b.concatenate(coordinates, 1), b.reshape(c.in(2), {count}), spec, combiner(c)));
}

void lower_scatter_nd(NodeContext& c) {
  HloBuilder& b = c.b;
  const Hlo x = c.in(0);
  const Hlo indices = c.in(1);
  c.need(indices.rank() > 0, "the indices' rank");
  const std::int64_t depth = indices.dims.back();
  c.need(depth <= x.rank(), "the indices' last dimension");
  const std::int64_t batch = indices.rank() - 1;
  if (element_count(c.dims(2)) == 0) {
    c.out(x);
    return;
  }
  Hlos parts;
  for (std::int64_t i = 0; i < depth; ++i) {
    parts.push_back(wrap_negative(b, b.slice_axis(indices, batch, i, i + 1), x.dims[at(i)]));
  }
  ScatterSpec spec;
  spec.inserted_window_dims = range_dims(0, depth);
  spec.scatter_dims_to_operand_dims = spec.inserted_window_dims;
  spec.update_window_dims = range_dims(batch, batch + x.rank() - depth);
  spec.index_vector_dim = batch;
  c.out(b.scatter(x, b.concatenate(parts, batch), c.in(2), spec, combiner(c)));
}

// Writes a run of entries into a cache: linear, or around its end.
void lower_tensor_scatter(NodeContext& c) {
  HloBuilder& b = c.b;
  const Hlo cache = c.in(0);
  const Hlo update = c.in(1);
  const std::int64_t axis = c.attr("axis");
  c.need(axis > 0, "the axis of the batch");
  const bool circular = need_string(c.node, "mode") == "circular";
  const std::int64_t batch = cache.dims[0];
  const std::int64_t length = update.dims[at(axis)];
  const Dims dims{batch, length};
  Hlo place = b.iota(DType::kInt64, dims, 1);
  if (c.has(2)) {
    place = b.add(place, b.broadcast_in_dim(b.convert(c.in(2), DType::kInt64), dims, {0}));
  }
  if (circular) {
    place = b.binary_scalar("remainder", place, static_cast<double>(cache.dims[at(axis)]));
  }
  const Hlo coordinates = b.concatenate(
      {b.iota(DType::kInt64, {batch, length, 1}, 0), b.reshape(place, {batch, length, 1})}, 2);
  ScatterSpec spec;
  for (std::int64_t i = 1; i < update.rank(); ++i) {
    if (i != axis) spec.update_window_dims.push_back(i);
  }
  spec.inserted_window_dims = {0, axis};
  spec.scatter_dims_to_operand_dims = {0, axis};
  spec.index_vector_dim = 2;
  c.out(b.scatter(cache, coordinates, update, spec));
}

// Sums blocks of columns back into an image: one shifted addition per position in the block.
void lower_col2im(NodeContext& c) {
  HloBuilder& b = c.b;
  const Dims image = c.integers(1, "the image's shape");
  const Dims block = c.integers(2, "the block's shape");
  const std::size_t n = image.size();
  const Dims strides = c.node.attr_ints("strides", Dims(n, 1));
  const Dims dilations = c.node.attr_ints("dilations", Dims(n, 1));
  const Dims pads = c.node.attr_ints("pads", Dims(2 * n, 0));
  const Hlo x = c.in(0);
  const std::int64_t positions = element_count(block);
  c.need(x.rank() == 3 && x.dims[1] % positions == 0, "the operand's shape");
  const std::int64_t channels = x.dims[1] / positions;
  Dims padded{x.dims[0], channels};
  Dims counts;
  for (std::size_t i = 0; i < n; ++i) {
    padded.push_back(image[i] + pads[i] + pads[i + n]);
    counts.push_back((padded.back() - (block[i] - 1) * dilations[i] - 1) / strides[i] + 1);
  }
  c.need(element_count(counts) == x.dims[2], "the number of blocks");
  Dims split{x.dims[0], channels, positions};
  split.insert(split.end(), counts.begin(), counts.end());
  const Hlo columns = b.reshape(x, split);
  const Hlo zero = b.scalar(0, x.dtype);
  Hlo total = b.splat(0, x.dtype, padded);
  Dims position(n, 0);
  for (std::int64_t k = 0; k < positions; ++k) {
    Dims dims{x.dims[0], channels};
    dims.insert(dims.end(), counts.begin(), counts.end());
    const Hlo part = b.reshape(b.slice_axis(columns, 2, k, k + 1), dims);
    Dims low(n + 2, 0);
    Dims high(n + 2, 0);
    Dims interior(n + 2, 0);
    for (std::size_t i = 0; i < n; ++i) {
      low[i + 2] = position[i] * dilations[i];
      interior[i + 2] = strides[i] - 1;
      high[i + 2] = padded[i + 2] - low[i + 2] - ((counts[i] - 1) * strides[i] + 1);
    }
    total = b.add(total, b.pad(part, zero, low, high, interior));
    for (std::size_t i = n; i-- > 0;) {
      if (++position[i] < block[i]) break;
      position[i] = 0;
    }
  }
  Dims starts(n + 2, 0);
  Dims limits = padded;
  for (std::size_t i = 0; i < n; ++i) {
    starts[i + 2] = pads[i];
    limits[i + 2] = pads[i] + image[i];
  }
  c.out(b.slice(total, starts, limits));
}

}  // namespace

void register_scatter(LoweringTable& t) {
  t.add("ScatterElements", lower_scatter_elements);
  t.add("ScatterND", lower_scatter_nd);
  t.add("TensorScatter", lower_tensor_scatter);
  t.add("Col2Im", lower_col2im);
}

}  // namespace xrt::xla
