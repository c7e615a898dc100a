// SPDX-License-Identifier: Apache-2.0
// What the compiler must know of a target. It never needs the target's hardware: the driver in
// lite/runtime/drivers/<name> looks up kernel ids, everything else is decided here.
//
// A target is one file of this folder and one line in target.cc.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel.h"

namespace xrt {
class Graph;
}

namespace xrt::lite {

struct Module;
struct ModuleFunction;

// How a constant factor is packed: kernel.h, "How a constant factor lies in memory".
struct Packing {
  int n = 8, k = 1;
};

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string name() const = 0;
  // Kernels read and write the host's memory (else: transfers, a driver with buffers).
  virtual bool host_memory() const { return true; }
  // Why the target cannot run a kernel with these parameters; nothing if it can. Packing is not
  // decided yet (pack_n is 1 for a constant factor, 0 for one that is not).
  virtual std::optional<std::string> refuses(xrt_kernel_id kernel, const void* params) const = 0;
  virtual Packing pack_conv(xrt_kernel_id kernel, const xrt_k_conv& params) const = 0;
  virtual Packing pack_gemm(xrt_kernel_id kernel, const xrt_k_gemm& params) const = 0;
  // Of the final parameters; per call, for all its threads together.
  virtual std::size_t scratch_bytes(xrt_kernel_id kernel, const void* params) const {
    (void)kernel, (void)params;
    return 0;
  }
  // What the name of a kernel's C function begins with ("xrt_generic_", followed by "conv_f32"),
  // for C sources; empty where the target's kernels cannot be called so.
  virtual std::string c_prefix(xrt_kernel_id kernel) const {
    (void)kernel;
    return {};
  }
  // A target whose compiler takes whole models: each function becomes one op, from a graph that
  // does what its ops do (raise.h); this makes the code that the driver loads.
  virtual bool whole_functions() const { return false; }
  virtual std::string compile_model(const Graph& graph) const {
    (void)graph;
    return {};
  }
  // What the driver runs a function from, beside the parameters of its ops: machine code, a
  // compiled model. Memory has been planned. Nothing for drivers of ready-made kernels.
  virtual std::string code(const Module& module, const ModuleFunction& function) const {
    (void)module, (void)function;
    return {};
  }
};

// Null if there is none of that name.
const Target* find_target(std::string_view name);
std::vector<std::string> target_names();

// Defined by the files of this folder.
const Target& generic_target();
const Target& x86_target();
const Target& cuda_target();
const Target& ascend_target();
const Target& arm_target();
const Target& cortex_m_target();

}  // namespace xrt::lite
