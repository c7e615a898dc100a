// SPDX-License-Identifier: Apache-2.0
// The ops of HloBuilder that have windows, regions or dimension numbers.
#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "engines/xla/hlo_builder.h"
#include "engines/xla/hlo_text.h"

namespace xrt::xla {

namespace {

std::string list_attribute(const Dims& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string pads_attribute(const Pads& pads) {
  if (pads.empty()) return "dense<> : tensor<0x2xi64>";
  std::string rows;
  for (const auto& [low, high] : pads) {
    rows += fmt::format("{}[{}, {}]", rows.empty() ? "" : ", ", low, high);
  }
  return fmt::format("dense<[{}]> : tensor<{}x2xi64>", rows, pads.size());
}

// "[b, 0, 1, f]"
std::string letters(std::string_view spec) {
  std::string out = "[";
  for (std::size_t i = 0; i < spec.size(); ++i) {
    if (i > 0) out += ", ";
    out += spec[i];
  }
  return out + "]";
}

std::int64_t window_count(std::int64_t size, std::int64_t window, std::int64_t stride,
                          std::int64_t dilation, const std::pair<std::int64_t, std::int64_t>& pad,
                          std::int64_t base_dilation) {
  const std::int64_t base = size == 0 ? 0 : (size - 1) * base_dilation + 1;
  const std::int64_t padded = base + pad.first + pad.second;
  const std::int64_t reach = (window - 1) * dilation + 1;
  return padded < reach ? 0 : (padded - reach) / stride + 1;
}

std::vector<std::pair<DType, Dims>> scalar_types(const Hlos& values, int times) {
  std::vector<std::pair<DType, Dims>> types;
  for (int t = 0; t < times; ++t) {
    for (const Hlo& value : values) types.emplace_back(value.dtype, Dims{});
  }
  return types;
}

Hlos joined(const Hlos& a, const Hlos& b) {
  Hlos out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

Dims without(const Dims& dims, const Dims& axes) {
  Dims out;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) == axes.end()) {
      out.push_back(dims[i]);
    }
  }
  return out;
}

double lowest(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return std::numeric_limits<std::int8_t>::min();
    case DType::kInt16:
      return std::numeric_limits<std::int16_t>::min();
    case DType::kInt32:
      return std::numeric_limits<std::int32_t>::min();
    case DType::kInt64:
      return -0x1p63;
    case DType::kInt4:
      return -8;
    case DType::kInt2:
      return -2;
    default:
      return is_floating(dtype) ? -std::numeric_limits<double>::infinity() : 0;
  }
}

double highest(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return std::numeric_limits<std::int8_t>::max();
    case DType::kInt16:
      return std::numeric_limits<std::int16_t>::max();
    case DType::kInt32:
      return std::numeric_limits<std::int32_t>::max();
    case DType::kInt64:
      return 0x1p63;  // scalar() saturates
    case DType::kUInt8:
      return std::numeric_limits<std::uint8_t>::max();
    case DType::kUInt16:
      return std::numeric_limits<std::uint16_t>::max();
    case DType::kUInt32:
      return std::numeric_limits<std::uint32_t>::max();
    case DType::kUInt64:
      return 0x1p64;
    case DType::kInt4:
      return 7;
    case DType::kUInt4:
      return 15;
    case DType::kInt2:
      return 1;
    case DType::kUInt2:
      return 3;
    case DType::kBool:
      return 1;
    default:
      return std::numeric_limits<double>::infinity();
  }
}

}  // namespace

Hlo HloBuilder::neutral(std::string_view op, DType dtype) {
  if (op == "add" || op == "or") return scalar(0, dtype);
  if (op == "multiply") return scalar(1, dtype);
  if (op == "and") return scalar(dtype == DType::kBool ? 1 : -1, dtype);
  if (op == "maximum") return scalar(lowest(dtype), dtype);
  require(op == "minimum", op, "no neutral element is known");
  return scalar(highest(dtype), dtype);
}

Hlo HloBuilder::gather(const Hlo& operand, const Hlo& indices, const GatherSpec& spec) {
  // Result: batch dimensions (of `indices` without its vector dimension) around offset_dims.
  Dims batch;
  for (std::int64_t i = 0; i < indices.rank(); ++i) {
    if (i != spec.index_vector_dim) batch.push_back(indices.dims[static_cast<std::size_t>(i)]);
  }
  Dims window;
  for (std::size_t i = 0; i < spec.slice_sizes.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i);
    const auto in = [axis](const Dims& list) {
      return std::find(list.begin(), list.end(), axis) != list.end();
    };
    if (!in(spec.collapsed_slice_dims) && !in(spec.operand_batching_dims)) {
      window.push_back(spec.slice_sizes[i]);
    }
  }
  require(window.size() == spec.offset_dims.size(), "gather", "offset dimensions");
  Dims dims(batch.size() + window.size(), -1);
  for (std::size_t i = 0; i < window.size(); ++i) {
    dims.at(static_cast<std::size_t>(spec.offset_dims[i])) = window[i];
  }
  std::size_t next = 0;
  for (std::int64_t& dim : dims) {
    if (dim < 0) dim = batch.at(next++);
  }
  // Nothing is read; HLO wants a slice that fits into its operand even so.
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return splat(0, operand.dtype, dims);
  // XLA would read beyond it.
  for (std::size_t i = 0; i < spec.slice_sizes.size(); ++i) {
    require(spec.slice_sizes[i] <= operand.dims[i], "gather", "slices of what has no elements");
  }
  std::string numbers =
      fmt::format("offset_dims = {}, collapsed_slice_dims = {}, ", list_attribute(spec.offset_dims),
                  list_attribute(spec.collapsed_slice_dims));
  if (!spec.operand_batching_dims.empty()) {
    numbers += fmt::format("operand_batching_dims = {}, start_indices_batching_dims = {}, ",
                           list_attribute(spec.operand_batching_dims),
                           list_attribute(spec.start_indices_batching_dims));
  }
  numbers += fmt::format("start_index_map = {}, index_vector_dim = {}",
                         list_attribute(spec.start_index_map), spec.index_vector_dim);
  return emit("gather", {operand, indices},
              fmt::format("dimension_numbers = #stablehlo.gather<{}>, indices_are_sorted = false, "
                          "slice_sizes = {}",
                          numbers, array_attribute(spec.slice_sizes)),
              operand.dtype, dims);
}

std::optional<std::pair<Hlo, Hlo>> HloBuilder::narrow(const Hlo& a, const Hlo& b) const {
  const auto left = widened_.find(a.id);
  const auto right = widened_.find(b.id);
  if (left == widened_.end() || right == widened_.end()) return std::nullopt;
  if (left->second.dtype != right->second.dtype) return std::nullopt;
  return std::pair{left->second, right->second};
}

std::string HloBuilder::precision() const {
  const char* name = products_.tf32 ? "DEFAULT" : "HIGHEST";
  return fmt::format("precision_config = [#stablehlo<precision {0}>, #stablehlo<precision {0}>]",
                     name);
}

Hlo HloBuilder::dot_general(const Hlo& a, const Hlo& b, const Dims& batch_a, const Dims& batch_b,
                            const Dims& contract_a, const Dims& contract_b, DType result) {
  if (const auto factors = narrow(a, b)) {
    return dot_general(factors->first, factors->second, batch_a, batch_b, contract_a, contract_b,
                       result);
  }
  Dims dims;
  for (const std::int64_t axis : batch_a) dims.push_back(a.dims.at(static_cast<std::size_t>(axis)));
  Dims taken = batch_a;
  taken.insert(taken.end(), contract_a.begin(), contract_a.end());
  for (const std::int64_t dim : without(a.dims, taken)) dims.push_back(dim);
  taken = batch_b;
  taken.insert(taken.end(), contract_b.begin(), contract_b.end());
  for (const std::int64_t dim : without(b.dims, taken)) dims.push_back(dim);
  for (std::size_t i = 0; i < contract_a.size(); ++i) {
    require(a.dims.at(static_cast<std::size_t>(contract_a[i])) ==
                b.dims.at(static_cast<std::size_t>(contract_b[i])),
            "dot_general", "contracted sizes");
  }
  return emit("dot_general", {a, b},
              fmt::format("dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {}, "
                          "rhs_batching_dimensions = {}, lhs_contracting_dimensions = {}, "
                          "rhs_contracting_dimensions = {}>, {}",
                          list_attribute(batch_a), list_attribute(batch_b),
                          list_attribute(contract_a), list_attribute(contract_b), precision()),
              result, dims);
}

Hlo HloBuilder::matmul(const Hlo& a, const Hlo& b, DType result) {
  Dims batch(static_cast<std::size_t>(a.rank() - 2));
  std::iota(batch.begin(), batch.end(), 0);
  return dot_general(a, b, batch, batch, {a.rank() - 1}, {b.rank() - 2}, result);
}

Hlo HloBuilder::convolution(const Hlo& x, const Hlo& kernel, const ConvolutionSpec& spec,
                            DType result) {
  if (const auto factors = narrow(x, kernel)) {
    // Rounded once to 16 bits, as libraries of GPUs offer it; sums are float32 inside.
    const auto& [narrow_x, narrow_kernel] = *factors;
    return convert(convolution(narrow_x, narrow_kernel, spec, narrow_x.dtype), result);
  }
  const std::size_t spatial = x.dims.size() - 2;
  const auto at = [](std::string_view letters_of, char letter) { return letters_of.find(letter); };
  const Dims strides = or_ones(spec.strides, spatial);
  const Dims base = or_ones(spec.input_dilation, spatial);
  const Dims dilation = or_ones(spec.kernel_dilation, spatial);
  Dims dims(x.dims.size(), 0);
  dims[at(spec.output, 'b')] = x.dims[at(spec.input, 'b')];
  dims[at(spec.output, 'f')] = kernel.dims[at(spec.kernel, 'o')];
  for (std::size_t i = 0; i < spatial; ++i) {
    const char letter = static_cast<char>('0' + i);
    dims[at(spec.output, letter)] =
        window_count(x.dims[at(spec.input, letter)], kernel.dims[at(spec.kernel, letter)],
                     strides[i], dilation[i], spec.pads[i], base[i]);
  }
  return emit(
      "convolution", {x, kernel},
      fmt::format("batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<{}x{}"
                  "->{}>, feature_group_count = {} : i64, padding = {}, window_strides = "
                  "{}, lhs_dilation = {}, rhs_dilation = {}, window_reversal = array<i1{}{}>"
                  ", {}",
                  letters(spec.input), letters(spec.kernel), letters(spec.output), spec.groups,
                  pads_attribute(spec.pads), array_attribute(strides), array_attribute(base),
                  array_attribute(dilation), spatial == 0 ? "" : ": ",
                  fmt::join(std::vector<std::string>(spatial, "false"), ", "), precision()),
      result, dims);
}

Hlo HloBuilder::reduce(const Hlo& x, std::string_view op, const Dims& axes) {
  if (axes.empty()) return x;
  const Hlo init = neutral(op, x.dtype);
  return emit_many("reduce", {x, init}, "dimensions = " + array_attribute(axes),
                   combiner(op, x.dtype), {{x.dtype, without(x.dims, axes)}})[0];
}

Hlos HloBuilder::reduce_many(const Hlos& xs, const Hlos& inits, const Dims& axes,
                             const std::function<Hlos(const Hlos&)>& combine) {
  std::vector<std::pair<DType, Dims>> results;
  for (const Hlo& x : xs) results.emplace_back(x.dtype, without(x.dims, axes));
  const std::string text = region(scalar_types(inits, 2), combine);
  return emit_many("reduce", joined(xs, inits), "dimensions = " + array_attribute(axes), text,
                   results);
}

Hlo HloBuilder::reduce_window(const Hlo& x, std::string_view op, const Dims& window,
                              const Dims& strides, const Dims& dilations, const Pads& pads) {
  return reduce_window_many(
      {x}, {neutral(op, x.dtype)}, window, strides, dilations, pads,
      [&](const Hlos& args) { return Hlos{binary(op, args[0], args[1])}; })[0];
}

Hlos HloBuilder::reduce_window_many(const Hlos& xs, const Hlos& inits, const Dims& window,
                                    const Dims& strides, const Dims& dilations, const Pads& pads,
                                    const std::function<Hlos(const Hlos&)>& combine) {
  Dims dims;
  for (std::size_t i = 0; i < window.size(); ++i) {
    dims.push_back(window_count(xs[0].dims[i], window[i], strides[i], dilations[i], pads[i], 1));
  }
  std::vector<std::pair<DType, Dims>> results;
  for (const Hlo& x : xs) results.emplace_back(x.dtype, dims);
  const std::string text = region(scalar_types(inits, 2), combine);
  return emit_many("reduce_window", joined(xs, inits),
                   fmt::format("window_dimensions = {}, window_strides = {}, window_dilations = "
                               "{}, padding = {}",
                               array_attribute(window), array_attribute(strides),
                               array_attribute(dilations), pads_attribute(pads)),
                   text, results);
}

Hlo HloBuilder::scatter(const Hlo& operand, const Hlo& indices, const Hlo& updates,
                        const ScatterSpec& spec, std::string_view combine) {
  require(operand.dtype == updates.dtype, "scatter", "operands of two element types");
  return emit_many(
      "scatter", {operand, indices, updates},
      fmt::format("scatter_dimension_numbers = #stablehlo.scatter<"
                  "update_window_dims = {}, inserted_window_dims = {}, "
                  "scatter_dims_to_operand_dims = {}, index_vector_dim = {}>, "
                  "indices_are_sorted = false, unique_indices = false",
                  list_attribute(spec.update_window_dims),
                  list_attribute(spec.inserted_window_dims),
                  list_attribute(spec.scatter_dims_to_operand_dims), spec.index_vector_dim),
      combiner(combine, operand.dtype), {{operand.dtype, operand.dims}})[0];
}

Hlos HloBuilder::sort(const Hlos& xs, std::int64_t axis,
                      const std::function<Hlo(const Hlos&)>& before) {
  std::vector<std::pair<DType, Dims>> arguments;
  std::vector<std::pair<DType, Dims>> results;
  for (const Hlo& x : xs) {
    arguments.emplace_back(x.dtype, Dims{});
    arguments.emplace_back(x.dtype, Dims{});
    results.emplace_back(x.dtype, x.dims);
  }
  const std::string text = region(arguments, [&](const Hlos& args) { return Hlos{before(args)}; });
  return emit_many("sort", xs, fmt::format("dimension = {} : i64, is_stable = true", axis), text,
                   results);
}

Hlo HloBuilder::fft(const Hlo& x, std::string_view kind, const Dims& lengths) {
  DType dtype = x.dtype;
  Dims dims = x.dims;
  if (kind == "RFFT") {
    dtype = x.dtype == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128;
    dims.back() = lengths.back() / 2 + 1;
  } else if (kind == "IRFFT") {
    dtype = x.dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
    dims.back() = lengths.back();
  }
  return emit("fft", {x},
              fmt::format("fft_type = #stablehlo<fft_type {}>, fft_length = {}", kind,
                          array_attribute(lengths)),
              dtype, dims);
}

// --- control ------------------------------------------------------------------------------------

Hlos HloBuilder::while_loop(const Hlos& init, const std::function<Hlo(const Hlos&)>& condition,
                            const std::function<Hlos(const Hlos&)>& body) {
  std::vector<std::pair<DType, Dims>> types;
  for (const Hlo& value : init) types.emplace_back(value.dtype, value.dims);
  const std::string test = region(types, [&](const Hlos& args) { return Hlos{condition(args)}; });
  const std::string step = region(types, [&](const Hlos& args) {
    Hlos next = body(args);
    require(next.size() == init.size(), "while", "count of carried values");
    for (std::size_t i = 0; i < next.size(); ++i) {
      require(next[i].dtype == init[i].dtype && next[i].dims == init[i].dims, "while",
              "a carried value changes its type");
    }
    return next;
  });
  return emit_many("while", init, {}, fmt::format("{}, {}", test, step), types);
}

Hlos HloBuilder::if_else(const Hlo& predicate, const std::function<Hlos()>& then_branch,
                         const std::function<Hlos()>& else_branch) {
  std::vector<std::pair<DType, Dims>> types;
  const std::string yes = region({}, [&](const Hlos&) {
    Hlos results = then_branch();
    for (const Hlo& value : results) types.emplace_back(value.dtype, value.dims);
    return results;
  });
  const std::string no = region({}, [&](const Hlos&) {
    Hlos results = else_branch();
    require(results.size() == types.size(), "if", "the branches' counts of results");
    for (std::size_t i = 0; i < results.size(); ++i) {
      require(results[i].dtype == types[i].first && results[i].dims == types[i].second, "if",
              "the branches' types");
    }
    return results;
  });
  return emit_many("if", {predicate}, {}, fmt::format("{}, {}", yes, no), types);
}

}  // namespace xrt::xla
