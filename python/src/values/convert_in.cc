// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gil.h"
#include "values/convert.h"
#include "values/given.h"
#include "values/numpy.h"
#include "xrt/error.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

// A buffer view that may be dropped by any thread.
struct BufferHolder {
  Py_buffer view{};
  BufferHolder() = default;
  BufferHolder(const BufferHolder&) = delete;
  BufferHolder& operator=(const BufferHolder&) = delete;
  ~BufferHolder() {
    if (view.obj == nullptr) return;
    with_gil_if_up([&] { PyBuffer_Release(&view); });
  }
};

// --- elements narrower than a byte --------------------------------------------------------------

// One element per byte in, packed low bits first out.
Tensor pack(DType dtype, Dims dims, const std::uint8_t* from) {
  Tensor packed = Tensor::allocate(dtype, std::move(dims));
  auto* to = packed.data<std::uint8_t>();
  const int bits = bit_width(dtype);
  const int per_byte = 8 / bits;
  const unsigned mask = (1U << bits) - 1U;
  std::memset(to, 0, packed.bytes());
  for (std::int64_t i = 0; i < packed.count(); ++i) {
    const auto shift = static_cast<unsigned>((i % per_byte) * bits);
    to[i / per_byte] |= static_cast<std::uint8_t>((from[i] & mask) << shift);
  }
  return packed;
}

// --- strings ------------------------------------------------------------------------------------

std::string to_bytes(nb::handle object, std::string_view name, std::size_t index) {
  if (PyUnicode_Check(object.ptr())) {
    // What was not UTF-8 came in as surrogates and goes out as the same bytes.
    nb::object bytes =
        nb::steal(PyUnicode_AsEncodedString(object.ptr(), "utf-8", "surrogateescape"));
    if (!bytes.is_valid()) {
      nb::python_error error;
      fail_with_cause(name, fmt::format("element {} is no text", index), error);
    }
    return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
  }
  if (PyBytes_Check(object.ptr())) {
    return {PyBytes_AsString(object.ptr()), static_cast<std::size_t>(PyBytes_Size(object.ptr()))};
  }
  fail(name, fmt::format("element {} is a {}, not str or bytes", index, kind_of(object)));
}

Tensor strings_from_array(nb::handle array, std::string_view name) {
  NumPy& numpy = NumPy::get();
  nb::object objects = array.attr("astype")(numpy.object_dtype);
  Dims dims;
  for (nb::handle size : objects.attr("shape")) dims.push_back(nb::cast<std::int64_t>(size));
  nb::list flat = nb::cast<nb::list>(objects.attr("ravel")().attr("tolist")());
  std::vector<std::string> values;
  values.reserve(nb::len(flat));
  for (nb::handle item : flat) values.push_back(to_bytes(item, name, values.size()));
  return Tensor::from_strings(std::move(dims), std::move(values));
}

// --- the buffer protocol ------------------------------------------------------------------------

std::optional<DType> dtype_of_format(const char* format, Py_ssize_t item) {
  if (format == nullptr) return DType::kUInt8;
  std::string_view text(format);
  if (!text.empty() && (text[0] == '@' || text[0] == '=' || text[0] == '<')) text.remove_prefix(1);
  if (text == "Zf") return DType::kComplex64;
  if (text == "Zd") return DType::kComplex128;
  if (text.size() != 1) return std::nullopt;
  const auto of_width = [item](DType one, DType two, DType four, DType eight) {
    return item == 1 ? one : item == 2 ? two : item == 4 ? four : eight;
  };
  switch (text[0]) {
    case '?':
      return DType::kBool;
    case 'e':
      return DType::kFloat16;
    case 'f':
      return DType::kFloat32;
    case 'd':
      return DType::kFloat64;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      return of_width(DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64);
    case 'B':
    case 'c':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
      return of_width(DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64);
    default:
      return std::nullopt;
  }
}

// The object's buffer under `dtype` (given for a view of raw bits, else taken from its format).
Tensor from_buffer(nb::handle object, const Type& type, std::optional<DType> dtype,
                   std::string_view name, Access access) {
  auto holder = std::make_shared<BufferHolder>();
  Py_buffer& view = holder->view;
  const int flags = (dtype ? PyBUF_STRIDES : PyBUF_STRIDES | PyBUF_FORMAT) |
                    (access == Access::kWrite ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), &view, flags) != 0) {
    nb::python_error error;
    fail_with_cause(name, fmt::format("the memory of the {} cannot be used", kind_of(object)),
                    error);
  }
  if (!dtype) dtype = dtype_of_format(view.format, view.itemsize);
  if (!dtype) {
    fail(name, fmt::format("no tensor has elements of buffer format '{}'",
                           view.format != nullptr ? view.format : ""));
  }
  const auto rank = static_cast<std::size_t>(view.ndim);
  Dims dims(view.shape, view.shape + rank);
  if (is_packed(*dtype)) {
    if (access == Access::kWrite) {
      fail(name, fmt::format("{} cannot be written in place: a tensor packs its elements, NumPy "
                             "does not",
                             to_string(*dtype)));
    }
    return pack(*dtype, std::move(dims), static_cast<const std::uint8_t*>(view.buf));
  }
  if (PyBuffer_IsContiguous(&view, 'C') != 0) {
    return Tensor::wrap(*dtype, std::move(dims), view.buf, std::move(holder));
  }
  if (access == Access::kWrite) {
    fail(name, "it is written in place and must be dense and row-major (C-contiguous)");
  }
  check_repeated(type, dims, {view.strides, rank}, name);
  Tensor dense = Tensor::allocate(*dtype, dims);
  if (dense.count() > 0) {
    const std::vector<std::int64_t> strides(view.strides, view.strides + rank);
    copy_strided(dense.data<char>(), static_cast<const char*>(view.buf),
                 static_cast<std::size_t>(view.itemsize), dims.data(), strides.data(), rank);
  }
  return dense;
}

// --- NumPy --------------------------------------------------------------------------------------

Tensor from_numpy(nb::handle array, const Type& type, std::string_view name, Access access) {
  NumPy& numpy = NumPy::get();
  nb::object dtype = array.attr("dtype");
  const std::optional<DType> found = numpy.parse(dtype);
  if (found) {
    if (*found <= DType::kComplex128) return from_buffer(array, type, found, name, access);
    // NumPy lends no buffer of ml_dtypes; the same bits as integers it does.
    nb::object bits = nb::borrow(array);
    if (is_packed(*found) && !nb::cast<bool>(array.attr("flags").attr("c_contiguous"))) {
      bits = numpy.ascontiguousarray(array);
    }
    bits = bits.attr("view")(bit_width(*found) == 16 ? numpy.uint16 : numpy.uint8);
    return from_buffer(bits, type, found, name, access);
  }
  const std::string kind = nb::cast<std::string>(dtype.attr("kind"));
  if (kind == "O" || kind == "U" || kind == "S" || kind == "T") {
    if (access == Access::kWrite) fail(name, "strings cannot be written in place");
    // Where any dtype may stand, as for results of kernels, objects that are all str are strings.
    const bool may_be = type.dtype == DType::kString || type.dtype == DType::kUndefined;
    if (!may_be && kind == "O") {
      fail(name,
           fmt::format("an array of Python objects was given where {} is wanted", to_string(type)));
    }
    return strings_from_array(array, name);
  }
  if (!nb::cast<bool>(dtype.attr("isnative"))) {
    if (access == Access::kWrite)
      fail(name, "it is written in place and its byte order is foreign");
    nb::object native = array.attr("astype")(dtype.attr("newbyteorder")("="));
    return from_numpy(native, type, name, access);
  }
  fail(name, fmt::format("no tensor has elements of NumPy dtype {}", nb::str(dtype).c_str()));
}

// --- numbers and nested lists -------------------------------------------------------------------

// Python's own numbers have no width: they take the declared dtype where that loses no kind
// (an int may become a float, never the reverse).
Tensor from_numbers(nb::handle object, const Type& type, std::string_view name) {
  NumPy& numpy = NumPy::get();
  nb::object array;
  try {
    if (type.dtype == DType::kString) {
      array = numpy.asarray(object, nb::arg("dtype") = numpy.object_dtype);
    } else {
      array = numpy.asarray(object);
      if (type.dtype != DType::kUndefined) {
        // An empty list says nothing about its elements.
        const bool empty = nb::cast<std::int64_t>(array.attr("size")) == 0;
        const nb::object given = array;
        const std::string kind = nb::cast<std::string>(given.attr("dtype").attr("kind"));
        // Whether one integer type holds the numbers of another is seen afterwards.
        const bool unsafe = empty || (is_integer(type.dtype) && (kind == "i" || kind == "u"));
        array = array.attr("astype")(numpy.dtype(type.dtype),
                                     nb::arg("casting") = unsafe ? "unsafe" : "same_kind");
        if (is_integer(type.dtype) && !nb::cast<bool>(numpy.array_equal(array, given))) {
          fail(name, fmt::format("a number of the {} is beyond {}", kind_of(object),
                                 to_string(type.dtype)));
        }
      }
    }
  } catch (nb::python_error& error) {
    if (error.matches(PyExc_ImportError)) throw;
    fail_with_cause(name, fmt::format("a {} does not become {}", kind_of(object), to_string(type)),
                    error);
  }
  return from_numpy(array, type, name, Access::kRead);
}

Tensor to_tensor(nb::handle object, const Type& type, std::string_view name, Access access,
                 ProducerStreams* streams) {
  if (NumPy::get().is_array(object)) return from_numpy(object, type, name, access);
  const bool numbers = PyLong_Check(object.ptr()) || PyFloat_Check(object.ptr()) ||
                       PyComplex_Check(object.ptr()) || PyList_Check(object.ptr()) ||
                       PyTuple_Check(object.ptr()) || PyUnicode_Check(object.ptr()) ||
                       (PyBytes_Check(object.ptr()) && type.dtype == DType::kString);
  if (numbers) {
    if (access == Access::kWrite) {
      fail(name,
           fmt::format("it is written in place and must be an array, not a {}", kind_of(object)));
    }
    return from_numbers(object, type, name);
  }
  if (const dlpack::ExchangeApi* api = exchange_api(Py_TYPE(object.ptr()))) {
    return from_exchange(*api, object, type, name, access, streams);
  }
  if (nb::hasattr(object, "__dlpack__")) return from_dlpack(object, type, name, access, streams);
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    return from_buffer(object, type, std::nullopt, name, access);
  }
  if (access != Access::kWrite &&
      (nb::hasattr(object, "__array__") || nb::hasattr(object, "__array_interface__"))) {
    nb::object array;
    try {
      array = NumPy::get().asarray(object);
    } catch (nb::python_error& error) {
      fail_with_cause(name, fmt::format("a {} does not become an array", kind_of(object)), error);
    }
    return from_numpy(array, type, name, access);
  }
  fail(name, fmt::format("a {} was given where {} is wanted; pass a NumPy array, a tensor with "
                         "__dlpack__, a buffer, a number or a list",
                         kind_of(object), to_string(type)));
}

// A dict as its keys and its values.
Data to_map(nb::handle object, const Type& type, std::string_view name) {
  if (!PyDict_Check(object.ptr()) || !type.element->is_tensor()) {
    fail(name, fmt::format("a {} was given where {} is wanted; pass a dict", kind_of(object),
                           to_string(type)));
  }
  const auto part = [&](const char* of, DType dtype) {
    const nb::list list(object.attr(of)());
    return from_numbers(list, Type::tensor(dtype, Shape{Dim()}), name);
  };
  const DType values = type.element->dtype;
  return Data::sequence(values, {part("keys", type.dtype), part("values", values)});
}

}  // namespace

Data to_data(nb::handle object, const Type& type, std::string_view name, Access access,
             ProducerStreams* streams) {
  switch (type.kind) {
    case Type::Kind::kOptional:
      if (object.is_none()) return {};
      return to_data(object, *type.element, name, access, streams);
    case Type::Kind::kSequence: {
      if (!PyList_Check(object.ptr()) && !PyTuple_Check(object.ptr())) {
        fail(name, fmt::format("a {} was given where {} is wanted; pass a list", kind_of(object),
                               to_string(type)));
      }
      std::vector<Data> items;
      for (nb::handle item : object) {
        items.push_back(
            to_data(item, *type.element, fmt::format("{}[{}]", name, items.size()), Access::kRead));
      }
      const Type* element = type.element.get();
      while (element->element) element = element->element.get();
      return Data::sequence(element->dtype, std::move(items));
    }
    case Type::Kind::kTensor:
      if (object.is_none()) {
        fail(name, fmt::format("None was given where {} is wanted", to_string(type)));
      }
      return to_tensor(object, type, name, access, streams);
    case Type::Kind::kMap:
      return to_map(object, type, name);
    case Type::Kind::kSparseTensor:
      break;
  }
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("{}: values of type {} cannot be passed from Python", name, to_string(type)));
}

Data to_result(nb::handle object, const Type& type, std::string_view name) {
  try {
    return to_data(object, type, name, Access::kRead);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kResource) {
      throw Error(ErrorCode::kResource, fmt::format("{}: {}", name, error.what()));
    }
    throw Error(ErrorCode::kEngine, error.what());
  }
}

}  // namespace xrt::python
