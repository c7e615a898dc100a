// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "device/cuda_driver.h"
#include "gil.h"
#include "values/given.h"
#include "xrt/error.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

// Owns what a capsule lent; the producer's deleter may touch Python objects.
template <typename ManagedTensor>
std::shared_ptr<const void> own(ManagedTensor* managed) {
  return {static_cast<const void*>(managed), [managed](const void*) {
            if (managed->deleter == nullptr) return;
            with_gil_if_up([managed] { managed->deleter(managed); });
          }};
}

// More than any producer has; what is larger is a capsule that was filled wrongly.
constexpr std::int32_t kMaxRank = 1024;

bool is_cuda(std::int32_t device_type) {
  return device_type == dlpack::kCuda || device_type == dlpack::kCudaManaged;
}

// A tensor over memory that `owner` keeps alive.
Tensor from_view(const dlpack::TensorView& view, const Type& type,
                 std::shared_ptr<const void> owner, bool read_only, std::string_view name,
                 Access access, bool takes_devices) {
  const std::int32_t kind = view.device.type;
  const bool on_host =
      kind == dlpack::kCpu || kind == dlpack::kCudaHost || kind == dlpack::kRocmHost;
  if (!on_host && !(takes_devices && is_cuda(kind))) {
    fail(name, fmt::format("it lies on a device (DLPack type {}); copy it to the CPU first", kind));
  }
  const Device device = on_host ? Device{} : Device{DeviceKind::kCuda, view.device.id};
  const std::optional<DType> dtype = dtype_of(view.dtype);
  if (!dtype) {
    fail(name, fmt::format("no tensor has DLPack elements of code {}, {} bits, {} lanes",
                           view.dtype.code, view.dtype.bits, view.dtype.lanes));
  }
  if (read_only && access == Access::kWrite) fail(name, "it is written in place but is read-only");

  if (view.ndim < 0 || view.ndim > kMaxRank || (view.ndim > 0 && view.shape == nullptr)) {
    fail(name, fmt::format("its DLPack tensor has {} dimensions and {} sizes", view.ndim,
                           view.shape == nullptr ? "no" : "a list of"));
  }
  const auto rank = static_cast<std::size_t>(view.ndim);
  Dims dims(view.shape, view.shape + rank);
  const bool is_empty = element_count(dims) == 0;
  if (view.data == nullptr && !is_empty) fail(name, "its DLPack tensor has no memory");
  char* data = static_cast<char*>(view.data) + view.byte_offset;
  const auto item = static_cast<std::int64_t>(bit_width(*dtype) / 8);
  bool dense = true;
  std::vector<std::int64_t> strides(rank);
  if (view.strides != nullptr && !is_empty) {
    std::int64_t expected = 1;
    for (std::size_t i = rank; i-- > 0;) {
      if (__builtin_mul_overflow(view.strides[i], item, &strides[i])) {
        fail(name, fmt::format("its DLPack tensor has the stride {}", view.strides[i]));
      }
      dense = dense && (dims[i] <= 1 || view.strides[i] == expected);
      expected *= dims[i];
    }
  }
  if (dense || is_empty) {
    return Tensor::wrap(*dtype, std::move(dims), data, std::move(owner), device);
  }
  if (access == Access::kWrite) {
    fail(name, "it is written in place and must be dense and row-major (C-contiguous)");
  }
  if (!on_host) {
    fail(name, fmt::format("it lies on {} and must be dense and row-major there (C-contiguous)",
                           to_string(device)));
  }
  if (is_packed(*dtype)) fail(name, "elements narrower than a byte must be dense and row-major");
  check_repeated(type, dims, strides, name);
  Tensor copy = Tensor::allocate(*dtype, dims);
  copy_strided(copy.data<char>(), data, static_cast<std::size_t>(item), dims.data(), strides.data(),
               rank);
  return copy;
}

}  // namespace

void fail(std::string_view name, const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", name, what));
}

std::string kind_of(nb::handle object) { return nb::type_name(object.type()).c_str(); }

void fail_with_cause(std::string_view name, const std::string& what, nb::python_error& error) {
  fail(name, fmt::format("{}: {}", what, nb::str(error.value()).c_str()));
}

void check_repeated(const Type& type, const Dims& dims, std::span<const std::int64_t> strides,
                    std::string_view name) {
  bool repeats = false;
  for (std::size_t i = 0; i < dims.size(); ++i)
    repeats = repeats || (strides[i] == 0 && dims[i] > 1);
  if (!repeats || !type.is_tensor() || !type.has_rank()) return;
  bool fits = dims.size() == type.shape->size();
  for (std::size_t i = 0; fits && i < dims.size(); ++i) {
    const Dim& dim = (*type.shape)[i];
    fits = !dim.is_known() || dim.value() == dims[i];
  }
  if (fits) return;
  fail(name, fmt::format("a tensor of shape {} was given where {} is wanted", to_string(dims),
                         to_string(type)));
}

void copy_strided(char* to, const char* from, std::size_t item, const std::int64_t* shape,
                  const std::int64_t* strides, std::size_t rank) {
  if (rank == 0) {
    std::memcpy(to, from, item);
    return;
  }
  std::size_t inner = item;
  for (std::size_t i = 1; i < rank; ++i) inner *= static_cast<std::size_t>(shape[i]);
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    copy_strided(to + static_cast<std::size_t>(i) * inner, from + i * strides[0], item, shape + 1,
                 strides + 1, rank - 1);
  }
}

Tensor from_dlpack(nb::handle object, const Type& type, std::string_view name, Access access,
                   ProducerStreams* streams) {
  nb::object capsule;
  try {
    nb::object method = object.attr("__dlpack__");
    nb::dict arguments;
    if (streams != nullptr && nb::hasattr(object, "__dlpack_device__")) {
      const auto [kind, ordinal] =
          nb::cast<std::pair<int, int>>(object.attr("__dlpack_device__")());
      if (is_cuda(kind)) {
        // The producer lets this stream wait for its own.
        void* stream = CudaDriver::get().stream(ordinal);
        arguments["stream"] = reinterpret_cast<std::uintptr_t>(stream);
        streams->add(ordinal, stream);
      }
    }
    try {
      capsule = method(nb::arg("max_version") = nb::make_tuple(1, 1), **arguments);
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;
      capsule = method(**arguments);  // a producer from before DLPack 1.0
    }
  } catch (nb::python_error& error) {
    fail_with_cause(name, fmt::format("the {} does not lend its memory", kind_of(object)), error);
  }

  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    auto* managed = static_cast<dlpack::ManagedVersioned*>(
        PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->version.major != 1) {
      fail(name, fmt::format("it speaks DLPack {}; versions 0 and 1 are understood",
                             managed->version.major));
    }
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    const bool read_only = (managed->flags & dlpack::kReadOnly) != 0;
    return from_view(managed->tensor, type, own(managed), read_only, name, access,
                     streams != nullptr);
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor") != 0) {
    auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
    return from_view(managed->tensor, type, own(managed), false, name, access, streams != nullptr);
  }
  fail(name, fmt::format("{}.__dlpack__() did not return a DLPack capsule", kind_of(object)));
}

Tensor from_exchange(const dlpack::ExchangeApi& api, nb::handle object, const Type& type,
                     std::string_view name, Access access, ProducerStreams* streams) {
  if (access != Access::kReadDetached) {
    // What __dlpack__ refuses, and the table does not: results would silently have no gradient.
    static PyObject* const kRequiresGrad = PyUnicode_InternFromString("requires_grad");
    const nb::object grad = nb::steal(PyObject_GetAttr(object.ptr(), kRequiresGrad));
    if (!grad.is_valid()) PyErr_Clear();
    if (grad.ptr() == Py_True) {
      fail(name, fmt::format("the {} does not lend its memory: it requires grad; pass detach()",
                             kind_of(object)));
    }
  }
  // PyTorch's tensors may have a sign that is yet to be applied (the imaginary part of a
  // conjugate): DLPack has no word for it.
  static PyObject* const kIsNegative = PyUnicode_InternFromString("is_neg");
  const nb::object negative =
      nb::steal(PyObject_CallMethodObjArgs(object.ptr(), kIsNegative, nullptr));
  if (!negative.is_valid()) PyErr_Clear();
  nb::object resolved;
  if (negative.ptr() == Py_True) {
    if (access == Access::kWrite) {
      fail(name, fmt::format("the {} is a negative view, which cannot be written; pass clone()",
                             kind_of(object)));
    }
    resolved = object.attr("resolve_neg")();
    object = resolved;
  }
  dlpack::ManagedVersioned* managed = nullptr;
  if (api.managed_from_object(object.ptr(), &managed) != 0) {
    nb::python_error error;
    fail_with_cause(name, fmt::format("the {} does not lend its memory", kind_of(object)), error);
  }
  const bool read_only = (managed->flags & dlpack::kReadOnly) != 0;
  std::shared_ptr<const void> owner = own(managed);
  const dlpack::Device& device = managed->tensor.device;
  if (streams != nullptr && is_cuda(device.type)) {
    void* stream = nullptr;
    if (api.current_stream(device.type, device.id, &stream) != 0) {
      nb::python_error error;
      fail_with_cause(name, fmt::format("the {} has no stream", kind_of(object)), error);
    }
    streams->add_callers(device.id, stream);
  }
  return from_view(managed->tensor, type, std::move(owner), read_only, name, access,
                   streams != nullptr);
}

const dlpack::ExchangeApi* exchange_api(PyTypeObject* type) {
  static PyObject* const kName = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  PyObject* found = PyObject_GetAttr(reinterpret_cast<PyObject*>(type), kName);
  if (found == nullptr) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw nb::python_error();
    PyErr_Clear();
    return nullptr;
  }
  const nb::object capsule = nb::steal(found);
  if (PyCapsule_IsValid(found, "dlpack_exchange_api") == 0) return nullptr;
  const auto* api =
      static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(found, "dlpack_exchange_api"));
  return api->version.major == 1 ? api : nullptr;
}

void ProducerStreams::wait() const {
  for (const auto& [device, stream] : streams_) CudaDriver::get().synchronize(device, stream);
}

}  // namespace xrt::python
