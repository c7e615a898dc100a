// SPDX-License-Identifier: Apache-2.0
// The largest batch that fits. Engines allocate for themselves, so the memory that a batch takes is
// what the process grew by when the batch before it, of half the size, was run.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "base/work_scope.h"
#include "evaluation/evaluate.h"
#include "evaluation/flights.h"
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

// Of the machine, or of the process's control group, which counts what the process has as used.
std::int64_t free_bytes() {
  const std::int64_t mine = proc_bytes("/proc/self/status", "VmRSS", 0);
  const auto bound = static_cast<std::int64_t>(memory_bound(0));
  return std::min(
      proc_bytes("/proc/meminfo", "MemAvailable", std::numeric_limits<std::int64_t>::max()),
      std::max<std::int64_t>(bound - mine, 0));
}

std::int64_t bytes_of(const std::vector<Data>& inputs) {
  std::int64_t bytes = 0;
  for (const Data& input : inputs) {
    if (input.is_tensor()) bytes += static_cast<std::int64_t>(input.tensor().bytes());
  }
  return bytes;
}

}  // namespace

std::int64_t largest_batch(std::span<Program* const> programs, const LabelledSet& set,
                           const BatchOptions& options) {
  BatchOptions first = options;
  first.batch = 0;
  const BatchShape shape(set, programs.front()->inputs(), first);
  if (!shape.open_batch()) return shape.batch();
  const std::size_t samples = options.limit > 0 ? std::min(options.limit, set.size()) : set.size();
  // Batches that the loader keeps: those under way, and one that is filled.
  const auto kept = static_cast<std::int64_t>(Flights(programs).most() + 1);
  std::int64_t fits = 0;
  for (std::int64_t batch = 1; batch <= static_cast<std::int64_t>(samples); batch *= 2) {
    const std::int64_t before = peak_bytes();
    const std::vector<Data> inputs = shape.allocate(batch);
    try {
      for (Program* program : programs) run_at_once(*program, inputs);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kResource || fits == 0) throw;
      return fits;
    }
    fits = batch;
    throw_if_interrupted();
    // Twice the batch takes twice as much again. An engine's first runs take less than its later
    // ones, so that as much is kept free.
    const std::int64_t grown = peak_bytes() - before;
    if (grown * 4 + kept * bytes_of(inputs) * 2 > free_bytes()) break;
  }
  return fits;
}

}  // namespace xrt
