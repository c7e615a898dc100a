// SPDX-License-Identifier: Apache-2.0
#include "values/type.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "xrt/error.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

const char* kind_name(const Type& type) {
  switch (type.kind) {
    case Type::Kind::kTensor:
      return "tensor";
    case Type::Kind::kSequence:
      return "sequence";
    case Type::Kind::kOptional:
      return "optional";
    case Type::Kind::kMap:
      return "map";
    case Type::Kind::kSparseTensor:
      return "sparse_tensor";
  }
  throw Error(ErrorCode::kInternal, "a type of no kind");
}

}  // namespace

nb::object dtype_object(const Type& type) {
  if (type.dtype == DType::kUndefined) return nb::none();
  const auto name = to_string(type.dtype);
  return nb::str(name.data(), name.size());
}

nb::object shape_object(const Type& type) {
  if (!type.has_rank()) return nb::none();
  nb::list dims;
  for (const Dim& dim : *type.shape) {
    if (dim.is_known()) {
      dims.append(dim.value());
    } else if (dim.is_symbol()) {
      dims.append(dim.symbol());
    } else {
      dims.append(nb::none());
    }
  }
  return nb::tuple(dims);
}

Dim dim_of(nb::handle item) {
  if (item.is_none()) return {};
  if (nb::isinstance<nb::str>(item)) return Dim(nb::cast<std::string>(item));
  const auto size = nb::cast<std::int64_t>(item);
  if (size < 0) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("a dimension cannot be {}", size));
  }
  return Dim(size);
}

Shape shape_of(nb::handle dims) {
  Shape shape;
  for (const nb::handle item : dims) shape.push_back(dim_of(item));
  return shape;
}

void bind_type(nb::module_& module) {
  nb::class_<Type>(module, "Type",
                   "The type of a value of a graph. str() gives it as text: \"float32[N,3]\", "
                   "\"float32[*]\" (unknown rank), \"seq(int64[?])\".")
      .def_prop_ro("kind", kind_name,
                   "\"tensor\", \"sequence\", \"optional\", \"map\" or \"sparse_tensor\".")
      .def_prop_ro("dtype", dtype_object,
                   "The element type as NumPy and ml_dtypes name it (\"float32\", \"bfloat16\", "
                   "\"string\"); of a map, that of its keys. None for sequences and optionals, and "
                   "where it is unknown.")
      .def_prop_ro("shape", shape_object,
                   "One entry per dimension: an int, a str (symbol) or None (unknown). None where "
                   "the rank is unknown or the value is no tensor.")
      .def_prop_ro(
          "element",
          [](const Type& type) -> nb::object {
            return type.element == nullptr ? nb::none() : nb::cast(*type.element);
          },
          "The Type of what a sequence, an optional or a map holds; None for tensors.")
      .def_prop_ro("is_static", &Type::is_static, "A tensor of which every dimension is a number.")
      .def("__str__", [](const Type& type) { return to_string(type); })
      .def("__repr__", [](const Type& type) { return fmt::format("<{}>", to_string(type)); })
      .def("__eq__",
           [](const Type& type, nb::handle other) -> nb::object {
             if (!nb::isinstance<Type>(other)) return nb::borrow(Py_NotImplemented);
             return nb::bool_(type == nb::cast<const Type&>(other));
           })
      .def("__hash__", [](const Type& type) { return std::hash<std::string>()(to_string(type)); });
}

}  // namespace xrt::python
