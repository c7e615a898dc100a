// SPDX-License-Identifier: Apache-2.0
// A compiled model before it becomes bytes: what the file's tables say, with names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format.h"
#include "lir/lir.h"
#include "targets/target.h"

namespace xrt::lite {

// Memory that is written during a run.
struct Storage {
  std::string name;
  std::size_t bytes = 0;
  int first = 0, last = 0;      // times of its first writer and its last reader (ModuleOp::time)
  int input = -1, output = -1;  // the caller's buffer of that port
  int device = -1;              // the target in whose memory it lies; -1: the host's
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
  int time = 0;      // place among all ops and transfers, as they run
  double work = 0;   // multiply-adds, for the report
};

// Consecutive ops of one target.
struct ModuleFunction {
  int target = 0, first_op = 0, op_count = 0;
  std::string code;  // what the target's driver needs beside parameters (Target::code)
};

// A run is a sequence of steps: a function, or a storage copied between the host and a device.
struct ModuleStep {
  int function = -1;       // else a transfer:
  int from = -1, to = -1;  // storages
  int time = 0;
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
  std::vector<ModuleFunction> functions;
  std::vector<ModuleStep> steps;
  int times = 0;  // ops and transfers
  std::vector<Storage> storages;
  std::vector<std::string> constants;  // bytes
  std::vector<ModulePort> inputs, outputs;
  std::size_t arena_bytes = 0;                  // the host's
  std::size_t largest_live_bytes = 0;           // lower bound of any arena of the host
  std::vector<std::size_t> device_arena_bytes;  // per target; 0 for those in the host's memory
  std::size_t weight_bytes = 0;
};

enum class Precision : std::uint8_t { kFloat32, kFloat16, kInt8 };

// Kernels, parameters and packed weights. `targets` in order of priority: an op goes to the first
// one that takes it. Throws kUnsupported naming an op that none takes.
Module emit(const LGraph& graph, const std::vector<const Target*>& targets, Precision precision);
// Orders ops so that those of one memory follow each other, gives every storage a copy in each
// memory that it is used in, and adds the transfers between them: functions, steps and times.
void partition(Module& module);
// Functions of targets that compile whole models become one op each.
void merge_functions(Module& module);
// Bytes of a storage, also of ports.
std::size_t storage_bytes(const Module& module, const Storage& storage);
// Offsets in one arena per memory; sets arena_bytes, largest_live_bytes, device_arena_bytes.
void plan_memory(Module& module);
// The bytes of a file (docs/reference/lite-format.md).
std::string write_file(const Module& module);

struct CSources {
  std::string header, source;
};
// C sources that call kernels of lite/runtime/drivers by name; `name` begins what they define.
// Throws kUnsupported where an op is for a target whose kernels cannot be called so.
CSources write_c(const Module& module, const std::string& name);

}  // namespace xrt::lite
