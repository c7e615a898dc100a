// SPDX-License-Identifier: Apache-2.0
#include "values/device_array.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/log.h"
#include "device/cuda/compute.h"
#include "device/cuda_driver.h"
#include "gil.h"
#include "values/convert.h"
#include "values/dlpack.h"
#include "values/numpy.h"
#include "xrt/error.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

struct DeviceArray {
  Tensor tensor;
};

using DeviceId = std::pair<std::int32_t, std::int32_t>;  // DLPack's type and number

// What is behind a capsule, until its taker is done with the memory.
template <typename ManagedTensor>
struct LentArray {
  ManagedTensor managed{};
  Tensor tensor;
  void* stream = nullptr;  // which the taker uses the memory on

  static void give_back(ManagedTensor* managed) {
    const std::unique_ptr<LentArray> lent(static_cast<LentArray*>(managed->manager_context));
    python::give_back(lent->tensor, lent->stream);
  }
};

dlpack::DataType type_of(DType dtype) {
  const std::optional<dlpack::DataType> type = dlpack::type_of(dtype);
  if (!type) {
    throw Error(ErrorCode::kUnsupported, fmt::format("DLPack has no {}", to_string(dtype)));
  }
  return *type;
}

template <typename ManagedTensor>
void drop_capsule(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;  // taken
  auto* managed = static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

constexpr const char* kName = "dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";

template <typename ManagedTensor>
nb::object capsule_of(const Tensor& tensor, void* stream, const char* name,
                      PyCapsule_Destructor drop) {
  auto lent = std::make_unique<LentArray<ManagedTensor>>();
  lent->tensor = tensor;
  lent->stream = stream;
  dlpack::TensorView& view = lent->managed.tensor;
  view.data = lent->tensor.raw();
  const Device device = tensor.device();
  view.device = {static_cast<std::int32_t>(device.kind), device.ordinal};
  view.ndim = static_cast<std::int32_t>(tensor.rank());
  view.dtype = type_of(tensor.dtype());
  view.shape = const_cast<std::int64_t*>(lent->tensor.dims().data());  // not written by takers
  lent->managed.manager_context = lent.get();
  lent->managed.deleter = LentArray<ManagedTensor>::give_back;
  if constexpr (std::is_same_v<ManagedTensor, dlpack::ManagedVersioned>) {
    lent->managed.version = {1, 1};
  }
  nb::object capsule = nb::steal(PyCapsule_New(&lent->managed, name, drop));
  if (!capsule.is_valid()) throw nb::python_error();
  lent.release();  // NOLINT: give_back() owns it
  return capsule;
}

[[noreturn]] void buffer_error(const std::string& message) {
  PyErr_SetString(PyExc_BufferError, message.c_str());
  throw nb::python_error();
}

nb::object dlpack_of(const DeviceArray& self, std::optional<std::int64_t> stream,
                     std::optional<std::pair<int, int>> max_version,
                     std::optional<DeviceId> dl_device, std::optional<bool> copy) {
  Tensor tensor = self.tensor;
  const Device own = tensor.device();
  const DeviceId here{static_cast<std::int32_t>(own.kind), own.ordinal};
  if (dl_device && *dl_device != here) {
    if (dl_device->first != dlpack::kCpu || copy == false) {
      buffer_error(fmt::format("the array lies on {}; DLPack device ({}, {}) was asked for",
                               to_string(own), dl_device->first, dl_device->second));
    }
    tensor = tensor.to({});
  } else if (copy == true) {
    tensor = tensor.clone();
  }
  // The array is written: no stream has to wait. -1 says that the taker sees to order; then, as
  // without a stream, the default one is taken for the one it uses.
  void* used_on = stream && *stream > 0 ? reinterpret_cast<void*>(*stream) : nullptr;
  if (max_version && max_version->first >= 1) {
    return capsule_of<dlpack::ManagedVersioned>(tensor, used_on, kVersionedName, [](PyObject* c) {
      drop_capsule<dlpack::ManagedVersioned>(c, kVersionedName);
    });
  }
  return capsule_of<dlpack::Managed>(tensor, used_on, kName,
                                     [](PyObject* c) { drop_capsule<dlpack::Managed>(c, kName); });
}

nb::object numpy_of(const DeviceArray& self) {
  Tensor host;
  {
    ReleasedGil release;
    host = self.tensor.to({});
  }
  return to_python(host);
}

}  // namespace

void give_back(const Tensor& tensor, void* stream) noexcept {
  if (tensor.on_host()) return;
  try {
    if (cuda::MemoryPool::is_result_of(tensor.raw(), stream)) return;
    // Work that reads the memory may still be queued there.
    CudaDriver::get().release_after(tensor.device().ordinal, stream, tensor.owner());
  } catch (const Error& error) {  // nothing is left to be done but to say so
    log_warning(error.what());
  }
}

nb::object device_array(const Tensor& tensor) { return nb::cast(DeviceArray{tensor}); }

void bind_device_array(nb::module_& module) {
  nb::class_<DeviceArray>(module, "DeviceArray",
                          "A result in a device's memory. torch.from_dlpack(), cupy.from_dlpack() "
                          "and jax.dlpack.from_dlpack() take it without a copy; numpy() copies it "
                          "to the host. Its elements are written.")
      .def("__dlpack__", dlpack_of, nb::kw_only(), nb::arg("stream").none() = nb::none(),
           nb::arg("max_version").none() = nb::none(), nb::arg("dl_device").none() = nb::none(),
           nb::arg("copy").none() = nb::none(), "A DLPack capsule of the same memory.")
      .def(
          "__dlpack_device__",
          [](const DeviceArray& self) {
            const Device device = self.tensor.device();
            return DeviceId{static_cast<std::int32_t>(device.kind), device.ordinal};
          },
          "DLPack's device type and number.")
      .def("numpy", numpy_of, "A copy on the host: a NumPy array.")
      .def(
          "__array__",
          [](const DeviceArray& self, const nb::object& dtype, std::optional<bool> copy) {
            if (copy == false) {
              PyErr_SetString(PyExc_ValueError, "a device's memory is copied to become an array");
              throw nb::python_error();
            }
            nb::object array = numpy_of(self);
            return dtype.is_none() ? array : array.attr("astype")(dtype);
          },
          nb::arg("dtype").none() = nb::none(), nb::arg("copy").none() = nb::none())
      .def_prop_ro(
          "shape",
          [](const DeviceArray& self) {
            nb::list sizes;
            for (const std::int64_t size : self.tensor.dims()) sizes.append(size);
            return nb::tuple(sizes);
          },
          "A tuple of int.")
      .def_prop_ro(
          "dtype", [](const DeviceArray& self) { return NumPy::get().dtype(self.tensor.dtype()); },
          "The NumPy dtype of its elements.")
      .def_prop_ro(
          "device", [](const DeviceArray& self) { return to_string(self.tensor.device()); },
          "Where it lies, as openxrt.load() calls devices: \"cuda:0\".")
      .def_prop_ro("nbytes", [](const DeviceArray& self) { return self.tensor.bytes(); })
      .def("__repr__", [](const DeviceArray& self) {
        return fmt::format("<openxrt.DeviceArray {}{} on {}>", to_string(self.tensor.dtype()),
                           to_string(self.tensor.dims()), to_string(self.tensor.device()));
      });
}

}  // namespace xrt::python
