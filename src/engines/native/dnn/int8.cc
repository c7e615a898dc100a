// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dnn/int8.h"

#include <oneapi/dnnl/dnnl.hpp>

namespace xrt::native::dnn {

std::optional<Int8Terms> Int8Terms::of(const Node& node) {
  if (!node.has("factors")) return std::nullopt;
  Int8Terms terms;
  terms.factors = node.attr_floats("factors");
  terms.x_zero = static_cast<std::int32_t>(node.attr_int("x_zero", 0));
  terms.to = static_cast<DType>(node.attr_int("to", static_cast<std::int64_t>(DType::kUInt8)));
  return terms;
}

void Int8Terms::write(Attributes& attributes) const {
  attributes["factors"] = factors;
  attributes["x_zero"] = std::int64_t{x_zero};
  attributes["to"] = static_cast<std::int64_t>(to);
}

bool multiplies_bytes() {
  static const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [](dnnl::cpu_isa wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  return has(dnnl::cpu_isa::avx512_core_vnni) || has(dnnl::cpu_isa::avx2_vnni);
}

std::string int8_name(const char* implementation) { return std::string("int8 ") + implementation; }

}  // namespace xrt::native::dnn
