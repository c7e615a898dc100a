// SPDX-License-Identifier: Apache-2.0
#include "placement/precision.h"

#include <algorithm>
#include <optional>

#include "device/processor.h"

namespace xrt {
std::vector<std::string> fast_precisions() {
  const Processor& cpu = processor();
  std::vector<std::string> found;
  if (cpu.has("amx_bf16") || cpu.has("avx512_bf16")) found.emplace_back("bf16");
  if (cpu.has("amx_fp16") || cpu.has("avx512_fp16")) found.emplace_back("f16");
  return found;
}

bool offers_precision(const Engine& engine, const std::string& device,
                      const std::string& precision) {
  const std::optional<Precision> wanted = parse_precision(precision);
  if (!wanted) return false;
  if (*wanted == Precision::kF32) return true;
  const std::vector<DeviceInfo>& devices = engine.info().devices;
  return std::any_of(devices.begin(), devices.end(), [&](const DeviceInfo& info) {
    const auto& list = info.precisions;
    return info.name == device && std::find(list.begin(), list.end(), *wanted) != list.end();
  });
}

Precision precision_for(const Engine& engine, const std::string& device,
                        const std::string& precision) {
  if (!offers_precision(engine, device, precision)) return Precision::kF32;
  return parse_precision(precision).value_or(Precision::kF32);
}

}  // namespace xrt
