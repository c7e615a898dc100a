// SPDX-License-Identifier: Apache-2.0
// Lower precision for float32 arithmetic, on engines that offer it (DeviceInfo::precisions).
#pragma once

#include <string>
#include <vector>

#include "xrt/engine.h"

namespace xrt {

// The precisions below float32 that this machine's CPU computes in faster than in float32.
std::vector<Precision> fast_precisions();

// Whether the engine computes float32 graphs in `precision` on the device.
bool offers_precision(const Engine& engine, const std::string& device, Precision precision);

// What the engine is told to compute in: `precision` where it offers that, else float32.
Precision precision_for(const Engine& engine, const std::string& device, Precision precision);

}  // namespace xrt
