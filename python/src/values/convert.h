// SPDX-License-Identifier: Apache-2.0
// Python objects to xrt::Data and back.
//
// In: NumPy arrays (ml_dtypes included), anything with __dlpack__ on the CPU or, where the caller
// takes it, on a CUDA device (PyTorch, JAX, CuPy), the buffer protocol, numbers, nested lists;
// lists and tuples for sequences, None for an empty optional. Dense row-major memory is used where
// it lies and kept alive; everything else on the host is copied once. Out: NumPy arrays that own
// the tensor's memory; strings as object arrays of str; sequences as lists; None for an empty
// optional; tensors on a device as DeviceArray.
//
// Of a framework with DLPack's table of C functions (PyTorch) results may also be tensors of its
// own.
//
// Every function here needs the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "xrt/tensor.h"
#include "xrt/type.h"

namespace xrt::python {

namespace dlpack {
struct ExchangeApi;
}

// kReadDetached: read, also where the tensor requires grad; its gradient is the caller's affair.
enum class Access { kRead, kWrite, kReadDetached };

// Where producers have queued the work that writes the memory they lent.
class ProducerStreams {
 public:
  // A stream of ours that waits for the producer's.
  void add(int device, void* stream) {
    streams_.emplace(device, stream);
    only_callers_ = false;
  }
  // The one that the caller works on now.
  void add_callers(int device, void* stream) { streams_.emplace(device, stream); }
  // Waits for it. The GIL need not be held.
  void wait() const;
  // Device and handle of the caller's stream, where there is nothing else to wait for.
  std::optional<std::pair<int, void*>> callers() const {
    if (!only_callers_ || streams_.size() != 1) return std::nullopt;
    return *streams_.begin();
  }

 private:
  std::set<std::pair<int, void*>> streams_;
  bool only_callers_ = true;
};

// `type` is what the graph declares, `name` what to call the value in messages ("input \"x\"").
// With kWrite the result shares the caller's memory, or the call fails: kInvalidArgument.
// Memory of a CUDA device is taken if `streams` is given, and is written once that has waited.
Data to_data(nanobind::handle object, const Type& type, std::string_view name, Access access,
             ProducerStreams* streams = nullptr);

// The same for what an engine or a kernel written in Python hands over: what is wrong with it is no
// fault of the program's caller, but kEngine.
Data to_result(nanobind::handle object, const Type& type, std::string_view name);

// The memory is shared; elements narrower than a byte are unpacked to one per byte. Arrays that are
// `read_only` stay so: their flag cannot be set again, and DLPack hands it on.
nanobind::object to_python(const Data& data, bool read_only = false);

// The same of a value of that type, whose maps are dicts.
nanobind::object to_python(const Data& data, const Type& type);

// The table of a framework's C functions; null where the type of its tensors has none of a version
// known here.
const dlpack::ExchangeApi* exchange_api(PyTypeObject* type);

// The same as a tensor of the framework; what such a table does not take, as to_python gives it.
nanobind::object to_framework(const Data& data, const dlpack::ExchangeApi& api);

// Registers the type that lends tensors' memory to NumPy.
void bind_convert(nanobind::module_& module);

}  // namespace xrt::python
