// SPDX-License-Identifier: Apache-2.0
#include "placement/precision.h"

#include <algorithm>

#include "device/processor.h"
#include "engine/host.h"
#include "registry/engine_options.h"

namespace xrt {
namespace {

std::optional<DType> half_of(Precision precision) {
  if (precision == Precision::kF16) return DType::kFloat16;
  if (precision == Precision::kBF16) return DType::kBFloat16;
  return std::nullopt;
}

}  // namespace

std::vector<Precision> fast_precisions() {
  const Processor& cpu = processor();
  std::vector<Precision> found;
  if (cpu.has("amx_bf16") || cpu.has("avx512_bf16")) found.push_back(Precision::kBF16);
  if (cpu.has("amx_fp16") || cpu.has("avx512_fp16")) found.push_back(Precision::kF16);
  return found;
}

Precision wanted_precision(const Engine& engine, const ProgramOptions& options,
                           Precision precision) {
  const auto own = options.engine_options.find(engine.name());
  if (own == options.engine_options.end()) return precision;
  return own_precision(engine, own->second).value_or(precision);
}

bool has_precision(const Engine& engine, const std::string& device, Precision precision) {
  if (precision == Precision::kF32) return true;
  const std::vector<DeviceInfo>& devices = engine.info().devices;
  return std::any_of(devices.begin(), devices.end(), [&](const DeviceInfo& info) {
    const auto& list = info.precisions;
    return info.name == device && std::find(list.begin(), list.end(), precision) != list.end();
  });
}

bool offers_precision(const Engine& engine, const std::string& device, Phase phase,
                      Precision precision) {
  if (has_precision(engine, device, precision)) return true;
  Graph product("product");
  const Type type = Type::tensor(DType::kFloat32, Shape{2, 2});
  const ValueId a = product.add_input("a", type), b = product.add_input("b", type);
  const ValueId c = product.add_op("MatMul", {a, b}, {}, "c");
  product.set_type(c, type);
  product.add_output(c);
  return narrowed_for(engine, product, device, phase, precision).has_value();
}

Precision precision_for(const Engine& engine, const std::string& device, Precision precision) {
  return has_precision(engine, device, precision) ? precision : Precision::kF32;
}

std::optional<NarrowedGraph> narrowed_for(const Engine& engine, const Graph& function,
                                          const std::string& device, Phase phase,
                                          Precision precision, std::set<std::string> keep) {
  const std::optional<DType> half = half_of(precision);
  if (!half) return std::nullopt;
  // Each round leaves nodes in float32 that the engine does not take in half precision; what they
  // give is then float32 for those behind them.
  for (;;) {
    NarrowedGraph narrowed = narrow_floats(function, *half, keep);
    if (narrowed.nodes == 0 && narrowed.overflows.empty()) return std::nullopt;
    const Graph& graph = narrowed.graph;
    const std::vector<Support> answers = engine.supports_all({view_of(graph), {}, device, phase});
    bool takes_all = true, helps = false;
    for (const NodeId id : graph.nodes()) {
      const auto index = static_cast<std::size_t>(id.index);
      if (index < answers.size() && answers[index]) continue;
      takes_all = false;
      const std::string& name = graph.node(id).name;
      // A cast that is refused, or a node that is in float32 already: nothing helps.
      if (!function.find_node(name)) return std::nullopt;
      helps = keep.insert(name).second || helps;
    }
    if (takes_all) return narrowed;
    if (!helps) return std::nullopt;
  }
}

std::vector<std::string> constants_outside(const Graph& graph, Precision precision) {
  const std::optional<DType> half = half_of(precision);
  return half ? narrow_floats(graph, *half).overflows : std::vector<std::string>{};
}

}  // namespace xrt
