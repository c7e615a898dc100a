// SPDX-License-Identifier: Apache-2.0
#include "engines/xla/hlo_builder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "engines/xla/hlo_text.h"

namespace xrt::xla {

std::string_view hlo_element_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "f32";
    case DType::kUInt8:
      return "ui8";
    case DType::kInt8:
      return "i8";
    case DType::kUInt16:
      return "ui16";
    case DType::kInt16:
      return "i16";
    case DType::kInt32:
      return "i32";
    case DType::kInt64:
      return "i64";
    case DType::kBool:
      return "i1";
    case DType::kFloat16:
      return "f16";
    case DType::kFloat64:
      return "f64";
    case DType::kUInt32:
      return "ui32";
    case DType::kUInt64:
      return "ui64";
    case DType::kComplex64:
      return "complex<f32>";
    case DType::kComplex128:
      return "complex<f64>";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat8E4M3FN:
      return "f8E4M3FN";
    case DType::kFloat8E4M3FNUZ:
      return "f8E4M3FNUZ";
    case DType::kFloat8E5M2:
      return "f8E5M2";
    case DType::kFloat8E5M2FNUZ:
      return "f8E5M2FNUZ";
    case DType::kUInt4:
      return "ui4";
    case DType::kInt4:
      return "i4";
    case DType::kFloat4E2M1:
      return "f4E2M1FN";
    case DType::kFloat8E8M0:
      return "f8E8M0FNU";
    case DType::kUInt2:
      return "ui2";
    case DType::kInt2:
      return "i2";
    case DType::kUndefined:
    case DType::kString:
      break;
  }
  return {};
}

std::string hlo_type(DType dtype, const Dims& dims) {
  std::string out = "tensor<";
  for (const std::int64_t dim : dims) out += fmt::format("{}x", dim);
  out += hlo_element_type(dtype);
  return out + ">";
}

// Hlo::copies of what an op makes. Those that XLA computes on their own begin anew.
std::int64_t copies_of(std::string_view op, const Hlos& operands) {
  constexpr auto kOnTheirOwn = std::to_array<std::string_view>(
      {"convolution", "custom_call", "dot_general", "fft", "func.call", "optimization_barrier",
       "reduce", "reduce_window", "scatter", "sort", "while"});
  if (std::find(kOnTheirOwn.begin(), kOnTheirOwn.end(), op) != kOnTheirOwn.end()) return 1;
  std::int64_t all = 0;
  std::int64_t most = 1;
  for (const Hlo& operand : operands) {
    all += operand.copies;
    most = std::max(most, operand.copies);
  }
  return op == "concatenate" ? all : most;
}

// --- module -------------------------------------------------------------------------------------

Hlo HloBuilder::make(DType dtype, Dims dims) { return Hlo{next_id_++, dtype, std::move(dims)}; }

void HloBuilder::line(std::string_view text) {
  if (!measure_only_) {
    body_ += text;
    body_ += '\n';
  }
}

Hlo HloBuilder::parameter(DType dtype, const Dims& dims, std::int64_t aliased_output) {
  Hlo value = make(dtype, dims);
  std::string text = fmt::format("%v{}: {}", value.id, hlo_type(dtype, dims));
  if (aliased_output >= 0)
    text += fmt::format(" {{tf.aliasing_output = {} : i32}}", aliased_output);
  parameters_.push_back(std::move(text));
  return value;
}

Hlo HloBuilder::weight(const std::string& key, DType dtype, const Dims& dims,
                       std::function<Tensor()> make_bytes) {
  if (const auto found = weights_by_key_.find(key); found != weights_by_key_.end()) {
    return found->second;
  }
  Hlo value = make(dtype, dims);
  weight_parameters_.push_back(fmt::format("%v{}: {}", value.id, hlo_type(dtype, dims)));
  weights_.push_back(HloWeight{dtype, dims, std::move(make_bytes)});
  weights_by_key_.emplace(key, value);
  return value;
}

std::string HloBuilder::finish(const Hlos& results) {
  std::vector<std::string> names;
  std::vector<std::string> types;
  for (const Hlo& result : results) {
    names.push_back(fmt::format("%v{}", result.id));
    types.push_back(hlo_type(result.dtype, result.dims));
  }
  std::vector<std::string> parameters = parameters_;
  parameters.insert(parameters.end(), weight_parameters_.begin(), weight_parameters_.end());
  std::string out = "module @xrt {\nfunc.func public @main(";
  out += fmt::format("{}) -> ({}) {{\n", fmt::join(parameters, ", "), fmt::join(types, ", "));
  out += body_;
  if (results.empty()) {
    out += "return\n}\n";
  } else {
    out += fmt::format("return {} : {}\n}}\n", fmt::join(names, ", "), fmt::join(types, ", "));
  }
  return out + functions_ + "}\n";
}

Hlos HloBuilder::call(std::string functions, std::string_view name, const Hlos& operands,
                      const std::vector<std::pair<DType, Dims>>& results) {
  if (!measure_only_) functions_ += std::move(functions) + "\n";
  return emit_many("func.call", operands, fmt::format("callee = @{}", name), {}, results);
}

Hlo HloBuilder::emit(std::string_view op, const Hlos& operands, std::string_view attributes,
                     DType dtype, Dims dims) {
  return emit_many(op, operands, attributes, {}, {{dtype, std::move(dims)}})[0];
}

Hlos HloBuilder::emit_many(std::string_view op, const Hlos& operands, std::string_view attributes,
                           std::string_view regions,
                           const std::vector<std::pair<DType, Dims>>& results) {
  const std::int32_t first = next_id_;
  Hlos values;
  const std::int64_t copies = copies_of(op, operands);
  for (const auto& [dtype, dims] : results) {
    require(!hlo_element_type(dtype).empty(), op, "no such element type");
    require(has_extent(dims), op, "a result whose sizes multiply beyond 64 bits");
    values.push_back(Hlo{first, dtype, dims, copies});
  }
  if (measure_only_) {
    for (Hlo& value : values) value.id = next_id_++;
    return values;
  }
  std::string names;
  std::string types;
  for (const Hlo& operand : operands) {
    require(operand.valid(), op, "an operand is missing");
    names += fmt::format("{}%v{}", names.empty() ? "" : ", ", operand.id);
    types += fmt::format("{}{}", types.empty() ? "" : ", ", hlo_type(operand.dtype, operand.dims));
  }
  std::string result_types;
  for (const auto& [dtype, dims] : results) {
    result_types += fmt::format("{}{}", result_types.empty() ? "" : ", ", hlo_type(dtype, dims));
  }
  const std::string tail = fmt::format(
      "\"{}{}\"({}) {}{}{}{} : ({}) -> ({})",
      op.find('.') == std::string_view::npos ? "stablehlo." : "", op, names,
      regions.empty() ? "" : fmt::format("({}) ", regions), attributes.empty() ? "" : "{",
      attributes, attributes.empty() ? "" : "}", types, result_types);
  if (values.size() == 1) {
    values[0].id = next_id_++;
    line(fmt::format("%v{} = {}", values[0].id, tail));
    return values;
  }
  // A pack of several results is named %v7:2; each gets an id of its own by way of a free op.
  const std::int32_t pack = next_id_++;
  line(fmt::format("%p{}:{} = {}", pack, values.size(), tail));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i].id = next_id_++;
    const std::string type = hlo_type(values[i].dtype, values[i].dims);
    line(fmt::format("%v{} = \"stablehlo.reshape\"(%p{}#{}) : ({}) -> {}", values[i].id, pack, i,
                     type, type));
  }
  return values;
}

Hlo HloBuilder::after(const Hlo& x, const Hlo& token) {
  return emit_many("optimization_barrier", {x, token}, "", "",
                   {{x.dtype, x.dims}, {token.dtype, token.dims}})[0];
}

Hlo HloBuilder::materialize(const Hlo& x) {
  return emit("optimization_barrier", {x}, "", x.dtype, x.dims);
}

std::string HloBuilder::region(const std::vector<std::pair<DType, Dims>>& arguments,
                               const std::function<Hlos(const Hlos&)>& body) {
  std::string outside = std::exchange(body_, {});
  ++region_depth_;
  Hlos values;
  std::string head;
  for (const auto& [dtype, dims] : arguments) {
    values.push_back(make(dtype, dims));
    head += fmt::format("{}%v{}: {}", head.empty() ? "" : ", ", values.back().id,
                        hlo_type(dtype, dims));
  }
  const Hlos results = body(values);
  --region_depth_;
  std::string names;
  std::string types;
  for (const Hlo& result : results) {
    names += fmt::format("{}%v{}", names.empty() ? "" : ", ", result.id);
    types += fmt::format("{}{}", types.empty() ? "" : ", ", hlo_type(result.dtype, result.dims));
  }
  std::string text = std::exchange(body_, std::move(outside));
  const std::string block = arguments.empty() ? "" : fmt::format("^bb0({}):\n", head);
  return fmt::format("{{\n{}{}\"stablehlo.return\"({}) : ({}) -> ()\n}}", block, text, names,
                     types);
}

std::string HloBuilder::combiner(std::string_view op, DType dtype) {
  return region({{dtype, {}}, {dtype, {}}}, [&](const Hlos& args) {
    return Hlos{op.empty() ? args[1] : binary(op, args[0], args[1])};
  });
}

// --- constants ----------------------------------------------------------------------------------

namespace {

// The bytes of a dense<"0x…"> literal.
std::string hex_bytes(const void* data, std::size_t size) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::string out = "0x";
  out.reserve(2 + 2 * size);
  for (std::size_t i = 0; i < size; ++i) {
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out;
}

// The value of the i-th element of a packed tensor (int4, uint4, int2, uint2, or float4's bits).
int packed_element(const Tensor& tensor, std::int64_t index) {
  const int bits = bit_width(tensor.dtype());
  const int per_byte = 8 / bits;
  const int raw = tensor.data<std::uint8_t>()[index / per_byte] >> (index % per_byte * bits) &
                  ((1 << bits) - 1);
  const bool negative = is_signed_integer(tensor.dtype()) && (raw >> (bits - 1)) != 0;
  return negative ? raw - (1 << bits) : raw;
}

DType carrier_of(DType packed) { return is_signed_integer(packed) ? DType::kInt8 : DType::kUInt8; }

}  // namespace

Hlo HloBuilder::constant(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  if (is_packed(dtype)) {
    // One element per byte in the module, then narrowed.
    Tensor bytes = Tensor::allocate(carrier_of(dtype), tensor.dims());
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      bytes.data<std::int8_t>()[i] = static_cast<std::int8_t>(packed_element(tensor, i));
    }
    const Hlo wide = constant(bytes);
    if (dtype != DType::kFloat4E2M1) return convert(wide, dtype);
    return bitcast(convert(wide, DType::kUInt4), dtype);
  }
  if (tensor.bytes() > kInlineBytes) {
    const std::string key =
        fmt::format("{}{}{}", tensor.raw(), to_string(dtype), to_string(tensor.dims()));
    return weight(key, dtype, tensor.dims(), [tensor] { return tensor; });
  }
  std::string literal;
  if (tensor.count() == 0) {
    literal = "";
  } else if (dtype == DType::kBool) {
    std::string values;
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      values += fmt::format("{}{}", i == 0 ? "" : ", ",
                            tensor.data<std::uint8_t>()[i] != 0 ? "true" : "false");
    }
    if (tensor.count() == 1) {
      literal = values;
    } else {
      // A flat list, then its shape.
      const Dims flat{tensor.count()};
      const Hlo list =
          emit("constant", {},
               fmt::format("value = dense<[{}]> : {}", values, hlo_type(dtype, flat)), dtype, flat);
      return reshape(list, tensor.dims());
    }
  } else {
    literal = fmt::format("\"{}\"", hex_bytes(tensor.raw(), tensor.bytes()));
  }
  return emit("constant", {},
              fmt::format("value = dense<{}> : {}", literal, hlo_type(dtype, tensor.dims())), dtype,
              tensor.dims());
}

Hlo HloBuilder::scalar(double value, DType dtype) {
  std::string literal;
  if (dtype == DType::kBool) {
    literal = value != 0 ? "true" : "false";
  } else if (dtype == DType::kComplex64 || dtype == DType::kComplex128) {
    const DType part = dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
    return complex(scalar(value, part), scalar(0, part));
  } else if (is_floating(dtype)) {
    if (std::isfinite(value)) {
      literal = fmt::format("{:.17e}", value);
    } else if (dtype == DType::kFloat64) {
      literal = std::isnan(value) ? "0x7FF8000000000000"
                                  : (value > 0 ? "0x7FF0000000000000" : "0xFFF0000000000000");
    } else if (dtype == DType::kFloat32) {
      literal = std::isnan(value) ? "0x7FC00000" : (value > 0 ? "0x7F800000" : "0xFF800000");
    } else {
      return convert(scalar(value, DType::kFloat32), dtype);
    }
  } else if (dtype == DType::kUInt64 && value >= 0x1p63) {
    literal = fmt::format("{}", value >= 0x1p64 ? std::numeric_limits<std::uint64_t>::max()
                                                : static_cast<std::uint64_t>(value));
  } else {
    literal = fmt::format("{}", value >= 0x1p63 ? std::numeric_limits<std::int64_t>::max()
                                                : static_cast<std::int64_t>(value));
  }
  const auto key = std::tuple(literal, dtype);
  if (region_depth_ == 0) {
    if (const auto found = scalars_.find(key); found != scalars_.end()) return found->second;
  }
  Hlo result = emit("constant", {},
                    fmt::format("value = dense<{}> : {}", literal, hlo_type(dtype, {})), dtype, {});
  if (region_depth_ == 0) scalars_.emplace(key, result);
  return result;
}

Hlo HloBuilder::splat(double value, DType dtype, const Dims& dims) {
  const Hlo element = scalar(value, dtype);
  return dims.empty() ? element : broadcast_in_dim(element, dims, {});
}

Hlo HloBuilder::integers(std::span<const std::int64_t> values, DType dtype) {
  return convert(constant(Tensor::from_int64(values)), dtype);
}

Hlo HloBuilder::iota(DType dtype, const Dims& dims, std::int64_t axis) {
  require(axis >= 0 && axis < static_cast<std::int64_t>(dims.size()), "iota", "axis out of range");
  return emit("iota", {}, fmt::format("iota_dimension = {} : i64", axis), dtype, dims);
}

// --- elementwise --------------------------------------------------------------------------------

Hlo HloBuilder::unary(std::string_view op, const Hlo& x) {
  DType dtype = x.dtype;
  if (op == "abs" && dtype == DType::kComplex64) dtype = DType::kFloat32;
  if (op == "abs" && dtype == DType::kComplex128) dtype = DType::kFloat64;
  return emit(op, {x}, {}, dtype, x.dims);
}

Hlo HloBuilder::binary(std::string_view op, const Hlo& a, const Hlo& b) {
  require(a.dtype == b.dtype, op, "operands of two element types");
  require(a.dims == b.dims, op,
          fmt::format("operands of shapes {} and {}", to_string(a.dims), to_string(b.dims)));
  return emit(op, {a, b}, {}, a.dtype, a.dims);
}

Hlo HloBuilder::compare(std::string_view direction, const Hlo& a, const Hlo& b, bool total_order) {
  require(a.dtype == b.dtype && a.dims == b.dims, "compare", "operands of two types");
  std::string_view kind = "SIGNED";
  if (total_order) {
    kind = "TOTALORDER";
  } else if (is_floating(a.dtype) || a.dtype == DType::kComplex64 ||
             a.dtype == DType::kComplex128) {
    kind = "FLOAT";
  } else if (!is_signed_integer(a.dtype)) {
    kind = "UNSIGNED";
  }
  return emit("compare", {a, b},
              fmt::format("comparison_direction = #stablehlo<comparison_direction {}>, "
                          "compare_type = #stablehlo<comparison_type {}>",
                          direction, kind),
              DType::kBool, a.dims);
}

Hlo HloBuilder::select(const Hlo& predicate, const Hlo& on_true, const Hlo& on_false) {
  require(predicate.dtype == DType::kBool && predicate.dims == on_true.dims, "select",
          "the predicate's type");
  require(on_true.dtype == on_false.dtype && on_true.dims == on_false.dims, "select",
          "operands of two types");
  return emit("select", {predicate, on_true, on_false}, {}, on_true.dtype, on_true.dims);
}

Hlo HloBuilder::convert(const Hlo& x, DType dtype) {
  if (x.dtype == dtype) return x;
  Hlo made = emit("convert", {x}, {}, dtype, x.dims);
  const bool is_narrow = x.dtype == DType::kFloat16 || x.dtype == DType::kBFloat16;
  if (products_.narrow && is_narrow && dtype == DType::kFloat32) widened_[made.id] = x;
  return made;
}

Hlo HloBuilder::bitcast(const Hlo& x, DType dtype) {
  require(bit_width(x.dtype) == bit_width(dtype), "bitcast_convert", "two widths");
  return x.dtype == dtype ? x : emit("bitcast_convert", {x}, {}, dtype, x.dims);
}

Hlo HloBuilder::is_finite(const Hlo& x) { return emit("is_finite", {x}, {}, DType::kBool, x.dims); }

Hlo HloBuilder::complex(const Hlo& real, const Hlo& imag) {
  require(real.dtype == imag.dtype && real.dims == imag.dims, "complex", "operands of two types");
  return emit("complex", {real, imag}, {},
              real.dtype == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128, real.dims);
}

Hlo HloBuilder::real(const Hlo& x) {
  return emit("real", {x}, {}, x.dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64,
              x.dims);
}

Hlo HloBuilder::imag(const Hlo& x) {
  return emit("imag", {x}, {}, x.dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64,
              x.dims);
}

// --- shape --------------------------------------------------------------------------------------

Hlo HloBuilder::reshape(const Hlo& x, const Dims& dims) {
  if (x.dims == dims) return x;
  require(element_count(x.dims) == element_count(dims), "reshape",
          fmt::format("{} to {}", to_string(x.dims), to_string(dims)));
  return emit("reshape", {x}, {}, x.dtype, dims);
}

Hlo HloBuilder::transpose(const Hlo& x, const Dims& permutation) {
  require(permutation.size() == x.dims.size(), "transpose", "rank of the permutation");
  Dims dims;
  bool identity = true;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    dims.push_back(x.dims.at(static_cast<std::size_t>(permutation[i])));
    identity = identity && permutation[i] == static_cast<std::int64_t>(i);
  }
  if (identity) return x;
  return emit("transpose", {x}, "permutation = " + array_attribute(permutation), x.dtype, dims);
}

Hlo HloBuilder::broadcast_in_dim(const Hlo& x, const Dims& dims, const Dims& dims_map) {
  require(dims_map.size() == x.dims.size(), "broadcast_in_dim", "rank of the map");
  for (std::size_t i = 0; i < dims_map.size(); ++i) {
    const std::int64_t size = dims.at(static_cast<std::size_t>(dims_map[i]));
    require(x.dims[i] == 1 || x.dims[i] == size, "broadcast_in_dim", "sizes");
  }
  if (x.dims == dims) return x;
  return emit("broadcast_in_dim", {x}, "broadcast_dimensions = " + array_attribute(dims_map),
              x.dtype, dims);
}

Hlo HloBuilder::broadcast_to(const Hlo& x, const Dims& dims) {
  require(x.dims.size() <= dims.size(), "broadcast", "a smaller rank");
  Dims map(x.dims.size());
  std::iota(map.begin(), map.end(), static_cast<std::int64_t>(dims.size() - x.dims.size()));
  return broadcast_in_dim(x, dims, map);
}

Hlo HloBuilder::slice(const Hlo& x, const Dims& starts, const Dims& limits, const Dims& strides) {
  const Dims steps = or_ones(strides, x.dims.size());
  require(starts.size() == x.dims.size() && limits.size() == x.dims.size(), "slice", "rank");
  Dims dims;
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    require(0 <= starts[i] && starts[i] <= limits[i] && limits[i] <= x.dims[i] && steps[i] > 0,
            "slice", "bounds");
    dims.push_back((limits[i] - starts[i] + steps[i] - 1) / steps[i]);
  }
  if (dims == x.dims) return x;
  return emit("slice", {x},
              fmt::format("start_indices = {}, limit_indices = {}, strides = {}",
                          array_attribute(starts), array_attribute(limits), array_attribute(steps)),
              x.dtype, dims);
}

Hlo HloBuilder::slice_axis(const Hlo& x, std::int64_t axis, std::int64_t start,
                           std::int64_t limit) {
  Dims starts(x.dims.size(), 0);
  Dims limits = x.dims;
  starts.at(static_cast<std::size_t>(axis)) = start;
  limits.at(static_cast<std::size_t>(axis)) = limit;
  return slice(x, starts, limits);
}

Hlo HloBuilder::pad(const Hlo& x, const Hlo& value, const Dims& low, const Dims& high,
                    const Dims& interior) {
  const Dims between = interior.empty() ? Dims(x.dims.size(), 0) : interior;
  Dims dims;
  bool nothing = true;
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    // XLA may add them one after the other.
    constexpr std::int64_t kMost = std::int64_t{1} << 60;
    require(std::max(low[i], high[i]) < kMost && std::min(low[i], high[i]) > -kMost, "pad",
            "more padding than a tensor can have");
    dims.push_back(x.dims[i] + low[i] + high[i] +
                   (x.dims[i] > 0 ? (x.dims[i] - 1) * between[i] : 0));
    require(dims.back() >= 0, "pad", "a negative size");
    nothing = nothing && low[i] == 0 && high[i] == 0 && between[i] == 0;
  }
  if (nothing) return x;
  return emit("pad", {x, value},
              fmt::format("edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}",
                          array_attribute(low), array_attribute(high), array_attribute(between)),
              x.dtype, dims);
}

Hlo HloBuilder::concatenate(const Hlos& parts, std::int64_t axis) {
  require(!parts.empty(), "concatenate", "no operand");
  if (parts.size() == 1) return parts[0];
  Dims dims = parts[0].dims;
  const auto at = static_cast<std::size_t>(axis);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    require(parts[i].dtype == parts[0].dtype && parts[i].rank() == parts[0].rank(), "concatenate",
            "operands of two types");
    dims.at(at) += parts[i].dims.at(at);
  }
  // Twelve nested ones of two operands take XLA 0.2 s to compile, and twice that for each more.
  constexpr std::int64_t kMostCopies = 16;
  const bool is_nested =
      std::any_of(parts.begin(), parts.end(), [](const Hlo& part) { return part.copies > 1; });
  const Hlo whole =
      emit("concatenate", parts, fmt::format("dimension = {} : i64", axis), parts[0].dtype, dims);
  return is_nested && whole.copies > kMostCopies ? materialize(whole) : whole;
}

Hlo HloBuilder::reverse(const Hlo& x, const Dims& axes) {
  if (axes.empty()) return x;
  return emit("reverse", {x}, "dimensions = " + array_attribute(axes), x.dtype, x.dims);
}

Hlo HloBuilder::dynamic_slice(const Hlo& x, const Hlos& starts, const Dims& sizes) {
  Hlos operands{x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return emit("dynamic_slice", operands, "slice_sizes = " + array_attribute(sizes), x.dtype, sizes);
}

Hlo HloBuilder::dynamic_update_slice(const Hlo& x, const Hlo& update, const Hlos& starts) {
  require(x.dtype == update.dtype, "dynamic_update_slice", "operands of two element types");
  Hlos operands{x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return emit("dynamic_update_slice", operands, {}, x.dtype, x.dims);
}

}  // namespace xrt::xla
