// SPDX-License-Identifier: Apache-2.0
#include "engines/tensorrt/net.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/half.h"
#include "xrt/error.h"

namespace xrt::tensorrt {

namespace nv = nvinfer1;

namespace {

constexpr std::array<std::pair<DType, nv::DataType>, 10> kTypes = {{
    {DType::kFloat32, nv::DataType::kFLOAT},
    {DType::kFloat16, nv::DataType::kHALF},
    {DType::kBFloat16, nv::DataType::kBF16},
    {DType::kInt32, nv::DataType::kINT32},
    {DType::kInt64, nv::DataType::kINT64},
    {DType::kBool, nv::DataType::kBOOL},
    {DType::kInt8, nv::DataType::kINT8},
    {DType::kUInt8, nv::DataType::kUINT8},
    {DType::kFloat8E4M3FN, nv::DataType::kFP8},
    {DType::kInt4, nv::DataType::kINT4},
}};

std::uint32_t mask_of(const Dims& axes) {
  std::uint32_t mask = 0;
  for (const std::int64_t axis : axes) mask |= 1U << static_cast<std::uint32_t>(axis);
  return mask;
}

}  // namespace

nv::DataType to_trt(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  throw Refusal{fmt::format("TensorRT has no {}", to_string(dtype))};
}

bool has_trt_type(DType dtype) {
  return std::any_of(kTypes.begin(), kTypes.end(),
                     [&](const auto& pair) { return pair.first == dtype; });
}

DType from_trt(nv::DataType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  return DType::kUndefined;
}

nv::Dims to_trt(const Dims& dims) {
  if (dims.size() > static_cast<std::size_t>(nv::Dims::MAX_DIMS)) {
    throw Refusal{fmt::format("rank {} is above TensorRT's limit of 8", dims.size())};
  }
  nv::Dims out{};
  out.nbDims = static_cast<std::int32_t>(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) out.d[i] = dims[i];
  return out;
}

Dims dims_of(Value x) {
  const nv::Dims dims = x->getDimensions();
  return {dims.d, dims.d + std::max(0, dims.nbDims)};
}

DType dtype_of(Value x) { return from_trt(x->getType()); }
std::int64_t rank_of(Value x) { return x->getDimensions().nbDims; }

bool is_static(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](std::int64_t d) { return d >= 0; });
}

Extent::Extent(Value x, std::int64_t k) : value(dims_of(x).at(static_cast<std::size_t>(k))) {
  if (value >= 0) return;
  of = x;
  axis = k;
}

Extents extents_of(Value x) {
  Extents out;
  for (std::int64_t i = 0; i < rank_of(x); ++i) out.emplace_back(x, i);
  return out;
}

void Net::refuse(std::string_view what) {
  const std::string why = logger().take_error();
  throw Refusal{why.empty() ? fmt::format("TensorRT refuses {}", what)
                            : fmt::format("TensorRT refuses {}: {}", what, why)};
}

Value Net::out(nv::ILayer* layer, int k) {
  Value value = layer->getOutput(k);
  if (value == nullptr || value->getDimensions().nbDims < 0) refuse(layer->getName());
  if (from_trt(value->getType()) == DType::kUndefined) refuse("the type of its result");
  return value;
}

// --- constants ----------------------------------------------------------------------------------

nv::Weights Net::weights(const Tensor& tensor) {
  const Tensor& kept = weights_.emplace_back(tensor);
  return {to_trt(kept.dtype()), kept.raw(), kept.count()};
}

Value Net::constant(const Tensor& tensor) {
  nv::IConstantLayer* layer =
      made(network_.addConstant(to_trt(tensor.dims()), weights(tensor)), "a constant");
  layer->setName(fmt::format("w{}", weights_.size() - 1).c_str());
  return out(layer);
}

Value Net::scalar(DType dtype, double value, std::int64_t rank) {
  Tensor tensor = Tensor::allocate(dtype, Dims(static_cast<std::size_t>(rank), 1));
  switch (dtype) {
    case DType::kFloat32:
      tensor.data<float>()[0] = static_cast<float>(value);
      break;
    case DType::kFloat16:
      tensor.data<std::uint16_t>()[0] = float_to_half(static_cast<float>(value));
      break;
    case DType::kBFloat16:
      tensor.data<std::uint16_t>()[0] = float_to_bfloat16(static_cast<float>(value));
      break;
    case DType::kInt32:
      tensor.data<std::int32_t>()[0] = static_cast<std::int32_t>(value);
      break;
    case DType::kInt64:
      tensor.data<std::int64_t>()[0] = static_cast<std::int64_t>(value);
      break;
    case DType::kBool:
      tensor.data<bool>()[0] = value != 0;
      break;
    case DType::kInt8:
      tensor.data<std::int8_t>()[0] = static_cast<std::int8_t>(value);
      break;
    default:
      throw Refusal{fmt::format("a number of type {}", to_string(dtype))};
  }
  return constant(tensor);
}

Value Net::integers(const Dims& values) { return constant(Tensor::from_int64(values)); }

// --- elementwise --------------------------------------------------------------------------------

Value Net::unary(Value x, UN op) { return out(made(network_.addUnary(*x, op), "a unary layer")); }

Value Net::binary(Value a, Value b, EW op) {
  const std::int64_t rank = std::max(rank_of(a), rank_of(b));
  return out(made(network_.addElementWise(*pad_rank(a, rank), *pad_rank(b, rank), op),
                  "an elementwise layer"));
}

Value Net::binary(Value a, double b, EW op) {
  return binary(a, scalar(dtype_of(a), b, rank_of(a)), op);
}

Value Net::activation(Value x, ACT type, float alpha, float beta) {
  nv::IActivationLayer* layer = made(network_.addActivation(*x, type), "an activation");
  layer->setAlpha(alpha);
  layer->setBeta(beta);
  return out(layer);
}

Value Net::select(Value condition, Value yes, Value no) {
  const std::int64_t rank = std::max({rank_of(condition), rank_of(yes), rank_of(no)});
  return out(made(
      network_.addSelect(*pad_rank(condition, rank), *pad_rank(yes, rank), *pad_rank(no, rank)),
      "a select layer"));
}

Value Net::cast(Value x, DType dtype) {
  if (dtype_of(x) == dtype) return x;
  return out(made(network_.addCast(*x, to_trt(dtype)), "a cast"));
}

// --- shape --------------------------------------------------------------------------------------

Value Net::shape(const Extents& extents) {
  if (std::all_of(extents.begin(), extents.end(), [](const Extent& e) { return e.value >= 0; })) {
    Dims numbers;
    for (const Extent& e : extents) numbers.push_back(e.value);
    return integers(numbers);
  }
  std::vector<Value> parts;
  for (const Extent& e : extents) {
    if (e.value >= 0) {
      parts.push_back(integers({e.value}));
    } else {
      if (e.of == nullptr) throw Refusal{"a shape that only the run could know"};
      // TensorRT 10 and newer give shapes as int64.
      const Value all = out(made(network_.addShape(*e.of), "a shape layer"));
      parts.push_back(slice(all, {e.axis}, {1}, {1}));
    }
  }
  return parts.size() == 1 ? parts.front() : concat(parts, 0);
}

Value Net::reshape(Value x, const Extents& extents) {
  nv::IShuffleLayer* layer = made(network_.addShuffle(*x), "a shuffle layer");
  layer->setZeroIsPlaceholder(false);
  Dims numbers;
  for (const Extent& e : extents) numbers.push_back(e.value);
  // One unknown dimension is what is left over, unless the product of the others is zero.
  const auto unknown = std::count(numbers.begin(), numbers.end(), -1);
  const bool empty = std::count(numbers.begin(), numbers.end(), 0) > 0;
  if (unknown == 0 || (unknown == 1 && !empty)) {
    layer->setReshapeDimensions(to_trt(numbers));
  } else {
    layer->setInput(1, *shape(extents));
  }
  return out(layer);
}

Value Net::pad_rank(Value x, std::int64_t rank) {
  const std::int64_t missing = rank - rank_of(x);
  if (missing <= 0) return x;
  Extents extents(static_cast<std::size_t>(missing), Extent(1));
  for (const Extent& e : extents_of(x)) extents.push_back(e);
  return reshape(x, extents);
}

Value Net::unsqueeze(Value x, const Dims& axes) {
  Extents extents = extents_of(x);
  for (const std::int64_t axis : axes) extents.insert(extents.begin() + axis, Extent(1));
  return reshape(x, extents);
}

Value Net::squeeze(Value x, const Dims& axes) {
  Extents extents;
  for (std::int64_t i = 0; i < rank_of(x); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) extents.emplace_back(x, i);
  }
  return reshape(x, extents);
}

Value Net::transpose(Value x, const Dims& permutation) {
  nv::IShuffleLayer* layer = made(network_.addShuffle(*x), "a transposition");
  nv::Permutation order{};
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    order.order[i] = static_cast<std::int32_t>(permutation[i]);
  }
  layer->setFirstTranspose(order);
  return out(layer);
}

Value Net::slice(Value x, const Dims& start, const Extents& size, const Dims& stride,
                 nv::SampleMode mode, Value fill) {
  Dims numbers;
  bool known = true;
  for (const Extent& e : size) {
    numbers.push_back(std::max<std::int64_t>(e.value, 0));
    known = known && e.value >= 0;
  }
  nv::ISliceLayer* layer =
      made(network_.addSlice(*x, to_trt(start), to_trt(numbers), to_trt(stride)), "a slice layer");
  layer->setMode(mode);
  if (!known) layer->setInput(2, *shape(size));
  if (fill != nullptr) layer->setInput(4, *fill);
  return out(layer);
}

Value Net::expand(Value x, const Dims& dims) {
  const auto rank = static_cast<std::int64_t>(dims.size());
  x = pad_rank(x, rank);
  const Dims have = dims_of(x);
  if (have == dims) return x;
  Dims stride;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (have[i] != dims[i] && have[i] != 1) throw Refusal{"the shape does not broadcast"};
    stride.push_back(have[i] == dims[i] ? 1 : 0);
  }
  return slice(x, Dims(dims.size(), 0), Extents(dims.begin(), dims.end()), stride);
}

Value Net::concat(const std::vector<Value>& values, std::int64_t axis) {
  nv::IConcatenationLayer* layer =
      made(network_.addConcatenation(values.data(), static_cast<std::int32_t>(values.size())),
           "a concatenation");
  layer->setAxis(static_cast<std::int32_t>(axis));
  return out(layer);
}

Value Net::take(Value x, std::int64_t axis, std::int64_t index) {
  Dims start(static_cast<std::size_t>(rank_of(x)), 0);
  start[static_cast<std::size_t>(axis)] = index;
  Extents size = extents_of(x);
  size[static_cast<std::size_t>(axis)] = Extent(1);
  return squeeze(slice(x, start, size, Dims(start.size(), 1)), {axis});
}

// --- reductions and products --------------------------------------------------------------------

Value Net::reduce(Value x, RD op, const Dims& axes, bool keep) {
  return out(made(network_.addReduce(*x, op, mask_of(axes), keep), "a reduction"));
}

Value Net::softmax(Value x, std::int64_t axis) {
  nv::ISoftMaxLayer* layer = made(network_.addSoftMax(*x), "a softmax");
  layer->setAxes(mask_of({axis}));
  return out(layer);
}

Value Net::matmul(Value a, Value b, bool transpose_a, bool transpose_b) {
  const std::int64_t rank = std::max(rank_of(a), rank_of(b));
  const auto op = [](bool t) {
    return t ? nv::MatrixOperation::kTRANSPOSE : nv::MatrixOperation::kNONE;
  };
  return out(made(network_.addMatrixMultiply(*pad_rank(a, rank), op(transpose_a),
                                             *pad_rank(b, rank), op(transpose_b)),
                  "a matrix product"));
}

}  // namespace xrt::tensorrt
