// SPDX-License-Identifier: Apache-2.0
// A compiled model before it becomes bytes: what the file's tables say, with names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format.h"
#include "lir.h"
#include "targets/target.h"

namespace xrt::lite {

// Memory that is written during a run.
struct Storage {
  std::string name;
  std::size_t bytes = 0;
  int first = 0, last = 0;      // ops from its first writer to its last reader, both included
  int input = -1, output = -1;  // the caller's buffer of that port
  std::size_t offset = 0;       // in the arena (plan_memory)
  int shares = -1;              // the storage whose memory it takes over, in place
};

struct Operand {
  enum class At : std::uint8_t { kConstant, kStorage } at = At::kStorage;
  int index = 0;  // into constants or storages
  std::size_t offset = 0, bytes = 0;
  DType dtype = DType::kFloat32;
};

struct ModuleOp {
  std::string name;
  xrt_kernel_id kernel = XRT_K_NONE;
  std::vector<std::uint32_t> params;
  std::vector<Operand> operands;
  int output = 0;    // index of the operand that is written
  int scratch = -1;  // a storage
  int target = 0;    // index into Module::targets
  double work = 0;   // multiply-adds, for the report
};

struct ModulePort {
  std::string name;
  DType dtype = DType::kFloat32;
  Dims dims;
};

struct Module {
  std::string name;
  std::vector<const Target*> targets;
  std::vector<ModuleOp> ops;
  std::vector<Storage> storages;
  std::vector<std::string> constants;  // bytes
  std::vector<ModulePort> inputs, outputs;
  std::size_t arena_bytes = 0;
  std::size_t largest_live_bytes = 0;  // lower bound of any arena
  std::size_t weight_bytes = 0;
};

enum class Precision : std::uint8_t { kFloat32, kFloat16, kInt8 };

// Kernels, parameters and packed weights. `targets` in order of priority: an op goes to the first
// one that takes it. Throws kUnsupported naming an op that none takes.
Module emit(const LGraph& graph, const std::vector<const Target*>& targets, Precision precision);
// Offsets in one arena; sets arena_bytes and largest_live_bytes.
void plan_memory(Module& module);
// The bytes of a file (docs/lite-format.md).
std::string write_file(const Module& module);

struct CSources {
  std::string header, source;
};
// C sources that call the kernels of lite/runtime/drivers/generic by name; `name` begins what they
// define. Throws kUnsupported where an op is for another target.
CSources write_c(const Module& module, const std::string& name);

}  // namespace xrt::lite
