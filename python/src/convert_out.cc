// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "convert.h"
#include "numpy.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

// Lends a tensor's memory to NumPy and keeps it alive.
struct TensorBuffer {
  Tensor tensor;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  static char empty = 0;
  auto* buffer = nb::inst_ptr<TensorBuffer>(self);
  Tensor& tensor = buffer->tensor;
  void* data = tensor.bytes() > 0 ? tensor.raw() : &empty;
  return PyBuffer_FillInfo(view, self, data, static_cast<Py_ssize_t>(tensor.bytes()),
                           /*readonly=*/0, flags);
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

nb::object shape_of(const Tensor& tensor) {
  PyObject* shape = PyTuple_New(static_cast<Py_ssize_t>(tensor.rank()));
  if (shape == nullptr) throw nb::python_error();
  for (std::size_t i = 0; i < tensor.rank(); ++i) {
    PyTuple_SET_ITEM(shape, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(tensor.dims()[i]));
  }
  return nb::steal(shape);
}

nb::object strings_to_python(const Tensor& tensor) {
  NumPy& numpy = NumPy::get();
  nb::list items;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const std::string& text = tensor.strings()[i];
    nb::object item = nb::steal(
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
    if (!item.is_valid()) throw nb::python_error();
    items.append(item);
  }
  nb::object flat = numpy.asarray(items, nb::arg("dtype") = numpy.object_dtype);
  return flat.attr("reshape")(shape_of(tensor));
}

// Packed low bits first in, one element per byte out.
Tensor unpack(const Tensor& packed) {
  Tensor bytes = Tensor::allocate(DType::kUInt8, packed.dims());
  const int bits = bit_width(packed.dtype());
  const int per_byte = 8 / bits;
  const unsigned mask = (1U << bits) - 1U;
  const auto* from = packed.data<std::uint8_t>();
  auto* to = bytes.data<std::uint8_t>();
  for (std::int64_t i = 0; i < packed.count(); ++i) {
    const auto shift = static_cast<unsigned>((i % per_byte) * bits);
    to[i] = static_cast<std::uint8_t>((from[i / per_byte] >> shift) & mask);
  }
  return bytes;
}

nb::object tensor_to_python(const Tensor& tensor) {
  if (tensor.dtype() == DType::kString) return strings_to_python(tensor);
  NumPy& numpy = NumPy::get();
  nb::handle dtype = numpy.dtype(tensor.dtype());
  nb::object owner = nb::cast(TensorBuffer{is_packed(tensor.dtype()) ? unpack(tensor) : tensor});
  nb::object shape = shape_of(tensor);
  PyObject* arguments[] = {nullptr, shape.ptr(), dtype.ptr(), owner.ptr()};
  PyObject* array = PyObject_Vectorcall(numpy.ndarray.ptr(), arguments + 1,
                                        3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (array == nullptr) throw nb::python_error();
  return nb::steal(array);
}

}  // namespace

nb::object to_python(const Data& data) {
  if (data.is_tensor()) return tensor_to_python(data.tensor());
  if (data.is_sequence()) {
    nb::list items;
    for (const Data& item : data.items()) items.append(to_python(item));
    return items;
  }
  return nb::none();
}

void bind_convert(nb::module_& module) {
  nb::class_<TensorBuffer>(module, "TensorBuffer", nb::type_slots(buffer_slots),
                           "Memory of a tensor, lent to NumPy.");
}

}  // namespace xrt::python
