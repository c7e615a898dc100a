// SPDX-License-Identifier: Apache-2.0
// Matrix products with something fused into them.
#include <array>

#include "onnx/contributed/rewriting.h"
#include "xrt/error.h"

namespace xrt::contributed {
namespace {

// An operand of FusedMatMul: `batch` moves the first axis behind the batch axes (all but the first
// and the last), `swap` exchanges the last two.
ValueId arrange_matmul_operand(Rewriting& r, std::size_t i, bool swap, bool batch) {
  const ValueId v = r.need(i);
  if (!swap && !batch) return v;
  const auto rank = static_cast<std::int64_t>(r.need_rank(i));
  if (rank < 2) return v;
  if (!batch) return r.swapped(v);
  Ints perm;
  for (std::int64_t k = 1; k < rank - 1; ++k) perm.push_back(k);
  perm.push_back(0);
  perm.push_back(rank - 1);
  const ValueId moved = r.transpose(v, perm);
  return swap ? r.swapped(moved) : moved;
}

void rewrite_fused_matmul(Rewriting& r) {
  const bool trans_a = r.flag("transA");
  const bool trans_b = r.flag("transB");
  const bool batch_a = r.flag("transBatchA");
  const bool batch_b = r.flag("transBatchB");
  const float alpha = r.float_attr("alpha", 1.0F);
  const ValueId a = arrange_matmul_operand(r, 0, trans_a, batch_a);
  const ValueId b = arrange_matmul_operand(r, 1, trans_b, batch_b);
  if (alpha == 1.0F) return r.become("MatMul", {a, b});
  const ValueId factor = r.number(alpha, r.need(0));
  // A vector as a matrix of one column: OpenVINO does not compile a product with a constant vector
  // that is multiplied by a number.
  if (r.rank(b) == 1U) {
    return r.become("Squeeze", {r.mul(r.matmul(a, r.unsqueeze(b, {1})), factor), r.ints({-1})});
  }
  r.become("Mul", {r.matmul(a, b), factor});
}

void rewrite_fused_gemm(Rewriting& r) {
  const std::string activation = r.string_attr("activation", "");
  // The activation's own, in its order: others have no meaning.
  std::string second;
  if (activation == "Selu") second = "activation_gamma";
  if (activation == "HardSigmoid" || activation == "ScaledTanh" ||
      activation == "ParametricSoftplus") {
    second = "activation_beta";
  }
  if (r.has_attr(second) && !r.has_attr("activation_alpha")) {
    throw Error(ErrorCode::kInvalidModel, "its attribute 'activation_alpha' is missing");
  }
  std::vector<float> parameters;
  for (const std::string& name : {std::string("activation_alpha"), second}) {
    if (r.has_attr(name)) parameters.push_back(r.float_attr(name, 0.0F));
  }
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    r.attributes().erase(name);
  }
  const ValueId y = r.op("Gemm", {r.need(0), r.need(1), r.input(2)}, std::move(r.attributes()));
  r.finish({apply_activation(r, y, activation, parameters)});
}

// Sums of int16 products in int32.
void rewrite_matmul_integer16(Rewriting& r) {
  const DType sum = r.dtype(r.need(0)) == DType::kUInt16 && r.dtype(r.need(1)) == DType::kUInt16
                        ? DType::kUInt32
                        : DType::kInt32;
  r.finish({r.matmul(r.cast(r.need(0), sum), r.cast(r.need(1), sum))});
}

constexpr auto kLinear = std::to_array<Entry>({
    {kMicrosoft, "FusedGemm", rewrite_fused_gemm},
    {kMicrosoft, "FusedMatMul", rewrite_fused_matmul},
    {kMicrosoft, "MatMulInteger16", rewrite_matmul_integer16},
    {kMicrosoft, "TransposeMatMul", rewrite_fused_matmul},
});

}  // namespace

std::span<const Entry> linear_ops() { return kLinear; }

}  // namespace xrt::contributed
