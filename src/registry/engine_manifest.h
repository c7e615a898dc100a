// SPDX-License-Identifier: Apache-2.0
// What must be known of an engine before its library is opened, or where it cannot be opened.
//
// It lies beside the library, in libxrt_engine_<name>.json:
//
//   {
//     "install": "pip install openvino==2026.4.1",
//     "libraries": ["openvino/libs"],
//     "estimates": {"convolution": 90, "depthwise": 20, "matrix": 80, "quantised": 250, "bytes": 8,
//                   "launch_us": 25, "node_us": 0.4},
//     "gains_from_fixed_sizes": false,
//     "needs_fixed_sizes": false,
//     "checks_values": false,
//     "crashes_on_values": true,
//     "allocates_when_compiled": false,
//     "expands_without_memory": false,
//     "fast_with_symmetric_int8": false
//   }
//
// Every member may be absent, and so may the file. "language": "python" tells of an engine that is
// written in Python and has no library.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "xrt/export.h"

namespace xrt {

// What an engine does, roughly, for placement by estimates: 10⁹ operations (or bytes) per second
// and thread, in float32. Only the ratios between engines matter.
struct EngineEstimates {
  double convolution = 1, depthwise = 1, matrix = 1;
  double quantised = 1;                               // 8-bit products
  std::optional<double> quantised_without_vnni = {};  // on x86 without such instructions
  double bytes = 1;                                   // memory traffic
  double launch_us = 20, node_us = 1;
};

struct EngineManifest {
  std::string install;  // what to install where the engine's library cannot be opened
  // Where the vendor's libraries lie in a folder of Python packages. They are looked for there when
  // the search path of the engine's library does not lead to them.
  std::vector<std::string> libraries;
  std::string language = "c++";
  std::optional<EngineEstimates> estimates;
  // Whether a function whose sizes are all known runs faster than one with open dimensions, by more
  // than some percent.
  bool gains_from_fixed_sizes = true;
  // EngineInfo::shapes is kStatic: nodes with open dimensions are not for it.
  bool needs_fixed_sizes = false;
  // Values that decide shapes or addresses (ops/sizes/deciding_operands.h) and are wrong are errors
  // of its executables. Else the runtime looks at them, and cuts functions where they are computed.
  bool checks_values = false;
  // Such values read or write memory that is not the tensor's: nodes in whose bodies they are
  // computed, where nobody sees them, are not for it, nor are values without elements and sizes
  // that were not judged (exec/stand_in.h).
  bool crashes_on_values = false;
  // Its library takes memory for a function's values while it compiles the function: what they take
  // at least is judged before.
  bool allocates_when_compiled = false;
  // An expanded value takes no memory of its own, when it is compiled or later: a large one that is
  // made of constants alone is for it, too (placement/heavy_constants.h).
  bool expands_without_memory = false;
  // Activations of int8 without zero points are faster than uint8, which it also takes: the
  // quantiser writes those for it.
  bool fast_with_symmetric_int8 = false;
};

// Of the engine of that name; empty where it has none. Throws kInvalidModel naming the file where
// it is not as above.
XRT_API EngineManifest engine_manifest(const std::string& engine);

// The same of a file; empty where there is none. Throws kIo where it cannot be read.
EngineManifest read_engine_manifest(const std::filesystem::path& file);

// Where the manifest of an engine's library lies.
std::filesystem::path manifest_file(const std::filesystem::path& library);

}  // namespace xrt
