// SPDX-License-Identifier: Apache-2.0
#include "engines/native/dnn/int8/int8.h"

#include <oneapi/dnnl/dnnl.hpp>

#include "engines/native/kernels/vector/instruction_sets.h"

namespace xrt::native::dnn {

std::optional<Int8Terms> Int8Terms::of(const Node& node) {
  if (!node.has("factors")) return std::nullopt;
  Int8Terms terms;
  terms.factors = node.attr_floats("factors");
  terms.x_zero = static_cast<std::int32_t>(node.attr_int("x_zero", 0));
  terms.w_zero = static_cast<std::int32_t>(node.attr_int("w_zero", 0));
  terms.scale_input = node.attr_int("scale_input", -1);
  terms.zero_input = node.attr_int("zero_input", -1);
  terms.to = static_cast<DType>(node.attr_int("to", static_cast<std::int64_t>(DType::kUInt8)));
  return terms;
}

void Int8Terms::write(Attributes& attributes) const {
  attributes["factors"] = factors;
  attributes["x_zero"] = std::int64_t{x_zero};
  if (w_zero != 0) attributes["w_zero"] = std::int64_t{w_zero};
  if (scale_input >= 0) attributes["scale_input"] = scale_input;
  if (zero_input >= 0) attributes["zero_input"] = zero_input;
  attributes["to"] = static_cast<std::int64_t>(to);
}

void Int8Terms::declare(dnnl::primitive_attr& attributes, int channel_mask) const {
  attributes.set_scales_mask(DNNL_ARG_WEIGHTS, channel_mask);
  if (scale_input >= 0) attributes.set_scales_mask(DNNL_ARG_SRC, 0);
  if (w_zero != 0) attributes.set_zero_points_mask(DNNL_ARG_WEIGHTS, 0);
  if (has_zero()) attributes.set_zero_points_mask(DNNL_ARG_SRC, 0);
}

std::vector<Plan::Argument> Int8Terms::arguments(Plan& plan, DType x, const Pack& pack,
                                                 std::size_t slot) const {
  std::vector<Plan::Argument> result{
      {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS,
       pack(Tensor::from<float>(DType::kFloat32, {static_cast<std::int64_t>(factors.size())},
                                std::span<const float>(factors)),
            slot)}};
  if (scale_input >= 0) {
    result.push_back(
        {DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC,
         Plan::input(static_cast<std::size_t>(scale_input), plain_desc({1}, DType::kFloat32))});
  }
  const auto number = [&](std::int32_t n, std::size_t at) {
    const std::int32_t numbers[] = {n};
    return pack(
        Tensor::from<std::int32_t>(DType::kInt32, {1}, std::span<const std::int32_t>(numbers)), at);
  };
  if (w_zero != 0) {
    result.push_back({DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_WEIGHTS, number(w_zero, slot + 2)});
  }
  if (zero_input >= 0) {
    const Operand bytes = Plan::input(static_cast<std::size_t>(zero_input), plain_desc({1}, x));
    result.push_back({DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC,
                      plan.reordered(bytes, plain_desc({1}, DType::kInt32))});
  } else if (x_zero != 0) {
    result.push_back({DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, number(x_zero, slot + 1)});
  }
  return result;
}

ByteProducts byte_products() {
  static const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [](dnnl::cpu_isa wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  if (has(dnnl::cpu_isa::avx512_core_vnni) || has(dnnl::cpu_isa::avx2_vnni)) {
    return ByteProducts::kLibrary;
  }
  // With AVX-512 floats are as fast as bytes in half of its vectors.
  const InstructionSets& sets = instruction_sets();
  return sets.avx2 && !sets.avx512 ? ByteProducts::kTiles : ByteProducts::kNone;
}

bool int8_product_is_fast(std::int64_t columns) {
  constexpr std::int64_t kFewest = 4;  // of 16 that are multiplied
  return byte_products() == ByteProducts::kLibrary || columns >= kFewest;
}

std::string int8_name(const char* implementation) { return std::string("int8 ") + implementation; }

}  // namespace xrt::native::dnn
