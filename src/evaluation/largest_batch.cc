// SPDX-License-Identifier: Apache-2.0
// The largest batch that fits. Engines allocate for themselves, so the memory that a batch takes is
// what the process grew by when the batch before it, of half the size, was run.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include "base/interrupt.h"
#include "evaluation/evaluate.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// "Name:  123 kB" of a file of /proc, in bytes; `missing` where it is not there.
std::int64_t proc_bytes(const char* file, const std::string& name, std::int64_t missing) {
  std::ifstream lines(file);
  for (std::string key; lines >> key;) {
    std::int64_t value = 0;
    if (key == name + ":" && lines >> value) return value * 1024;
    lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return missing;
}

std::int64_t peak_bytes() { return proc_bytes("/proc/self/status", "VmHWM", 0); }

std::int64_t free_bytes() {
  return proc_bytes("/proc/meminfo", "MemAvailable", std::numeric_limits<std::int64_t>::max());
}

}  // namespace

std::int64_t largest_batch(Program& program, const LabelledSet& set, const BatchOptions& options) {
  BatchOptions first = options;
  first.batch = 0;
  const BatchShape shape(set, program.inputs(), first);
  if (!shape.open_batch()) return shape.batch();
  const std::size_t samples = options.limit > 0 ? std::min(options.limit, set.size()) : set.size();
  std::int64_t fits = 0;
  for (std::int64_t batch = 1; batch <= static_cast<std::int64_t>(samples); batch *= 2) {
    const std::int64_t before = peak_bytes();
    try {
      std::vector<Data> outputs;
      program.run(shape.allocate(batch), outputs);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kResource || fits == 0) throw;
      return fits;
    }
    fits = batch;
    throw_if_interrupted();
    // Twice the batch takes twice as much again, and the two buffers of samples.
    const std::int64_t grown = peak_bytes() - before;
    if (grown * 4 > free_bytes()) break;
  }
  return fits;
}

}  // namespace xrt
