// SPDX-License-Identifier: Apache-2.0
// Compares what engines computed with what the fallback engine computes: a guard against faults of
// vendors' libraries.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "exec/run_record.h"
#include "measure/half_range.h"
#include "xrt/export.h"
#include "xrt/options.h"
#include "xrt/precision.h"

namespace xrt {

// How far a function of `nodes` nodes may be from the fallback's result, over the range of an
// output: rounding errors of `precision` that add up at random, with a wide margin.
XRT_API double result_tolerance(Precision precision, std::size_t nodes);

struct ResultCheck {
  struct Wrong {
    std::string function, engine, key;
    std::string why;  // "output 'y' differs from that of 'native' by 0.31 of its range"
  };
  // A function that is off because half precision cannot hold its values: the engine is not at
  // fault.
  struct Overflow {
    std::string function;
    HalfOverflows values;
  };
  std::vector<Wrong> wrong;
  std::vector<Overflow> overflows;
  std::size_t right = 0;
  double largest = 0;                // difference of those that are right, over an output's range
  std::vector<std::string> skipped;  // "function: reason"
};

// Computes the functions of the record on the fallback engine. Random functions and those that the
// fallback does not take are skipped. `precision`: what the engines computed in.
XRT_API ResultCheck check_results(const RunRecord& record, Precision precision,
                                  const ProgramOptions& options);

}  // namespace xrt
