// SPDX-License-Identifier: Apache-2.0
#include "values/numpy.h"

#include <string>

namespace nb = nanobind;

namespace xrt::python {
namespace {

struct Row {
  DType dtype;
  const char* name;
};

constexpr Row kPlain[] = {
    {DType::kFloat32, "float32"},     {DType::kUInt8, "uint8"},
    {DType::kInt8, "int8"},           {DType::kUInt16, "uint16"},
    {DType::kInt16, "int16"},         {DType::kInt32, "int32"},
    {DType::kInt64, "int64"},         {DType::kBool, "bool"},
    {DType::kFloat16, "float16"},     {DType::kFloat64, "float64"},
    {DType::kUInt32, "uint32"},       {DType::kUInt64, "uint64"},
    {DType::kComplex64, "complex64"}, {DType::kComplex128, "complex128"},
};

constexpr Row kMlDtypes[] = {
    {DType::kBFloat16, "bfloat16"},
    {DType::kFloat8E4M3FN, "float8_e4m3fn"},
    {DType::kFloat8E4M3FNUZ, "float8_e4m3fnuz"},
    {DType::kFloat8E5M2, "float8_e5m2"},
    {DType::kFloat8E5M2FNUZ, "float8_e5m2fnuz"},
    {DType::kUInt4, "uint4"},
    {DType::kInt4, "int4"},
    {DType::kFloat4E2M1, "float4_e2m1fn"},
    {DType::kFloat8E8M0, "float8_e8m0fnu"},
    {DType::kUInt2, "uint2"},
    {DType::kInt2, "int2"},
};

}  // namespace

NumPy::NumPy() {
  nb::module_ numpy = nb::module_::import_("numpy");
  ndarray = numpy.attr("ndarray");
  asarray = numpy.attr("asarray");
  array_equal = numpy.attr("array_equal");
  ascontiguousarray = numpy.attr("ascontiguousarray");
  nb::object make = numpy.attr("dtype");
  object_dtype = make("object");
  for (const Row& row : kPlain) {
    nb::object dtype = make(row.name);
    dtypes_[static_cast<std::size_t>(row.dtype)] = dtype;
    by_dtype_[dtype] = nb::int_(static_cast<int>(row.dtype));
  }
  // One width may have two names in C (long and long long): both are the same element type.
  for (const char* alias : {"q", "Q", "l", "L"}) {
    nb::object dtype = make(alias);
    const bool is_signed = alias[0] == 'q' || alias[0] == 'l';
    const bool wide = nb::cast<int>(dtype.attr("itemsize")) == 8;
    const DType width = wide ? (is_signed ? DType::kInt64 : DType::kUInt64)
                             : (is_signed ? DType::kInt32 : DType::kUInt32);
    by_dtype_[dtype] = nb::int_(static_cast<int>(width));
  }
  dtypes_[static_cast<std::size_t>(DType::kString)] = object_dtype;
  uint8 = dtypes_[static_cast<std::size_t>(DType::kUInt8)];
  uint16 = dtypes_[static_cast<std::size_t>(DType::kUInt16)];
}

NumPy& NumPy::get() {
  // Never destroyed: the interpreter may already be gone when static objects are.
  static NumPy* numpy = new NumPy();
  return *numpy;
}

void NumPy::load_ml_dtypes() {
  tried_ml_dtypes_ = true;
  nb::object module;
  try {
    module = nb::module_::import_("ml_dtypes");
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    return;  // dtype() says what is missing when it is needed
  }
  nb::object make = nb::module_::import_("numpy").attr("dtype");
  for (const Row& row : kMlDtypes) {
    if (!nb::hasattr(module, row.name)) continue;  // an older ml_dtypes
    nb::object dtype = make(module.attr(row.name));
    dtypes_[static_cast<std::size_t>(row.dtype)] = dtype;
    by_dtype_[dtype] = nb::int_(static_cast<int>(row.dtype));
  }
}

nb::handle NumPy::dtype(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  if (!dtypes_[index].is_valid() && !tried_ml_dtypes_) load_ml_dtypes();
  if (!dtypes_[index].is_valid()) {
    const std::string name(to_string(dtype));
    throw nb::import_error(
        ("NumPy has no " + name + ": install ml_dtypes 0.5 or newer (pip install -U ml_dtypes)")
            .c_str());
  }
  return dtypes_[index];
}

std::optional<DType> NumPy::parse(nb::handle numpy_dtype) {
  PyObject* found = PyDict_GetItemWithError(by_dtype_.ptr(), numpy_dtype.ptr());
  if (found == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  if (found == nullptr && !tried_ml_dtypes_) {
    load_ml_dtypes();
    return parse(numpy_dtype);
  }
  if (found == nullptr) return std::nullopt;
  return static_cast<DType>(PyLong_AsLong(found));
}

}  // namespace xrt::python
