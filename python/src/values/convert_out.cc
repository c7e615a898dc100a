// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "custom/engine_executable.h"
#include "values/convert.h"
#include "values/device_array.h"
#include "values/dlpack.h"
#include "values/numpy.h"
#include "xrt/error.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

// Lends a tensor's memory to NumPy and keeps it alive.
struct TensorBuffer {
  Tensor tensor;
  bool read_only;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  static char empty = 0;
  auto* buffer = nb::inst_ptr<TensorBuffer>(self);
  Tensor& tensor = buffer->tensor;
  void* data = tensor.bytes() > 0 ? tensor.raw() : &empty;
  return PyBuffer_FillInfo(view, self, data, static_cast<Py_ssize_t>(tensor.bytes()),
                           buffer->read_only ? 1 : 0, flags);
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

nb::object shape_of(const Tensor& tensor) {
  PyObject* shape = PyTuple_New(static_cast<Py_ssize_t>(tensor.rank()));
  if (shape == nullptr) throw nb::python_error();
  for (std::size_t i = 0; i < tensor.rank(); ++i) {
    PyTuple_SetItem(shape, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(tensor.dims()[i]));
  }
  return nb::steal(shape);
}

nb::object strings_to_python(const Tensor& tensor) {  // a copy: theirs to write
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

nb::object array_of(const Tensor& tensor, bool read_only) {
  if (tensor.dtype() == DType::kString) return strings_to_python(tensor);
  NumPy& numpy = NumPy::get();
  nb::handle dtype = numpy.dtype(tensor.dtype());
  nb::object owner =
      nb::cast(TensorBuffer{is_packed(tensor.dtype()) ? unpack(tensor) : tensor, read_only});
  nb::object shape = shape_of(tensor);
  PyObject* arguments[] = {nullptr, shape.ptr(), dtype.ptr(), owner.ptr()};
  PyObject* array = PyObject_Vectorcall(numpy.ndarray.ptr(), arguments + 1,
                                        3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (array == nullptr) throw nb::python_error();
  return nb::steal(array);
}

// NumPy's arrays have 32 or 64 axes at most, by its version, and no sizes beside a 0 whose product
// is beyond an address.
nb::object tensor_to_python(const Tensor& tensor, bool read_only) {
  constexpr std::size_t kAlways = 32;
  if (tensor.rank() <= kAlways && tensor.count() > 0) return array_of(tensor, read_only);
  try {
    return array_of(tensor, read_only);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ValueError)) throw;
    const std::string what = tensor.rank() > kAlways
                                 ? fmt::format("of {} axes", tensor.rank())
                                 : fmt::format("of shape [{}]", fmt::join(tensor.dims(), ", "));
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a tensor {} is no array of NumPy: {}", what, text_of(error.value())));
  }
}

// Nothing for dtypes that the frameworks' tables do not all know: wide unsigned integers, float8.
std::optional<dlpack::DataType> framework_type(DType dtype) {
  const std::optional<dlpack::DataType> type = dlpack::type_of(dtype);
  const bool rare = type && (type->code > 6 || (type->code == 1 && type->bits > 8));
  return rare ? std::nullopt : type;
}

// A tensor lent to a framework, with what its view points to.
struct LentTensor {
  explicit LentTensor(Tensor lent) : tensor(std::move(lent)), strides(tensor.rank()) {
    std::int64_t stride = 1;
    for (std::size_t i = tensor.rank(); i-- > 0;) {
      strides[i] = stride;
      stride *= tensor.dims()[i];
    }
  }
  Tensor tensor;
  void* stream = nullptr;  // of a device's memory: which the framework works on now
  std::vector<std::int64_t> strides;
  dlpack::ManagedVersioned managed = {};
};

}  // namespace

nb::object to_framework(const Data& data, const dlpack::ExchangeApi& api) {
  if (!data.is_tensor()) return to_python(data);
  const std::optional<dlpack::DataType> type = framework_type(data.tensor().dtype());
  if (!type) return to_python(data);
  auto lent = std::make_unique<LentTensor>(data.tensor());
  const Device device = lent->tensor.device();
  if (!device.is_host() && api.current_stream(static_cast<std::int32_t>(device.kind),
                                              device.ordinal, &lent->stream) != 0) {
    throw nb::python_error();
  }
  lent->managed.version = {1, 0};
  lent->managed.manager_context = lent.get();
  lent->managed.deleter = [](dlpack::ManagedVersioned* self) {
    const std::unique_ptr<LentTensor> own(static_cast<LentTensor*>(self->manager_context));
    give_back(own->tensor, own->stream);
  };
  lent->managed.tensor = {lent->tensor.raw(),
                          {static_cast<std::int32_t>(device.kind), device.ordinal},
                          static_cast<std::int32_t>(lent->tensor.rank()),
                          *type,
                          const_cast<std::int64_t*>(lent->tensor.dims().data()),
                          lent->strides.data(),
                          0};
  void* object = nullptr;
  if (api.object_from_managed(&lent->managed, &object) != 0) throw nb::python_error();
  static_cast<void>(lent.release());  // the framework's now
  return nb::steal(static_cast<PyObject*>(object));
}

nb::object to_python(const Data& data, bool read_only) {
  if (data.is_tensor()) {
    const Tensor& tensor = data.tensor();
    return tensor.on_host() ? tensor_to_python(tensor, read_only) : device_array(tensor);
  }
  if (data.is_sequence()) {
    nb::list items;
    for (const Data& item : data.items()) items.append(to_python(item, read_only));
    return items;
  }
  return nb::none();
}

nb::object to_python(const Data& data, const Type& type) {
  if (!data.is_sequence() || type.element == nullptr) return to_python(data);
  if (type.kind == Type::Kind::kOptional) return to_python(data, *type.element);
  if (type.kind != Type::Kind::kMap) {
    nb::list items;
    for (const Data& item : data.items()) items.append(to_python(item, *type.element));
    return items;
  }
  nb::dict map;
  const nb::object keys = to_python(data.items().at(0)).attr("tolist")();
  const nb::object values = to_python(data.items().at(1)).attr("tolist")();
  for (std::size_t i = 0; i < nb::len(keys); ++i) map[keys[i]] = values[i];
  return map;
}

void bind_convert(nb::module_& module) {
  const nb::class_<TensorBuffer> buffer(module, "TensorBuffer", nb::type_slots(buffer_slots),
                                        "Memory of a tensor, lent to NumPy.");
  bind_device_array(module);
}

}  // namespace xrt::python
