// SPDX-License-Identifier: Apache-2.0
// What the ways from a Python object to a tensor share, and the way through DLPack.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "values/convert.h"
#include "values/dlpack.h"
#include "xrt/tensor.h"

namespace xrt::python {

// kInvalidArgument: what is wrong with the value that messages call `name`.
[[noreturn]] void fail(std::string_view name, const std::string& what);
// The same, with the Python error of a call on the caller's object as its cause.
[[noreturn]] void fail_with_cause(std::string_view name, const std::string& what,
                                  nanobind::python_error& error);
// The name of the object's type.
std::string kind_of(nanobind::handle object);

// Before memory of other strides is copied: throws where elements are repeated, so that they may be
// any number, and an input of this type cannot have these sizes. Others are a run's to refuse.
void check_repeated(const Type& type, const Dims& dims, std::span<const std::int64_t> strides,
                    std::string_view name);

// Copies memory of any strides (in bytes) to dense row-major memory; `item` bytes an element.
void copy_strided(char* to, const char* from, std::size_t item, const std::int64_t* shape,
                  const std::int64_t* strides, std::size_t rank);

// Through __dlpack__, and through a framework's table of C functions. Memory of a CUDA device is
// taken if `streams` is given.
Tensor from_dlpack(nanobind::handle object, const Type& type, std::string_view name, Access access,
                   ProducerStreams* streams);
Tensor from_exchange(const dlpack::ExchangeApi& api, nanobind::handle object, const Type& type,
                     std::string_view name, Access access, ProducerStreams* streams);

}  // namespace xrt::python
