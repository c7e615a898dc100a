// SPDX-License-Identifier: Apache-2.0
// MatMul and Gemm, with or without fused post-ops.
//
// The fused form, op "MatMul" of domain kDomain, has the inputs A, B, bias (shape [N], may be left
// out) and the operands of its post-ops. Attributes: perm_a, perm_b (the operand is first
// transposed so), perm_y (the result is stored transposed so), and the post-op attributes. With
// kFactorType A and B are rounded to that type, where the library has a fast product of it.
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "engines/native/dnn/families.h"
#include "engines/native/dnn/plan.h"
#include "engines/native/dnn/post_ops.h"
#include "engines/native/kernels/vector/vector_ops.h"
#include "ir/attributes.h"

namespace xrt::native::dnn {
namespace {

using dnnl::memory;

// A matrix, or a batch of them, as the multiplication sees it.
struct View {
  Dims dims;     // batch …, rows, columns
  Dims strides;  // in elements

  memory::desc desc(DType dtype) const { return {dims, data_type(dtype), strides}; }
  bool dense() const { return strides == row_major_strides(dims); }
};

View permuted(const Dims& stored, const std::vector<std::int64_t>& perm) {
  const Dims strides = row_major_strides(stored);
  if (perm.empty()) return {stored, strides};
  View v;
  for (const std::int64_t p : perm) {
    v.dims.push_back(stored.at(static_cast<std::size_t>(p)));
    v.strides.push_back(strides[static_cast<std::size_t>(p)]);
  }
  return v;
}

View with_rank(View v, std::size_t rank) {
  while (v.dims.size() < rank) {
    v.strides.insert(v.strides.begin(), v.dims[0] * v.strides[0]);
    v.dims.insert(v.dims.begin(), 1);
  }
  return v;
}

// All leading dimensions as rows, if the memory allows.
std::optional<View> flattened(const View& v) {
  const std::size_t n = v.dims.size();
  if (n < 2 || v.strides[n - 1] != 1) return std::nullopt;
  std::int64_t rows = v.dims[n - 2];
  for (std::size_t i = n - 2; i-- > 0;) {
    if (v.dims[i] != 1 && v.strides[i] != rows * v.strides[n - 2]) return std::nullopt;
    rows *= v.dims[i];
  }
  return View{{rows, v.dims[n - 1]}, {v.strides[n - 2], 1}};
}

struct MatMulAttributes {
  std::vector<std::int64_t> perm_a;
  std::vector<std::int64_t> perm_b;
  std::vector<std::int64_t> perm_y;
  std::int64_t bias = -1;  // input that is the bias, if any
  std::vector<PostOp> post_ops;

  static MatMulAttributes of(const NodeView& view) {
    const Node& node = view.node();
    MatMulAttributes a;
    if (node.op == "Gemm") {
      if (need_int(node, "transA") != 0) a.perm_a = {1, 0};
      if (need_int(node, "transB") != 0) a.perm_b = {1, 0};
      a.add_gemm_terms(view, need_float(node, "alpha"), need_float(node, "beta"));
      return a;
    }
    if (node.domain.empty()) return a;
    a.perm_a = node.attr_ints("perm_a");
    a.perm_b = node.attr_ints("perm_b");
    a.perm_y = node.attr_ints("perm_y");
    if (node.input(2).valid()) a.bias = 2;
    a.post_ops = read_post_ops(node);
    return a;
  }

  // y = beta · (alpha / beta · A·B + C)
  void add_gemm_terms(const NodeView& view, float alpha, float beta) {
    const bool has_c = view.has_input(2) && beta != 0;
    if (!has_c) {
      if (alpha != 1) post_ops.push_back({"Linear", alpha, 0});
      return;
    }
    if (alpha != beta) post_ops.push_back({"Linear", alpha / beta, 0});
    const auto c = view.input_type(2).static_dims();
    if (alpha == beta && c && c->size() == 1 && (*c)[0] != 1) {
      bias = 2;
    } else {
      post_ops.push_back({"Add", 0, 0, 2});
    }
    if (beta != 1) post_ops.push_back({"Linear", beta, 0});
  }
};

struct Problem {
  View a, b, y;
  Dims y_stored;
};

void check_bias(const Dims& bias, std::int64_t columns) {
  if (element_count(bias) == columns) return;
  throw Error(ErrorCode::kInvalidArgument, "there are " + std::to_string(columns) +
                                               " columns, and the bias is " + to_string(bias));
}

// Shapes by the rules of numpy.matmul.
Problem pose(const MatMulAttributes& attributes, std::span<const Dims> inputs) {
  Problem p;
  p.a = permuted(inputs[0], attributes.perm_a);
  p.b = permuted(inputs[1], attributes.perm_b);
  const bool vector_a = p.a.dims.size() == 1;
  const bool vector_b = p.b.dims.size() == 1;
  if (p.a.dims.empty() || p.b.dims.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "an operand is a scalar");
  }
  if (vector_a) p.a = {{1, p.a.dims[0]}, {p.a.dims[0], 1}};
  if (vector_b) p.b = {{p.b.dims[0], 1}, {1, 1}};
  const std::size_t rank = std::max(p.a.dims.size(), p.b.dims.size());
  const std::string shapes = to_string(std::span<const std::int64_t>(inputs[0])) + " and " +
                             to_string(std::span<const std::int64_t>(inputs[1]));
  p.a = with_rank(p.a, rank);
  p.b = with_rank(p.b, rank);
  if (p.a.dims[rank - 1] != p.b.dims[rank - 2]) {
    throw Error(ErrorCode::kInvalidArgument, "the shapes " + shapes + " cannot be multiplied");
  }
  Dims y(rank);
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    const std::int64_t m = p.a.dims[i];
    const std::int64_t n = p.b.dims[i];
    if (m != n && m != 1 && n != 1) {
      throw Error(ErrorCode::kInvalidArgument, "the batches of " + shapes + " do not broadcast");
    }
    y[i] = m == 1 ? n : m;
  }
  y[rank - 2] = p.a.dims[rank - 2];
  y[rank - 1] = p.b.dims[rank - 1];
  if (attributes.perm_y.empty()) {
    p.y = {y, row_major_strides(y)};
    p.y_stored = y;
    if (vector_b) p.y_stored.pop_back();
    if (vector_a) p.y_stored.erase(p.y_stored.end() - (vector_b ? 1 : 2));
    return p;
  }
  // stored[i] = y[perm_y[i]]
  for (const std::int64_t q : attributes.perm_y) p.y_stored.push_back(y.at(q));
  const Dims stored = row_major_strides(p.y_stored);
  p.y = {y, Dims(rank)};
  for (std::size_t i = 0; i < rank; ++i) p.y.strides[attributes.perm_y[i]] = stored[i];
  return p;
}

// The element types that a product computes with.
struct MatMulTypes {
  DType factors, y;
};

class MatMulKernel final : public PlanKernel {
 public:
  explicit MatMulKernel(const KernelCreateContext& context)
      : PlanKernel({.uses_arena = true}),
        attributes_(MatMulAttributes::of(context)),
        inputs_(input_types(context)),
        y_(context.output_dtype(0)),
        mode_(fpmath_mode(context.options())) {
    const auto factors = static_cast<DType>(context.node().attr_int(kFactorType, 0));
    if (factors == DType::kUndefined) {
      choices_ = {{inputs_[0], y_}};
    } else {
      choices_ = {{factors, y_}, {DType::kFloat32, DType::kFloat32}};
    }
    if (const Tensor* b = context.constant_input(1)) weights_ = *b;
    if (attributes_.bias >= 0) {
      if (const Tensor* c = context.constant_input(static_cast<std::size_t>(attributes_.bias))) {
        bias_ = *c;
      }
    }
  }

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    const Problem problem = pose(attributes_, inputs);
    if (attributes_.bias >= 0) {
      check_bias(inputs[static_cast<std::size_t>(attributes_.bias)], problem.y.dims.back());
    }
    auto plan = std::make_shared<Plan>();
    plan->set_output(0, y_, problem.y_stored);
    if (element_count(problem.y_stored) == 0) return plan;
    if (problem.a.dims.back() == 0) {
      plan->zero_output(0);
      const Operand y = Plan::output(0, problem.y.desc(y_));
      add_bias_step(*plan, inputs, y);
      add_post_op_steps(*plan, attributes_.post_ops, inputs, inputs_, y, false);
      return plan;
    }
    for (const MatMulTypes& types : choices_) {
      const bool is_last = &types == &choices_.back();
      if (plan_inner_product(*plan, types, problem, inputs) ||
          plan_matmul(*plan, types, problem, inputs, is_last)) {
        return plan;
      }
    }
    throw Error(ErrorCode::kEngine, "oneDNN has no multiplication for these shapes");
  }

  void drop_sources() override { weights_ = bias_ = Tensor(); }

 private:
  // Binary operands as rows of the flattened result, or nothing where one does not flatten.
  std::optional<std::vector<Dims>> flattened_operands(std::span<const Dims> inputs,
                                                      const Problem& p, std::int64_t rows) const {
    std::vector<Dims> dims(inputs.begin(), inputs.end());
    for (const PostOp& op : attributes_.post_ops) {
      if (!op.is_binary()) continue;
      Dims& d = dims[op.input];
      const std::int64_t columns = p.y.dims.back();
      const std::int64_t count = element_count(d);
      if (count == rows * columns && rows * columns > 1) {
        d = {rows, columns};
      } else if (count == 1) {
        d = {1, 1};
      } else if (count == columns && d.back() == columns) {
        d = {1, columns};
      } else {
        return std::nullopt;
      }
    }
    return dims;
  }

  // Constant weights that all rows share: the primitive with the best packed layouts.
  bool plan_inner_product(Plan& plan, const MatMulTypes& types, const Problem& p,
                          std::span<const Dims> inputs) const {
    if (!weights_.defined()) return false;
    // A result of many rows is worth bringing the rows of A together.
    const View dense{p.a.dims, row_major_strides(p.a.dims)};
    const std::optional<View> a = flattened(dense);
    const std::optional<View> y = flattened(p.y);
    const std::int64_t k = p.a.dims.back();
    const std::int64_t n = p.b.dims.back();
    if (!a || !y || !y->dense() || element_count(p.b.dims) != k * n) return false;
    const auto operands = flattened_operands(inputs, p, a->dims[0]);
    if (!operands) return false;
    const PostOpChain chain = make_chain(attributes_.post_ops, *operands, inputs_, y->dims, false);
    dnnl::primitive_attr attributes = base_attributes(mode_);
    attributes.set_post_ops(chain.post_ops);
    const std::size_t rank = p.b.dims.size();
    const memory::desc source({n, k}, data_type(weights_.dtype()),
                              {p.b.strides[rank - 1], p.b.strides[rank - 2]});
    const memory::desc wd({n, k}, data_type(types.factors), memory::format_tag::any);
    const bool has_bias = attributes_.bias >= 0;
    const memory::desc bd = has_bias ? plain_desc({n}, bias_type()) : memory::desc();
    const dnnl::inner_product_forward::primitive_desc pd(
        cpu_engine(), dnnl::prop_kind::forward_inference, a->desc(types.factors), wd, bd,
        y->desc(types.y), attributes, /*allow_empty=*/true);
    if (!pd || is_reference(pd.impl_info_str())) return false;
    Operand source_a =
        plan.reordered(Plan::input(0, p.a.desc(inputs_[0])), dense.desc(types.factors));
    source_a.desc = pd.src_desc();
    const Operand result =
        y_ == types.y ? Plan::output(0, pd.dst_desc()) : plan.temporary(pd.dst_desc());
    std::vector<Plan::Argument> arguments{
        {DNNL_ARG_SRC, source_a},
        {DNNL_ARG_WEIGHTS, plan.constant(packed(1, weights_, source, pd.weights_desc()))},
        {DNNL_ARG_DST, result}};
    if (has_bias) arguments.push_back({DNNL_ARG_BIAS, bias_operand(plan, pd.bias_desc())});
    arguments.insert(arguments.end(), chain.arguments.begin(), chain.arguments.end());
    plan.add(dnnl::inner_product_forward(pd), pd.scratchpad_desc(), std::move(arguments),
             pd.impl_info_str());
    if (y_ != types.y) plan.add_reorder(result, Plan::output(0, y->desc(y_)));
    return true;
  }

  // False where there is nothing but a reference loop, unless `takes_any`.
  bool plan_matmul(Plan& plan, const MatMulTypes& types, const Problem& p,
                   std::span<const Dims> inputs, bool takes_any) const {
    const std::size_t rank = p.y.dims.size();
    const bool has_bias = attributes_.bias >= 0;
    Dims bias_dims(rank, 1);
    bias_dims.back() = p.y.dims.back();
    const memory::desc bd = has_bias ? plain_desc(bias_dims, bias_type()) : memory::desc();
    const PostOpChain chain =
        make_chain(attributes_.post_ops, inputs, inputs_, p.y.dims, /*channels_last=*/false);
    using Description = dnnl::matmul::primitive_desc;
    const DType f = types.factors;
    const memory::desc given[3] = {p.a.desc(f), p.b.desc(f), p.y.desc(types.y)};
    const memory::desc dense[3] = {plain_desc(p.a.dims, f), plain_desc(p.b.dims, f),
                                   plain_desc(p.y.dims, types.y)};
    const auto make = [&](const memory::desc* descs, bool fused) {
      dnnl::primitive_attr attributes = base_attributes(mode_);
      if (fused) attributes.set_post_ops(chain.post_ops);
      const memory::desc b = weights_.defined()
                                 ? memory::desc(p.b.dims, data_type(f), memory::format_tag::any)
                                 : descs[1];
      return Description(cpu_engine(), descs[0], b, bd, descs[2], attributes,
                         /*allow_empty=*/true);
    };
    // In order of preference: no copies and fused; copies; post-ops on their own.
    bool fused = true;
    Description pd = make(given, true);
    if (!pd || is_reference(pd.impl_info_str())) pd = make(dense, true);
    if (!pd || is_reference(pd.impl_info_str())) {
      if (!takes_any) return false;
      fused = false;
      pd = make(dense, false);
    }
    if (!pd) return false;

    const Operand a = Plan::input(0, p.a.desc(inputs_[0]));
    const Operand y = Plan::output(0, p.y.desc(y_));
    const memory::desc given_b = p.b.desc(inputs_[1]);
    const Operand b = weights_.defined()
                          ? plan.constant(packed(1, weights_, given_b, pd.weights_desc()))
                          : plan.reordered(Plan::input(1, given_b), pd.weights_desc());
    const bool direct = pd.dst_desc() == y.desc;
    const Operand result = direct ? y : plan.temporary(pd.dst_desc());
    std::vector<Plan::Argument> arguments{{DNNL_ARG_SRC, plan.reordered(a, pd.src_desc())},
                                          {DNNL_ARG_WEIGHTS, b},
                                          {DNNL_ARG_DST, result}};
    if (has_bias) arguments.push_back({DNNL_ARG_BIAS, bias_operand(plan, bd)});
    if (fused) {
      arguments.insert(arguments.end(), chain.arguments.begin(), chain.arguments.end());
    }
    plan.add(dnnl::matmul(pd), pd.scratchpad_desc(), std::move(arguments), pd.impl_info_str());
    if (!direct) plan.add_reorder(result, y);
    if (!fused) add_post_op_steps(plan, attributes_.post_ops, inputs, inputs_, y, false);
    return true;
  }

  DType bias_type() const { return inputs_[static_cast<std::size_t>(attributes_.bias)]; }

  Operand bias_operand(Plan& plan, const memory::desc& desc) const {
    if (bias_.defined()) return plan.constant(packed(2, bias_, desc, desc));
    return Plan::input(static_cast<std::size_t>(attributes_.bias), desc);
  }

  void add_bias_step(Plan& plan, std::span<const Dims> inputs, const Operand& y) const {
    if (attributes_.bias < 0) return;
    const PostOp add{"Add", 0, 0, attributes_.bias};
    add_post_op_steps(plan, {&add, 1}, inputs, inputs_, y, false);
  }

  MatMulAttributes attributes_;
  std::vector<DType> inputs_;
  DType y_;
  std::vector<MatMulTypes> choices_;  // the first that the library has a fast product of
  dnnl::fpmath_mode mode_;
  Tensor weights_;
  Tensor bias_;
};

// Where the sizes are known only when it runs. A primitive is made for sizes: that takes longer
// than to run one on some hundred rows, and leaves some hundred KiB of code for each size. The
// library's plain product needs neither, and is as fast to a few percent. With large weights a
// primitive is the smaller part, and the plain product would pack them in every run.
class OpenMatMulKernel final : public Kernel {
 public:
  static bool takes(const KernelCreateContext& context) {
    if (context.input_dtype(0) != DType::kFloat32 || context.input_dtype(1) != DType::kFloat32 ||
        (context.input_type(0).is_static() && context.input_type(1).is_static()) ||
        fpmath_mode(context.options()) != dnnl::fpmath_mode::strict) {
      return false;
    }
    const Tensor* weights = context.constant_input(1);
    if (weights != nullptr && (weights->count() > kLargeWeights || has_denormals(*weights))) {
      return false;
    }
    const MatMulAttributes attributes = MatMulAttributes::of(context);
    // In the fused form operands have the shape of the result, of its rows, or are single numbers.
    const bool is_fused = !context.node().domain.empty();
    const auto can_do = [&](const PostOp& op) {
      if (op.op == "Sum") return false;
      return op.is_binary() ? is_fused && attributes.perm_y.empty()
                            : op.op == "Linear" || unary(op) != nullptr;
    };
    return has_dense_axis(attributes.perm_a) && has_dense_axis(attributes.perm_b) &&
           std::all_of(attributes.post_ops.begin(), attributes.post_ops.end(), can_do);
  }

  explicit OpenMatMulKernel(const KernelCreateContext& context)
      : Kernel({.uses_arena = true}), attributes_(MatMulAttributes::of(context)) {
    std::vector<PostOp>& ops = attributes_.post_ops;
    if (attributes_.bias < 0 && !ops.empty() && ops[0].op == "Linear") {
      scale_ = ops[0].alpha;
      ops[0].alpha = 1;
      if (ops[0].beta == 0) ops.erase(ops.begin());
    }
  }

  void run(KernelContext& context) const override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    const Dims given[2] = {a.dims(), b.dims()};
    Problem p = pose(attributes_, given);
    Tensor& y = context.output(0, DType::kFloat32, p.y_stored);
    if (y.count() == 0) return;
    if (p.a.dims.back() == 0) {
      std::fill_n(y.data<float>(), y.count(), 0.0F);
    } else {
      join_rows(p);
      multiply(context, p, a.data<float>(), b.data<float>(), y.data<float>());
    }
    add_the_rest(context, p.y.dims.back(), y);
  }

 private:
  static constexpr std::int64_t kLargeWeights = std::int64_t{1} << 18;  // elements

  // How a matrix lies in memory.
  struct Matrix {
    explicit Matrix(const View& view) {
      const std::size_t rank = view.dims.size();
      const std::int64_t rows = view.dims[rank - 2];
      const std::int64_t columns = view.dims[rank - 1];
      if (columns == 1 || view.strides[rank - 1] == 1) {
        leading = std::max(view.strides[rank - 2], columns);
      } else {
        transposed = 'T';
        leading = std::max(view.strides[rank - 1], rows);
      }
    }
    char transposed = 'N';
    std::int64_t leading = 1;
  };
  struct Offsets {
    std::int64_t a = 0, b = 0, y = 0;
  };

  static bool has_denormals(const Tensor& weights) {
    return std::any_of(weights.data<float>(), weights.data<float>() + weights.count(),
                       [](float value) { return std::fpclassify(value) == FP_SUBNORMAL; });
  }

  // Whether the rows or the columns of the matrices are dense.
  static bool has_dense_axis(const std::vector<std::int64_t>& perm) {
    const auto last = static_cast<std::int64_t>(perm.size()) - 1;
    return perm.empty() || perm.back() == last ||
           (perm.size() >= 2 && perm[perm.size() - 2] == last);
  }

  // The loop for a post-op of one operand; null: there is none, or it is "Linear".
  static VectorOps::Unary unary(const PostOp& op) {
    const VectorOps& ops = vector_ops();
    const std::pair<std::string_view, VectorOps::Unary> known[] = {
        {"Relu", ops.relu},
        {"LeakyRelu", ops.leaky_relu},
        {"Elu", ops.elu},
        {"Sigmoid", ops.sigmoid},
        {"Tanh", ops.tanh},
        {"HardSigmoid", ops.hard_sigmoid},
        {"HardSwish", ops.hard_swish},
        {"Sqrt", ops.sqrt},
        {"Abs", ops.abs},
        {"Exp", ops.exp},
        {"GeluErf", ops.gelu},
        {"GeluTanh", ops.gelu_tanh},
        {"Clip", ops.clip},
        {"Swish", ops.silu},
    };
    for (const auto& [name, loop] : known) {
      if (op.op == name) return loop;
    }
    return nullptr;
  }

  static VectorOps::Binary binary(const PostOp& op) {
    const VectorOps& ops = vector_ops();
    if (op.op == "Add") return ops.add;
    if (op.op == "Sub") return ops.sub;
    return op.op == "Mul" ? ops.mul : ops.div;
  }

  // One product instead of many where all rows of A meet the same matrix.
  static void join_rows(Problem& p) {
    const std::size_t rank = p.b.dims.size();
    const std::int64_t k = p.b.dims[rank - 2];
    const std::int64_t n = p.b.dims[rank - 1];
    if (element_count(p.b.dims) != k * n) return;
    const std::optional<View> a = flattened(p.a);
    const std::optional<View> y = flattened(p.y);
    if (!a || !y) return;
    p.a = *a;
    p.b = {{k, n}, {p.b.strides[rank - 2], p.b.strides[rank - 1]}};
    p.y = *y;
  }

  // Where the i-th matrix of each batch begins.
  static Offsets offsets(const Problem& p, std::int64_t i) {
    Offsets at;
    for (std::size_t d = p.y.dims.size() - 2; d-- > 0;) {
      const std::int64_t index = i % p.y.dims[d];
      i /= p.y.dims[d];
      if (p.a.dims[d] != 1) at.a += index * p.a.strides[d];
      if (p.b.dims[d] != 1) at.b += index * p.b.strides[d];
      at.y += index * p.y.strides[d];
    }
    return at;
  }

  void multiply(KernelContext& context, const Problem& p, const float* a, const float* b,
                float* y) const {
    const Matrix ma(p.a);
    const Matrix mb(p.b);
    const std::size_t rank = p.y.dims.size();
    const std::int64_t m = p.y.dims[rank - 2];
    const std::int64_t n = p.y.dims[rank - 1];
    const std::int64_t k = p.a.dims[rank - 1];
    const std::int64_t row = std::max(p.y.strides[rank - 2], n);
    const auto some = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Offsets at = offsets(p, i);
        const dnnl_status_t status =
            dnnl_sgemm(ma.transposed, mb.transposed, m, n, k, scale_, a + at.a, ma.leading,
                       b + at.b, mb.leading, 0, y + at.y, row);
        if (status != dnnl_success) {
          throw Error(ErrorCode::kEngine,
                      "oneDNN: sgemm failed with status " + std::to_string(status));
        }
      }
    };
    const std::int64_t products = element_count(p.y.dims) / (m * n);
    // A few share their work among the threads themselves.
    if (products < context.num_threads()) {
      some(0, products);
    } else {
      constexpr std::int64_t kLeastWork = 65536;
      context.parallel_for(products, std::max<std::int64_t>(kLeastWork / (m * n * k), 1), some);
    }
  }

  void add_the_rest(KernelContext& context, std::int64_t columns, Tensor& y) const {
    const bool has_bias = attributes_.bias >= 0;
    if (!has_bias && attributes_.post_ops.empty()) return;
    if (has_bias) {
      check_bias(context.input(static_cast<std::size_t>(attributes_.bias)).dims(), columns);
    }
    const VectorOps& ops = vector_ops();
    const auto second = [&](std::int64_t input) -> const Tensor& {
      const Tensor& other = context.input(static_cast<std::size_t>(input));
      const std::int64_t count = other.count();
      if (count != 1 && count != columns && count != y.count()) {
        throw Error(ErrorCode::kInvalidArgument, "an operand of shape " + to_string(other.dims()) +
                                                     " does not fit " + to_string(y.dims()));
      }
      return other;
    };
    const auto apply = [&](VectorOps::Binary loop, const Tensor& other, std::int64_t begin,
                           std::int64_t end) {
      float* at = y.data<float>() + begin * columns;
      const float* with = other.data<float>();
      const std::int64_t count = (end - begin) * columns;
      if (other.count() == y.count()) {
        loop(at, 1, with + begin * columns, 1, at, count);
      } else if (other.count() == 1) {
        loop(at, 1, with, 0, at, count);
      } else {
        for (std::int64_t r = begin; r < end; ++r, at += columns) {
          loop(at, 1, with, 1, at, columns);
        }
      }
    };
    constexpr std::int64_t kLeastElements = 4096;
    context.parallel_for(y.count() / columns, std::max<std::int64_t>(kLeastElements / columns, 1),
                         [&](std::int64_t begin, std::int64_t end) {
                           float* at = y.data<float>() + begin * columns;
                           const std::int64_t count = (end - begin) * columns;
                           if (has_bias) apply(ops.add, second(attributes_.bias), begin, end);
                           for (const PostOp& op : attributes_.post_ops) {
                             if (op.is_binary()) {
                               apply(binary(op), second(op.input), begin, end);
                             } else if (op.op == "Linear") {
                               ops.scale_shift(at, at, count, op.alpha, op.beta);
                             } else {
                               unary(op)(at, at, count, op.alpha, op.beta);
                             }
                           }
                         });
  }

  MatMulAttributes attributes_;
  float scale_ = 1;
};

Support supports_matmul(const NodeView& node) {
  if (const Support dtype = computes(node.input_dtype(0)); !dtype) return dtype;
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    if (!node.has_input(i)) continue;
    if (node.input_dtype(i) != node.input_dtype(0)) {
      return Support::no("the operands have different element types");
    }
    if (!node.input_type(i).has_rank()) return Support::no("the rank of an operand is unknown");
  }
  const std::size_t rank = std::max(node.input_type(0).rank(), node.input_type(1).rank());
  if (rank > 6) return Support::no("oneDNN multiplies operands of rank 6 at most");
  return Support::yes();
}

}  // namespace

void register_matmul(KernelRegistry& registry) {
  const auto create = [](const KernelCreateContext& c) -> std::unique_ptr<Kernel> {
    if (OpenMatMulKernel::takes(c)) return std::make_unique<OpenMatMulKernel>(c);
    return make_plan_kernel<MatMulKernel>(c, c);
  };
  for (const char* op : {"MatMul", "Gemm"}) {
    registry.add({.op = op, .priority = kPriority, .supports = supports_matmul, .create = create});
  }
  registry.add({.domain = std::string(kDomain), .op = "MatMul", .create = create});
}

}  // namespace xrt::native::dnn
