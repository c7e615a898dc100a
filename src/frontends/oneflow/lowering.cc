// SPDX-License-Identifier: Apache-2.0
#include "frontends/oneflow/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>

#include "ir/type_merge.h"
#include "xrt/error.h"

namespace xrt::oneflow {
namespace {

// Types are only said in the text. Within these bounds sums and products of a few of them stay in
// 64 bits: 2^48 elements, with a size of 2^31.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 31, kMaxElements = std::int64_t{1} << 48;

// Constants of more elements are not looked up again.
constexpr std::size_t kMaxShared = 16;

std::string plain_name(const std::string& op) {
  return op.starts_with("oneflow.") ? op.substr(8) : op;
}

template <typename T>
Tensor filled_tensor(DType dtype, const Dims& shape, T number) {
  Tensor tensor = Tensor::allocate(dtype, shape);
  std::fill_n(tensor.data<T>(), tensor.count(), number);
  return tensor;
}

}  // namespace

Lowering::Lowering(JobState& state, const Operation& operation)
    : state_(state), operation_(operation) {
  instance_ = text("op_name", plain_name(operation.name));
  const auto segments = [&](std::string_view name, std::size_t total) {
    std::vector<std::size_t> sizes;
    if (!has_attribute(name)) return sizes;
    std::size_t sum = 0;
    for (const std::int64_t size : integers(name)) {
      if (size < 0) invalid(fmt::format("{} holds {}", name, size));
      sizes.push_back(static_cast<std::size_t>(size));
      sum += sizes.back();
    }
    if (sum != total) {
      invalid(fmt::format("{} says {} values, there are {}", name, sum, total));
    }
    return sizes;
  };
  operand_segments_ = segments("operand_segment_sizes", operation.operands.size());
  result_segments_ = segments("result_segment_sizes", operation.results.size());
}

std::string Lowering::where() const {
  return fmt::format("'{}' ({}, {})", instance_, operation_.name, to_string(operation_.place));
}

void Lowering::invalid(const std::string& what) const {
  throw Error(ErrorCode::kInvalidModel, where() + ": " + what);
}

void Lowering::unsupported(const std::string& what) const {
  throw Error(ErrorCode::kUnsupported, where() + ": " + what);
}

// --- operands -----------------------------------------------------------------------------------

std::size_t Lowering::count(std::size_t segment) const {
  if (operand_segments_.empty()) return segment < operation_.operands.size() ? 1 : 0;
  return segment < operand_segments_.size() ? operand_segments_[segment] : 0;
}

std::int32_t Lowering::operand(std::size_t segment, std::size_t index) const {
  if (index >= count(segment)) {
    invalid(fmt::format("it has {} operands; operand {} is missing", operation_.operands.size(),
                        segment));
  }
  const std::size_t first =
      operand_segments_.empty()
          ? segment
          : std::accumulate(operand_segments_.begin(),
                            operand_segments_.begin() + static_cast<std::ptrdiff_t>(segment),
                            std::size_t{0});
  return operation_.operands[first + index];
}

ValueId Lowering::in(std::size_t segment, std::size_t index) const {
  const ValueId id = state_.values[static_cast<std::size_t>(operand(segment, index))];
  if (!id.valid()) {
    unsupported(
        fmt::format("operand {} comes from an operation whose result was left out", segment));
  }
  return id;
}

std::vector<ValueId> Lowering::flat(std::size_t least) const {
  if (operands() < least) {
    invalid(fmt::format("it has {} operands; {} are needed", operands(), least));
  }
  std::vector<ValueId> ids;
  for (const std::int32_t value : operation_.operands) {
    ids.push_back(state_.values[static_cast<std::size_t>(value)]);
    if (!ids.back().valid()) unsupported("an operand comes from a result that was left out");
  }
  return ids;
}

const Type& Lowering::type(std::size_t segment, std::size_t index) const {
  return state_.job.values[static_cast<std::size_t>(operand(segment, index))];
}

Dims Lowering::bounded(const Type& type, const std::string& what) const {
  auto dims = type.static_dims();
  if (!dims) {
    unsupported(fmt::format("{} is {}; a known shape is needed", what, xrt::to_string(type)));
  }
  std::int64_t elements = 1;
  for (const std::int64_t dim : *dims) {
    if (dim > kMaxSize || elements > kMaxElements / std::max<std::int64_t>(dim, 1)) {
      unsupported(fmt::format("{} is {}, which is too large", what, xrt::to_string(type)));
    }
    elements *= std::max<std::int64_t>(dim, 1);
  }
  return *std::move(dims);
}

Dims Lowering::dims(std::size_t segment) const {
  return bounded(type(segment), fmt::format("operand {}", segment));
}

Dims Lowering::dims(std::size_t segment, std::size_t least) const {
  Dims found = dims(segment);
  if (found.size() < least) {
    invalid(fmt::format("operand {} is {}; {} dimensions are needed", segment,
                        xrt::to_string(type(segment)), least));
  }
  return found;
}

std::int64_t Lowering::rank(std::size_t segment) const {
  if (!type(segment).has_rank()) {
    unsupported(fmt::format("operand {} is of unknown rank", segment));
  }
  return static_cast<std::int64_t>(type(segment).rank());
}

std::int64_t Lowering::axis(std::int64_t axis, std::int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    invalid(fmt::format("axis {} is outside of a tensor of rank {}", axis, rank));
  }
  return axis < 0 ? axis + rank : axis;
}

// --- results ------------------------------------------------------------------------------------

std::int32_t Lowering::result_value(std::size_t segment, std::size_t index) const {
  std::size_t at = segment + index;
  if (!result_segments_.empty()) {
    if (segment >= result_segments_.size() || index >= result_segments_[segment]) return -1;
    at = index;
    for (std::size_t i = 0; i < segment; ++i) at += result_segments_[i];
  }
  return at < operation_.results.size() ? operation_.results[at] : -1;
}

bool Lowering::wanted(std::size_t segment) const {
  const std::int32_t value = result_value(segment, 0);
  return value >= 0 && state_.use_count[static_cast<std::size_t>(value)] > 0;
}

const Type& Lowering::result_type(std::size_t segment, std::size_t index) const {
  const std::int32_t value = result_value(segment, index);
  if (value < 0) invalid(fmt::format("result {} is missing", segment));
  return state_.job.values[static_cast<std::size_t>(value)];
}

Dims Lowering::result_dims(std::size_t segment) const {
  return bounded(result_type(segment), fmt::format("result {}", segment));
}

void Lowering::result(std::size_t segment, ValueId value, std::size_t index) {
  const std::int32_t at = result_value(segment, index);
  if (at < 0) return;
  state_.values[static_cast<std::size_t>(at)] = value;
  const Type& declared = state_.job.values[static_cast<std::size_t>(at)];
  if (declared.dtype == DType::kUndefined) return;
  // What OneFlow says of its result checks the lowering: of a new node when shapes are inferred.
  const Type& known = state_.graph.type(value);
  if (known.dtype == DType::kUndefined) {
    state_.graph.set_type(value, declared);
  } else if (!merge_types(known, declared)) {
    invalid(fmt::format("result {} is said to be {}, but is {}", segment, xrt::to_string(declared),
                        xrt::to_string(known)));
  }
}

bool Lowering::is_variable(std::size_t segment) const {
  return state_.variables.contains(operand(segment, 0));
}

void Lowering::update(std::size_t segment, ValueId value) {
  if (!is_variable(segment)) {
    unsupported(fmt::format("it writes operand {}, which is no variable", segment));
  }
  state_.updates[operand(segment, 0)] = value;
}

ValueId Lowering::current(std::size_t segment) const {
  const auto it = state_.updates.find(operand(segment, 0));
  return it == state_.updates.end() ? in(segment) : it->second;
}

ValueId Lowering::add_schedule() {
  const ValueId id =
      state_.graph.add_input(instance_, Type::tensor(DType::kFloat32, Shape{Dim(1)}));
  state_.schedules.push_back(state_.graph.value(id).name);
  return id;
}

// --- attributes ---------------------------------------------------------------------------------

const Attribute* Lowering::find(std::string_view name) const {
  const auto it = operation_.attributes.find(name);
  return it == operation_.attributes.end() ? nullptr : &it->second;
}

bool Lowering::has_attribute(std::string_view name) const { return find(name) != nullptr; }

std::int64_t Lowering::integer(std::string_view name, std::int64_t fallback) const {
  return find(name) == nullptr ? fallback : integer(name);
}

std::int64_t Lowering::integer(std::string_view name) const {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) invalid(fmt::format("attribute '{}' is missing", name));
  if (const auto* value = std::get_if<std::int64_t>(&attribute->value)) return *value;
  invalid(fmt::format("attribute '{}' is not an integer", name));
}

double Lowering::real(std::string_view name, double fallback) const {
  return find(name) == nullptr ? fallback : real(name);
}

double Lowering::real(std::string_view name) const {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) invalid(fmt::format("attribute '{}' is missing", name));
  if (const auto* value = std::get_if<double>(&attribute->value)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&attribute->value)) {
    return static_cast<double>(*value);
  }
  invalid(fmt::format("attribute '{}' is not a number", name));
}

bool Lowering::flag(std::string_view name, bool fallback) const {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) return fallback;
  if (const auto* value = std::get_if<bool>(&attribute->value)) return *value;
  invalid(fmt::format("attribute '{}' is neither true nor false", name));
}

std::string Lowering::text(std::string_view name, std::string_view fallback) const {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) return std::string(fallback);
  if (const auto* value = std::get_if<std::string>(&attribute->value)) return *value;
  throw Error(ErrorCode::kInvalidModel,
              fmt::format("{}, {}: attribute '{}' is not a string", operation_.name,
                          to_string(operation_.place), name));
}

std::vector<std::int64_t> Lowering::integers(std::string_view name) const {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) invalid(fmt::format("attribute '{}' is missing", name));
  const auto* list = std::get_if<AttributeList>(&attribute->value);
  if (list == nullptr) invalid(fmt::format("attribute '{}' is not a list", name));
  std::vector<std::int64_t> numbers;
  for (const Attribute& item : *list) {
    const auto* number = std::get_if<std::int64_t>(&item.value);
    if (number == nullptr) invalid(fmt::format("attribute '{}' is not a list of integers", name));
    numbers.push_back(*number);
  }
  return numbers;
}

void Lowering::check_size(std::string_view name, std::int64_t size) const {
  if (size < -kMaxSize || size > kMaxSize) {
    invalid(fmt::format("attribute '{}' holds {}, which is too large", name, size));
  }
}

std::int64_t Lowering::size(std::string_view name) const {
  const std::int64_t found = integer(name);
  check_size(name, found);
  return found;
}

std::vector<std::int64_t> Lowering::sizes(std::string_view name) const {
  std::vector<std::int64_t> found = integers(name);
  for (const std::int64_t size : found) check_size(name, size);
  return found;
}

std::size_t Lowering::table_size(std::int64_t count) const {
  constexpr std::int64_t kMaxEntries = std::int64_t{1} << 24;
  if (count < 0 || count > kMaxEntries) {
    unsupported(fmt::format("a table of {} entries would have to be made", count));
  }
  return static_cast<std::size_t>(count);
}

// --- building -----------------------------------------------------------------------------------

ValueId Lowering::op(std::string_view op, std::vector<ValueId> inputs, Attributes attributes) {
  return ops(op, std::move(inputs), 1, std::move(attributes)).front();
}

std::vector<ValueId> Lowering::ops(std::string_view op, std::vector<ValueId> inputs,
                                   std::size_t outputs, Attributes attributes) {
  const std::vector<std::string> names(outputs, instance_);
  const NodeId node =
      state_.graph.add_node("", op, std::move(inputs), names, std::move(attributes), instance_);
  return state_.graph.node(node).outputs;
}

ValueId Lowering::constant(Tensor tensor) {
  return state_.graph.add_constant(instance_ + "/constant", std::move(tensor));
}

ValueId Lowering::scalar(Number number, DType dtype) { return filled({}, number, dtype); }

ValueId Lowering::ints(const std::vector<std::int64_t>& numbers) {
  if (numbers.size() > kMaxShared) return constant(Tensor::from_int64(numbers));
  ValueId& id = state_.constants[fmt::format("ints {}", fmt::join(numbers, ","))];
  if (!id.valid()) id = constant(Tensor::from_int64(numbers));
  return id;
}

template <typename T>
T Lowering::converted(Number number, DType dtype) const {
  if constexpr (std::is_same_v<T, bool>) {
    return std::visit([](auto n) { return n != 0; }, number);
  } else if constexpr (std::is_integral_v<T>) {
    if (const auto* whole = std::get_if<std::int64_t>(&number)) {
      if (std::in_range<T>(*whole)) return static_cast<T>(*whole);
    } else {
      // The bounds as powers of two, which double holds exactly.
      const double real = std::get<double>(number);
      const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
      if (real > (std::is_signed_v<T> ? -end - 1 : -1) && real < end) return static_cast<T>(real);
      if (std::is_signed_v<T> && real == -end) return std::numeric_limits<T>::min();
    }
    invalid(fmt::format("{} is outside of {}",
                        std::visit([](auto n) { return fmt::to_string(n); }, number),
                        xrt::to_string(dtype)));
  } else {
    return std::visit([](auto n) { return static_cast<T>(n); }, number);
  }
}

ValueId Lowering::filled(const Dims& shape, Number number, DType dtype) {
  if (!shape.empty()) table_size(element_count(shape));
  const std::uint64_t bits =
      std::visit([](auto n) { return std::bit_cast<std::uint64_t>(n); }, number);
  ValueId& id = state_.constants[fmt::format("{} {} {}{:x}", xrt::to_string(dtype),
                                             fmt::join(shape, ","), number.index(), bits)];
  if (id.valid()) return id;
  const auto made = [&](auto type) {
    using T = decltype(type);
    return constant(filled_tensor<T>(dtype, shape, converted<T>(number, dtype)));
  };
  switch (dtype) {
    case DType::kFloat64:
      return id = made(double{});
    case DType::kFloat32:
      return id = made(float{});
    case DType::kInt64:
      return id = made(std::int64_t{});
    case DType::kInt32:
      return id = made(std::int32_t{});
    case DType::kInt16:
      return id = made(std::int16_t{});
    case DType::kInt8:
      return id = made(std::int8_t{});
    case DType::kUInt64:
      return id = made(std::uint64_t{});
    case DType::kUInt32:
      return id = made(std::uint32_t{});
    case DType::kUInt16:
      return id = made(std::uint16_t{});
    case DType::kUInt8:
      return id = made(std::uint8_t{});
    case DType::kBool:
      return id = made(bool{});
    case DType::kFloat16:
    case DType::kBFloat16: {
      const ValueId wide =
          constant(filled_tensor<float>(DType::kFloat32, shape, converted<float>(number, dtype)));
      return id = cast(wide, dtype);
    }
    default:
      unsupported(fmt::format("a constant of type {}", xrt::to_string(dtype)));
  }
}

ValueId Lowering::cast(ValueId x, DType to) {
  return op("Cast", {x}, {{"to", static_cast<std::int64_t>(to)}});
}

ValueId Lowering::reshape(ValueId x, const Dims& shape) {
  Attributes attributes;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    attributes["allowzero"] = std::int64_t{1};
  }
  return op("Reshape", {x, ints(shape)}, std::move(attributes));
}

ValueId Lowering::transpose(ValueId x, const std::vector<std::int64_t>& permutation) {
  bool same = true;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    same = same && permutation[i] == static_cast<std::int64_t>(i);
  }
  return same ? x : op("Transpose", {x}, {{"perm", permutation}});
}

ValueId Lowering::unsqueeze(ValueId x, const std::vector<std::int64_t>& axes) {
  return axes.empty() ? x : op("Unsqueeze", {x, ints(axes)});
}

ValueId Lowering::slice(ValueId x, const std::vector<std::int64_t>& starts,
                        const std::vector<std::int64_t>& ends,
                        const std::vector<std::int64_t>& axes) {
  return op("Slice", {x, ints(starts), ints(ends), ints(axes)});
}

ValueId Lowering::reduce(std::string_view name, ValueId x, const std::vector<std::int64_t>& axes,
                         bool keep_dims) {
  Attributes attributes{{"keepdims", static_cast<std::int64_t>(keep_dims)}};
  if (axes.empty()) attributes["noop_with_empty_axes"] = std::int64_t{1};
  return op(name, {x, ints(axes)}, std::move(attributes));
}

}  // namespace xrt::oneflow
