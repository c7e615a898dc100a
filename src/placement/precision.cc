// SPDX-License-Identifier: Apache-2.0
#include "placement/precision.h"

#include <algorithm>

#include "device/processor.h"

namespace xrt {

std::vector<Precision> fast_precisions() {
  const Processor& cpu = processor();
  std::vector<Precision> found;
  if (cpu.has("amx_bf16") || cpu.has("avx512_bf16")) found.push_back(Precision::kBF16);
  if (cpu.has("amx_fp16") || cpu.has("avx512_fp16")) found.push_back(Precision::kF16);
  return found;
}

bool offers_precision(const Engine& engine, const std::string& device, Precision precision) {
  if (precision == Precision::kF32) return true;
  const std::vector<DeviceInfo>& devices = engine.info().devices;
  return std::any_of(devices.begin(), devices.end(), [&](const DeviceInfo& info) {
    const auto& list = info.precisions;
    return info.name == device && std::find(list.begin(), list.end(), precision) != list.end();
  });
}

Precision precision_for(const Engine& engine, const std::string& device, Precision precision) {
  return offers_precision(engine, device, precision) ? precision : Precision::kF32;
}

}  // namespace xrt
