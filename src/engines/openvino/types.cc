// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/types.h"

namespace xrt::openvino {

ov::element::Type to_element_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ov::element::f32;
    case DType::kUInt8:
      return ov::element::u8;
    case DType::kInt8:
      return ov::element::i8;
    case DType::kUInt16:
      return ov::element::u16;
    case DType::kInt16:
      return ov::element::i16;
    case DType::kInt32:
      return ov::element::i32;
    case DType::kInt64:
      return ov::element::i64;
    case DType::kString:
      return ov::element::string;
    case DType::kBool:
      return ov::element::boolean;
    case DType::kFloat16:
      return ov::element::f16;
    case DType::kFloat64:
      return ov::element::f64;
    case DType::kUInt32:
      return ov::element::u32;
    case DType::kUInt64:
      return ov::element::u64;
    case DType::kBFloat16:
      return ov::element::bf16;
    case DType::kFloat8E4M3FN:
      return ov::element::f8e4m3;
    case DType::kFloat8E5M2:
      return ov::element::f8e5m2;
    case DType::kUInt4:
      return ov::element::u4;
    case DType::kInt4:
      return ov::element::i4;
    case DType::kFloat4E2M1:
      return ov::element::f4e2m1;
    case DType::kFloat8E8M0:
      return ov::element::f8e8m0;
    case DType::kUInt2:
      return ov::element::u2;
    default:
      return ov::element::dynamic;
  }
}

ov::PartialShape to_partial_shape(const Type& type) {
  if (!type.shape) return ov::PartialShape::dynamic();
  std::vector<ov::Dimension> dims;
  dims.reserve(type.shape->size());
  for (const Dim& dim : *type.shape) {
    dims.push_back(dim.is_known() ? ov::Dimension(dim.value()) : ov::Dimension::dynamic());
  }
  return ov::PartialShape(std::move(dims));
}

ov::Shape to_shape(const Dims& dims) { return ov::Shape(dims.begin(), dims.end()); }

Dims to_dims(const ov::Shape& shape) { return Dims(shape.begin(), shape.end()); }

}  // namespace xrt::openvino
