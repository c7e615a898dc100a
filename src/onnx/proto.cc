// SPDX-License-Identifier: Apache-2.0
#include "onnx/proto.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "xrt/error.h"

namespace xrt {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

[[noreturn]] void invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, message);
}

Shape shape_from_proto(const onnx::TensorShapeProto& proto, const std::string& what) {
  if (proto.dim_size() > kMaxRank) {
    invalid(fmt::format("{}: rank {} is beyond the limit of {}", what, proto.dim_size(), kMaxRank));
  }
  Shape shape;
  shape.reserve(static_cast<std::size_t>(proto.dim_size()));
  for (const auto& dim : proto.dim()) {
    // A negative number is how some exporters write "unknown".
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      shape.emplace_back(dim.dim_value());
    } else if (dim.has_dim_param() && !dim.dim_param().empty() && dim.dim_param() != "?") {
      // Exporters write "?" for any dimension they do not know, equal or not.
      shape.emplace_back(dim.dim_param());
    } else {
      shape.emplace_back();
    }
  }
  return shape;
}

void shape_to_proto(const Shape& shape, onnx::TensorShapeProto* proto) {
  for (const Dim& dim : shape) {
    auto* out = proto->add_dim();
    if (dim.is_known()) {
      out->set_dim_value(dim.value());
    } else if (dim.is_symbol()) {
      out->set_dim_param(dim.symbol());
    }
  }
}

Type type_at_depth(const onnx::TypeProto& proto, const std::string& what, int depth) {
  if (depth > kMaxTypeNesting) {
    invalid(fmt::format("{}: its type is nested deeper than {} levels", what, kMaxTypeNesting));
  }
  const auto element = [&](const onnx::TypeProto& inner) {
    return std::make_shared<const Type>(type_at_depth(inner, what, depth + 1));
  };
  Type type;
  switch (proto.value_case()) {
    case onnx::TypeProto::kTensorType:
      type.dtype = dtype_from_proto(proto.tensor_type().elem_type(), what);
      if (proto.tensor_type().has_shape()) {
        type.shape = shape_from_proto(proto.tensor_type().shape(), what);
      }
      return type;
    case onnx::TypeProto::kSparseTensorType:
      type.kind = Type::Kind::kSparseTensor;
      type.dtype = dtype_from_proto(proto.sparse_tensor_type().elem_type(), what);
      if (proto.sparse_tensor_type().has_shape()) {
        type.shape = shape_from_proto(proto.sparse_tensor_type().shape(), what);
      }
      return type;
    case onnx::TypeProto::kSequenceType:
      type.kind = Type::Kind::kSequence;
      type.element = element(proto.sequence_type().elem_type());
      return type;
    case onnx::TypeProto::kOptionalType:
      type.kind = Type::Kind::kOptional;
      type.element = element(proto.optional_type().elem_type());
      return type;
    case onnx::TypeProto::kMapType:
      type.kind = Type::Kind::kMap;
      type.dtype = dtype_from_proto(proto.map_type().key_type(), what);
      type.element = element(proto.map_type().value_type());
      return type;
    case onnx::TypeProto::kOpaqueType:
      throw Error(ErrorCode::kUnsupported, what + ": opaque types are not supported");
    case onnx::TypeProto::VALUE_NOT_SET:
      return type;  // nothing is known
  }
  invalid(what + ": unknown kind of type");
}

// The number of elements of `proto`, its dims checked and copied to `dims`.
std::int64_t checked_count(const google::protobuf::RepeatedField<std::int64_t>& from, Dims* dims,
                           const std::string& what) {
  if (from.size() > kMaxRank) {
    invalid(fmt::format("{}: rank {} is beyond the limit of {}", what, from.size(), kMaxRank));
  }
  dims->assign(from.begin(), from.end());
  try {
    return element_count(*dims);
  } catch (const Error& e) {
    invalid(what + ": " + e.what());
  }
}

void expect_length(std::int64_t found, std::int64_t wanted, const char* field, const Dims& dims,
                   const std::string& what) {
  if (found != wanted) {
    invalid(fmt::format("{}: {} holds {} entries, the shape {} needs {}", what, field, found,
                        to_string(dims), wanted));
  }
}

// Elements of a repeated field, narrowed to T.
template <typename T, typename Field>
Tensor from_field(const Field& field, const char* name, DType dtype, const Dims& dims,
                  std::int64_t count, const std::string& what) {
  expect_length(field.size(), count, name, dims, what);
  Tensor tensor = Tensor::allocate(dtype, dims);
  T* out = tensor.data<T>();
  for (const auto value : field) *out++ = static_cast<T>(value);
  return tensor;
}

// Real and imaginary parts follow each other.
template <typename T, typename Field>
Tensor from_complex_field(const Field& field, const char* name, DType dtype, const Dims& dims,
                          std::int64_t count, const std::string& what) {
  expect_length(field.size(), count > field.size() ? -1 : 2 * count, name, dims, what);
  Tensor tensor = Tensor::allocate(dtype, dims);
  std::copy(field.begin(), field.end(), tensor.data<T>());
  return tensor;
}

// Typed data fields of a tensor: which one depends on the dtype (onnx.proto).
Tensor from_typed_fields(const onnx::TensorProto& proto, DType dtype, const Dims& dims,
                         std::int64_t count, const std::string& what) {
  const auto int32_as = [&]<typename T>(T) {
    return from_field<T>(proto.int32_data(), "int32_data", dtype, dims, count, what);
  };
  switch (dtype) {
    case DType::kFloat32:
      return from_field<float>(proto.float_data(), "float_data", dtype, dims, count, what);
    case DType::kFloat64:
      return from_field<double>(proto.double_data(), "double_data", dtype, dims, count, what);
    case DType::kInt64:
      return from_field<std::int64_t>(proto.int64_data(), "int64_data", dtype, dims, count, what);
    case DType::kUInt64:
      return from_field<std::uint64_t>(proto.uint64_data(), "uint64_data", dtype, dims, count,
                                       what);
    case DType::kUInt32:
      return from_field<std::uint32_t>(proto.uint64_data(), "uint64_data", dtype, dims, count,
                                       what);
    case DType::kInt32:
      return int32_as(std::int32_t{});
    case DType::kInt16:
    case DType::kUInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return int32_as(std::uint16_t{});
    case DType::kBool: {
      expect_length(proto.int32_data_size(), count, "int32_data", dims, what);
      Tensor tensor = Tensor::allocate(dtype, dims);
      auto* out = tensor.data<std::uint8_t>();
      for (const auto value : proto.int32_data()) *out++ = value != 0 ? 1 : 0;
      return tensor;
    }
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
    case DType::kFloat8E8M0:
      return int32_as(std::uint8_t{});
    case DType::kUInt4:
    case DType::kInt4:
    case DType::kFloat4E2M1:
    case DType::kUInt2:
    case DType::kInt2: {
      // Each entry of int32_data is one packed byte.
      const auto bytes = static_cast<std::int64_t>(byte_count(dtype, dims));
      expect_length(proto.int32_data_size(), bytes, "int32_data", dims, what);
      Tensor tensor = Tensor::allocate(dtype, dims);
      auto* out = tensor.data<std::uint8_t>();
      for (const auto value : proto.int32_data()) *out++ = static_cast<std::uint8_t>(value);
      return tensor;
    }
    case DType::kComplex64:
      return from_complex_field<float>(proto.float_data(), "float_data", dtype, dims, count, what);
    case DType::kComplex128:
      return from_complex_field<double>(proto.double_data(), "double_data", dtype, dims, count,
                                        what);
    case DType::kString: {
      expect_length(proto.string_data_size(), count, "string_data", dims, what);
      return Tensor::from_strings(dims, {proto.string_data().begin(), proto.string_data().end()});
    }
    case DType::kUndefined:
      break;
  }
  invalid(what + ": a tensor without a dtype");
}

std::size_t alignment_of(DType dtype) {
  const int bits = bit_width(dtype);
  if (dtype == DType::kComplex64) return 4;
  if (dtype == DType::kComplex128) return 8;
  return bits >= 8 ? static_cast<std::size_t>(bits) / 8 : 1;
}

}  // namespace

DType dtype_from_proto(int data_type, const std::string& what) {
  if (data_type < 0 || data_type >= kDTypeCount) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{}: element type {} of ONNX is not supported", what, data_type));
  }
  return static_cast<DType>(data_type);
}

Type type_from_proto(const onnx::TypeProto& proto, const std::string& what) {
  return type_at_depth(proto, what, 0);
}

void type_to_proto(const Type& type, onnx::TypeProto* proto) {
  const auto element = [&](onnx::TypeProto* out) {
    if (type.element) type_to_proto(*type.element, out);
  };
  switch (type.kind) {
    case Type::Kind::kTensor: {
      if (type.dtype == DType::kUndefined && !type.shape) return;  // nothing is known
      auto* tensor = proto->mutable_tensor_type();
      tensor->set_elem_type(static_cast<int>(type.dtype));
      if (type.shape) shape_to_proto(*type.shape, tensor->mutable_shape());
      return;
    }
    case Type::Kind::kSparseTensor: {
      auto* tensor = proto->mutable_sparse_tensor_type();
      tensor->set_elem_type(static_cast<int>(type.dtype));
      if (type.shape) shape_to_proto(*type.shape, tensor->mutable_shape());
      return;
    }
    case Type::Kind::kSequence:
      element(proto->mutable_sequence_type()->mutable_elem_type());
      return;
    case Type::Kind::kOptional:
      element(proto->mutable_optional_type()->mutable_elem_type());
      return;
    case Type::Kind::kMap:
      proto->mutable_map_type()->set_key_type(static_cast<int>(type.dtype));
      element(proto->mutable_map_type()->mutable_value_type());
      return;
  }
}

Tensor tensor_from_proto(const onnx::TensorProto& proto, const TensorSource& source,
                         const std::string& what) {
  const DType dtype = dtype_from_proto(proto.data_type(), what);
  if (dtype == DType::kUndefined) invalid(what + ": a tensor without a dtype");
  if (proto.has_segment()) {
    throw Error(ErrorCode::kUnsupported, what + ": segmented tensors are not supported");
  }
  Dims dims;
  const std::int64_t count = checked_count(proto.dims(), &dims, what);
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    if (!source.external) invalid(what + ": external data is not allowed here");
    if (dtype == DType::kString) invalid(what + ": strings cannot be external data");
    return source.external(proto, dtype, dims, what);
  }
  if (!proto.has_raw_data()) return from_typed_fields(proto, dtype, dims, count, what);
  if (dtype == DType::kString) invalid(what + ": strings cannot be in raw_data");
  const std::string& raw = proto.raw_data();
  std::size_t wanted = 0;
  try {
    wanted = byte_count(dtype, dims);
  } catch (const Error& e) {
    invalid(what + ": " + e.what());
  }
  if (raw.size() != wanted) {
    invalid(fmt::format("{}: raw_data holds {} bytes, {}{} needs {}", what, raw.size(),
                        to_string(dtype), to_string(dims), wanted));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(raw.data());
  if (source.owner && wanted >= 64 && address % alignment_of(dtype) == 0) {
    // Tensor hands out a mutable pointer, but constants are never written.
    return Tensor::wrap(dtype, dims, const_cast<char*>(raw.data()), source.owner);
  }
  Tensor tensor = Tensor::allocate(dtype, dims);
  if (wanted > 0) std::memcpy(tensor.raw(), raw.data(), wanted);
  return tensor;
}

Tensor tensor_from_proto(const onnx::SparseTensorProto& proto, const TensorSource& source,
                         const std::string& what) {
  const Tensor values = tensor_from_proto(proto.values(), source, what + ", values");
  const Tensor indices = tensor_from_proto(proto.indices(), source, what + ", indices");
  Dims dims;
  const std::int64_t count = checked_count(proto.dims(), &dims, what);
  const int bits = bit_width(values.dtype());
  if (bits < 8) {
    throw Error(ErrorCode::kUnsupported,
                what + ": sparse tensors of strings or packed types are not supported");
  }
  // A few bytes may not ask for an enormous dense tensor.
  constexpr std::int64_t kMaxDense = std::int64_t{1} << 24;
  if (count > kMaxDense && count / 4096 > values.count()) {
    throw Error(ErrorCode::kResource,
                fmt::format("{}: {} stored values for a dense tensor {} are refused", what,
                            values.count(), to_string(dims)));
  }
  const std::int64_t stored = values.count();
  const auto rank = static_cast<std::int64_t>(dims.size());
  const bool linear = indices.rank() == 1 && indices.count() == stored;
  const bool coordinates =
      indices.rank() == 2 && indices.dims()[0] == stored && indices.dims()[1] == rank;
  if (values.rank() != 1 || indices.dtype() != DType::kInt64 || !(linear || coordinates)) {
    invalid(fmt::format("{}: {} values of rank {} with indices {} do not fit the shape {}", what,
                        stored, values.rank(), to_string(indices.dims()), to_string(dims)));
  }
  Tensor dense = Tensor::allocate(values.dtype(), dims);
  if (dense.bytes() > 0) std::memset(dense.raw(), 0, dense.bytes());
  const auto width = static_cast<std::size_t>(bits) / 8;
  const auto* index = indices.data<std::int64_t>();
  for (std::int64_t i = 0; i < stored; ++i) {
    std::int64_t at = 0;
    if (linear) {
      at = index[i];
    } else {
      for (std::int64_t d = 0; d < rank; ++d) {
        const std::int64_t k = index[i * rank + d];
        if (k < 0 || k >= dims[static_cast<std::size_t>(d)]) at = -1;
        if (at >= 0) at = at * dims[static_cast<std::size_t>(d)] + k;
      }
    }
    if (at < 0 || at >= count) invalid(fmt::format("{}: index {} is out of range", what, i));
    std::memcpy(dense.data<char>() + static_cast<std::size_t>(at) * width,
                values.data<char>() + static_cast<std::size_t>(i) * width, width);
  }
  return dense;
}

void tensor_to_proto(const Tensor& tensor, onnx::TensorProto* proto) {
  proto->set_data_type(static_cast<int>(tensor.dtype()));
  for (const std::int64_t d : tensor.dims()) proto->add_dims(d);
  if (tensor.dtype() == DType::kString) {
    for (std::int64_t i = 0; i < tensor.count(); ++i) proto->add_string_data(tensor.strings()[i]);
  } else {
    proto->set_raw_data(tensor.raw(), tensor.bytes());
  }
}

void attribute_to_proto(std::string_view name, const Attribute& attribute,
                        const TensorWriter& tensor_writer, const GraphWriter& graph_writer,
                        onnx::AttributeProto* proto) {
  using P = onnx::AttributeProto;
  proto->set_name(std::string(name));
  const auto write_tensor = [&](const Tensor& tensor, onnx::TensorProto* out) {
    if (tensor_writer) {
      tensor_writer(tensor, out);
    } else {
      tensor_to_proto(tensor, out);
    }
  };
  struct Visitor {
    P* out;
    const decltype(write_tensor)& tensor;
    const GraphWriter& graph;
    void operator()(std::int64_t v) const { out->set_type(P::INT), out->set_i(v); }
    void operator()(float v) const { out->set_type(P::FLOAT), out->set_f(v); }
    void operator()(const std::string& v) const { out->set_type(P::STRING), out->set_s(v); }
    void operator()(const Tensor& v) const {
      out->set_type(P::TENSOR);
      tensor(v, out->mutable_t());
    }
    void operator()(const std::shared_ptr<Graph>& v) const {
      out->set_type(P::GRAPH);
      auto* proto_graph = out->mutable_g();
      if (graph) graph(*v, proto_graph);
    }
    void operator()(const Type& v) const {
      out->set_type(P::TYPE_PROTO);
      type_to_proto(v, out->mutable_tp());
    }
    void operator()(const std::vector<std::int64_t>& v) const {
      out->set_type(P::INTS);
      out->mutable_ints()->Add(v.begin(), v.end());
    }
    void operator()(const std::vector<float>& v) const {
      out->set_type(P::FLOATS);
      out->mutable_floats()->Add(v.begin(), v.end());
    }
    void operator()(const std::vector<std::string>& v) const {
      out->set_type(P::STRINGS);
      for (const auto& s : v) out->add_strings(s);
    }
    void operator()(const std::vector<Tensor>& v) const {
      out->set_type(P::TENSORS);
      for (const auto& t : v) tensor(t, out->add_tensors());
    }
    void operator()(const std::vector<std::shared_ptr<Graph>>& v) const {
      out->set_type(P::GRAPHS);
      for (const auto& g : v) {
        auto* proto_graph = out->add_graphs();
        if (graph) graph(*g, proto_graph);
      }
    }
    void operator()(const std::vector<Type>& v) const {
      out->set_type(P::TYPE_PROTOS);
      for (const auto& t : v) type_to_proto(t, out->add_type_protos());
    }
  };
  std::visit(Visitor{proto, write_tensor, graph_writer}, attribute);
}

Attribute attribute_from_proto(const onnx::AttributeProto& proto, const TensorSource& source,
                               const std::string& what) {
  using P = onnx::AttributeProto;
  switch (proto.type()) {
    case P::INT:
      return proto.i();
    case P::FLOAT:
      return proto.f();
    case P::STRING:
      return proto.s();
    case P::INTS:
      return std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end());
    case P::FLOATS:
      return std::vector<float>(proto.floats().begin(), proto.floats().end());
    case P::STRINGS:
      return std::vector<std::string>(proto.strings().begin(), proto.strings().end());
    case P::TENSOR:
      return tensor_from_proto(proto.t(), source, what);
    case P::SPARSE_TENSOR:
      return tensor_from_proto(proto.sparse_tensor(), source, what);
    case P::TENSORS: {
      std::vector<Tensor> tensors;
      for (const auto& t : proto.tensors()) tensors.push_back(tensor_from_proto(t, source, what));
      return tensors;
    }
    case P::SPARSE_TENSORS: {
      std::vector<Tensor> tensors;
      for (const auto& t : proto.sparse_tensors()) {
        tensors.push_back(tensor_from_proto(t, source, what));
      }
      return tensors;
    }
    case P::TYPE_PROTO:
      return type_from_proto(proto.tp(), what);
    case P::TYPE_PROTOS: {
      std::vector<Type> types;
      for (const auto& t : proto.type_protos()) types.push_back(type_from_proto(t, what));
      return types;
    }
    case P::GRAPH:
    case P::GRAPHS:
      invalid(what + ": a graph is not allowed here");
    case P::UNDEFINED:
      break;
  }
  invalid(what + ": its kind is not given");
}

}  // namespace xrt
