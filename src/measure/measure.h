// SPDX-License-Identifier: Apache-2.0
// Placement by measuring.
//
// 1. Every candidate engine, with "native" for what it refuses, is compiled and timed whole, the
//    estimated best first; with precision "auto" also in lower precisions, whose outputs are
//    compared with float32. Where sizes differ from run to run, several runs are timed
//    (measure/workload.h).
#pragma once

#include <memory>

#include "exec/executor.h"
#include "measure/pace.h"
#include "measure/workload.h"
#include "placement/decision.h"
#include "placement/survey.h"
#include "xrt/export.h"

namespace xrt {

struct Measured {
  Decision decision;
  std::shared_ptr<Executor> plan;  // ready to run, its explanation complete
};

// Whether measuring has anything to say: engines or the precision are to be chosen.
bool wants_measuring(const ProgramOptions& options);

// The inputs of `workload`, one run at least, belong to this call: aliases write into them.
// Outcomes are kept (measure/profile_cache.h); where one is known nothing is timed. One that was
// stopped is not kept. Throws what the estimated best throws if no candidate can be built.
XRT_API Measured measure(Survey& survey, const Workload& workload,
                         const MeasuringRules& rules = {});

}  // namespace xrt
