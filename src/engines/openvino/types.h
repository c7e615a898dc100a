// SPDX-License-Identifier: Apache-2.0
// Types of OpenXRT as OpenVINO's, and back.
#pragma once

#include <openvino/core/partial_shape.hpp>
#include <openvino/core/type/element_type.hpp>

#include "xrt/type.h"

namespace xrt::openvino {

// ov::element::dynamic where OpenVINO has no such type (complex, float8 variants of one vendor).
ov::element::Type to_element_type(DType dtype);
// Symbols and unknown dimensions become dynamic; a type without rank becomes a dynamic rank.
ov::PartialShape to_partial_shape(const Type& type);
ov::Shape to_shape(const Dims& dims);
Dims to_dims(const ov::Shape& shape);

}  // namespace xrt::openvino
