// SPDX-License-Identifier: Apache-2.0
// A user's own ops for OpenVINO: libraries of OpenVINO extensions, which hold ops and how the ONNX
// frontend makes them of nodes (ov::frontend::onnx::OpExtension, ConversionExtension).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace xrt::openvino {

// What XRT_OPENVINO_EXTENSIONS names (separated by ':'); read once. Throws kNotFound naming a file
// that is missing.
const std::vector<std::filesystem::path>& extension_libraries();

// Name, size and time of each: part of the engine's version, "" where there are none.
std::string extensions_version();

}  // namespace xrt::openvino
