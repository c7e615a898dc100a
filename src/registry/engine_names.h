// SPDX-License-Identifier: Apache-2.0
// Names that stand for something else than an engine's library.
#pragma once

namespace xrt {

// Takes what no listed engine takes, unless a program is strict.
inline constexpr const char* kFallbackEngine = "native";
// Who drives an If, Loop or Scan whose body runs on several engines, in explanations and overrides.
inline constexpr const char* kRuntimeEngine = "runtime";

// What "auto" chooses from, in the order in which it tries them, where the user lists none.
inline constexpr const char* kAutoEngines[] = {"native", "openvino", "onnxruntime", "xla"};
inline constexpr const char* kAutoEnginesOnAccelerators[] = {"tensorrt", "xla", "tvm"};

}  // namespace xrt
