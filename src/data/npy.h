// SPDX-License-Identifier: Apache-2.0
// NumPy's file formats: .npy (versions 1 to 3) and .npz, read and written.
//
// Read: bool, integers, floats, complex, text (U and S), any byte order, C and Fortran order.
// Object arrays are pickles and are refused. Types that NumPy lacks (bfloat16, float8, int4) are
// stored by ml_dtypes as void bytes; they come back as the dtype that `wanted` names.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "xrt/tensor.h"

namespace xrt {

// What to call the bytes of a void element type; kUndefined: refuse them.
Tensor parse_npy(std::string_view content, const std::string& origin,
                 DType wanted = DType::kUndefined);
std::string format_npy(const Tensor& tensor);

// Array name → dtype that void elements stand for.
using WantedDTypes = std::map<std::string, DType>;
std::map<std::string, Tensor> read_npz(const std::filesystem::path& path,
                                       const WantedDTypes& wanted = {});
void write_npz(const std::filesystem::path& path, const std::map<std::string, Tensor>& arrays);

}  // namespace xrt
