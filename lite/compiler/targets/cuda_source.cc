// SPDX-License-Identifier: Apache-2.0
// From ops to kernels: all but sums.
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "module.h"
#include "targets/cuda_writer.h"
#include "xrt/error.h"

namespace xrt::lite {
namespace cuda {
namespace {

const char* element(int bytes) {
  return bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "unsigned" : "i64";
}

const char* type_of(int dtype) {
  switch (dtype) {
    case XRT_LITE_F32:
      return "float";
    case XRT_LITE_F16:
      return "u16";
    case XRT_LITE_I8:
      return "i8";
    case XRT_LITE_I32:
      return "int";
    case XRT_LITE_I64:
      return "i64";
    default:
      return "u8";
  }
}

}  // namespace

void Writer::launch(const Fields& f, const std::string& function, std::int64_t x, std::int64_t y,
                    std::int64_t z, int block, bool waits) {
  if (x > INT32_MAX || y > 65535 || z > 65535) {
    throw Error(ErrorCode::kUnsupported, "an op is too large for a grid of CUDA blocks");
  }
  const std::string& fields = f.text();
  const std::string key = fmt::format("{}|{}|{}", function, block, fields);
  const auto [at, fresh] = known_.try_emplace(key, to_.kernels);
  if (fresh) {
    const int k = to_.kernels++;
    const std::string call =
        fmt::format(fmt::runtime(function), fmt::arg("P", fmt::format("P{}", k)));
    to_.source += fmt::format(
        "struct P{0} {{\n{1}}};\nextern \"C\" __global__ void __launch_bounds__({2}) "
        "k{0}(Args a) {{ {4}{3}(a); }}\n",
        k, fields, block, call, waits ? "" : "wait_for_others(); ");
  }
  to_.launches.push_back({op_,
                          static_cast<std::uint32_t>(at->second),
                          {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y),
                           static_cast<std::uint32_t>(z)},
                          static_cast<std::uint32_t>(block)});
}
void Writer::pool(const xrt_k_pool& p) {
  Fields f;
  f.type("T", type_of(p.dtype));
  f.number("n", p.n), f.number("ih", p.ih), f.number("iw", p.iw), f.number("c", p.c);
  f.number("oh", p.oh), f.number("ow", p.ow), f.number("kh", p.kh), f.number("kw", p.kw);
  f.number("stride_h", p.stride_h), f.number("stride_w", p.stride_w);
  f.number("dilation_h", p.dilation_h), f.number("dilation_w", p.dilation_w);
  f.number("pad_top", p.pad_top), f.number("pad_left", p.pad_left);
  f.number("pad_bottom", p.pad_bottom), f.number("pad_right", p.pad_right);
  f.number("x_pitch", p.x_pitch), f.number("y_pitch", p.y_pitch);
  f.number("is_max", p.kind == XRT_POOL_MAX);
  f.number("count_include_pad", p.count_include_pad);
  elements(f, "pool<{P}>", std::int64_t{p.n} * p.oh * p.ow * p.c);
}

void Writer::copy(const xrt_k_copy& p) {
  Fields f;
  f.type("T", element(p.element_bytes));
  std::int64_t count = 1;
  for (int d = 0; d < p.rank; ++d) count *= p.dims[d];
  f.number("count", count), f.number("rank", p.rank);
  f.number("x_offset", p.x_offset), f.number("y_offset", p.y_offset);
  f.table("dim", p.dims, p.rank);
  f.table("x_stride", p.x_strides, p.rank);
  f.table("y_stride", p.y_strides, p.rank);
  elements(f, "copy<{P}>", count);
}

void Writer::fill(const xrt_k_fill& p) {
  Fields f;
  f.type("T", element(p.element_bytes));
  f.number("count", p.count);
  f.line(fmt::format("static constexpr unsigned long long bits = {}ull;",
                     (std::uint64_t{p.high} << 32) | p.low));
  elements(f, "fill<{P}>", p.count);
}

void Writer::reduce(const xrt_k_reduce& p) {
  Fields f;
  std::int64_t kept = 1, reduced = 1;
  for (int d = 0; d < 4; ++d) kept *= p.kept[d], reduced *= p.reduced[d];
  const bool block = reduced > 256 && kept < 65536;
  f.number("kind", p.kind), f.number("block", block);
  f.number("kept_count", kept), f.number("reduced_count", reduced);
  f.table("kept", p.kept, 4), f.table("kept_stride", p.kept_strides, 4);
  f.table("reduced", p.reduced, 4), f.table("reduced_stride", p.reduced_strides, 4);
  if (block) {
    launch(f, "reduce<{P}>", kept, 1, 1, 256);
  } else {
    elements(f, "reduce<{P}>", kept);
  }
}

void Writer::softmax(const xrt_k_softmax& p) {
  Fields f;
  f.number("size", p.size), f.number("inner", p.inner), f.number("log", p.log);
  launch(f, "softmax<{P}>", std::int64_t{p.outer} * p.inner, 1, 1, 256);
}

void Writer::norm(const xrt_k_norm& p) {
  Fields f;
  f.number("size", p.size), f.number("bias", (p.flags & XRT_HAS_BIAS) != 0);
  f.real("epsilon", p.epsilon);
  launch(f, "norm<{P}>", p.outer, 1, 1, 256);
}

void Writer::resize(const xrt_k_resize& p) {
  Fields f;
  f.number("n", p.n), f.number("ih", p.ih), f.number("iw", p.iw), f.number("c", p.c);
  f.number("oh", p.oh), f.number("ow", p.ow), f.number("linear", p.linear);
  f.number("half_pixel", p.half_pixel);
  f.real("scale_h", p.scale_h), f.real("scale_w", p.scale_w);
  elements(f, "resize<{P}>", std::int64_t{p.n} * p.oh * p.ow * p.c);
}

void Writer::arg(const xrt_k_arg& p) {
  Fields f;
  f.number("outer", p.outer), f.number("size", p.size), f.number("inner", p.inner);
  f.number("minimum", p.minimum);
  elements(f, "arg<{P}>", std::int64_t{p.outer} * p.inner);
}

namespace {

// One instruction of a pointwise program on the variables r0, r1, … .
std::string instruction(xrt_ew_op op, bool integer, const std::string& d, const std::string& a,
                        const std::string& b) {
  const char* one = integer ? "" : ".0f";
  const auto binary = [&](const char* o) { return fmt::format("{} {} {}", a, o, b); };
  // Never fused to a multiply-add: results are those of the CPU drivers.
  const auto rounded = [&](const char* function, const char* o) {
    return integer ? binary(o) : fmt::format("{}({}, {})", function, a, b);
  };
  const auto truth = [&](const std::string& c) {
    return fmt::format("({}) ? 1{} : 0{}", c, one, one);
  };
  const auto call = [&](const char* f) { return fmt::format("{}({})", f, a); };
  switch (op) {
    case XRT_EW_ADD:
      return rounded("__fadd_rn", "+");
    case XRT_EW_SUB:
      return rounded("__fsub_rn", "-");
    case XRT_EW_MUL:
      return rounded("__fmul_rn", "*");
    case XRT_EW_DIV:
      return integer ? fmt::format("{1} == 0 ? 0 : {1} == -1 ? -{0} : {0} / {1}", a, b)
                     : binary("/");
    case XRT_EW_MIN:
      return fmt::format("{0} < {1} || {0} != {0} ? {0} : {1}", a, b);
    case XRT_EW_MAX:
      return fmt::format("{0} > {1} || {0} != {0} ? {0} : {1}", a, b);
    case XRT_EW_POW:
      return fmt::format("powf({}, {})", a, b);
    case XRT_EW_EQ:
      return truth(binary("=="));
    case XRT_EW_LT:
      return truth(binary("<"));
    case XRT_EW_LE:
      return truth(binary("<="));
    case XRT_EW_AND:
      return truth(fmt::format("{} != 0 && {} != 0", a, b));
    case XRT_EW_OR:
      return truth(fmt::format("{} != 0 || {} != 0", a, b));
    case XRT_EW_SELECT:
      return fmt::format("{} != 0 ? {} : {}", d, a, b);
    case XRT_EW_NOT:
      return truth(a + " == 0");
    case XRT_EW_NEG:
      return "-" + a;
    case XRT_EW_ABS:
      return integer ? fmt::format("{0} < 0 ? -{0} : {0}", a) : call("fabsf");
    case XRT_EW_SQRT:
      return call("sqrtf");
    case XRT_EW_EXP:
      return call("expf");
    case XRT_EW_LOG:
      return call("logf");
    case XRT_EW_TANH:
      return call("tanhf");
    case XRT_EW_SIGMOID:
      return fmt::format("1.0f / (1.0f + expf(-{}))", a);
    case XRT_EW_ERF:
      return call("erff");
    case XRT_EW_FLOOR:
      return call("floorf");
    case XRT_EW_CEIL:
      return call("ceilf");
    case XRT_EW_ROUND:
      return call("rintf");
    case XRT_EW_SIN:
      return call("sinf");
    case XRT_EW_COS:
      return call("cosf");
    case XRT_EW_SIGN:
      return fmt::format("(float)(({0} > 0) - ({0} < 0))", a);
    case XRT_EW_TRUNC:
      return call("truncf");
    default:
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("pointwise operation {} has no CUDA form", static_cast<int>(op)));
  }
}

std::string loaded(int dtype, bool integer, const std::string& at) {
  if (dtype == XRT_LITE_F16) {
    return integer ? fmt::format("float_to_i64(half_to_float({}))", at)
                   : fmt::format("half_to_float({})", at);
  }
  if (integer && dtype == XRT_LITE_F32) return fmt::format("float_to_i64({})", at);
  return fmt::format("({}){}", integer ? "i64" : "float", at);
}

std::string stored(int dtype, bool integer, const std::string& v) {
  const std::string real = integer ? "(float)" + v : v;
  const std::string whole = integer ? v : fmt::format("float_to_i64({})", v);
  switch (dtype) {
    case XRT_LITE_F32:
      return real;
    case XRT_LITE_F16:
      return fmt::format("float_to_half({})", real);
    case XRT_LITE_U8:
      return fmt::format("to_q8({}, 0, 0)", real);
    case XRT_LITE_I8:
      return fmt::format("(i8)to_q8({}, 0, 1)", real);
    case XRT_LITE_I32:
      return "(int)" + whole;
    case XRT_LITE_I64:
      return whole;
    default:
      return v + " != 0";
  }
}

}  // namespace

// Straight-line code: one element a thread.
void Writer::ew(const xrt_k_ew& p, const std::uint32_t* words) {
  const bool integer = p.domain == 1;
  const char* number = integer ? "i64" : "float";
  std::int64_t count = 1;
  for (const int d : p.dims) count *= d;
  std::vector<xrt_ew_input> inputs(static_cast<std::size_t>(p.inputs));
  const std::uint32_t* at = words + sizeof(p) / 4;
  if (p.inputs > 0) std::memcpy(inputs.data(), at, inputs.size() * sizeof(xrt_ew_input));
  const std::uint32_t* code = at + inputs.size() * sizeof(xrt_ew_input) / 4;
  std::string s =
      "static __device__ inline void run(const Args& a) {\n    const int i = "
      "thread_index();\n";
  s += fmt::format("    if (i >= {}) return;\n    {} r0", count, number);
  for (int r = 1; r < XRT_EW_REGISTERS; ++r) s += fmt::format(", r{}", r);
  s += ";\n";
  for (int k = 0; k < p.inputs; ++k) {
    const xrt_ew_input& in = inputs[static_cast<std::size_t>(k)];
    std::string offset;
    std::int64_t inner = 1;
    bool dense = true;
    for (int d = XRT_EW_MAX_RANK - 1; d >= 0; --d) {
      if (p.dims[d] == 1) continue;
      dense = dense && in.strides[d] == inner;
      if (in.strides[d] != 0) {
        offset += fmt::format("(i64)(i / {} % {}) * {} + ", inner, p.dims[d], in.strides[d]);
      }
      inner *= p.dims[d];
    }
    const std::string element = fmt::format("at<const {}>(a, {})[{}]", type_of(in.dtype), k,
                                            dense ? std::string("i") : offset + "0");
    s += fmt::format("    r{} = {};\n", k, loaded(in.dtype, integer, element));
  }
  for (int c = 0; c < p.code_words; ++c) {
    const std::uint32_t w = code[c];
    const auto op = static_cast<xrt_ew_op>(w & 255);
    const std::string d = fmt::format("r{}", (w >> 8) & 255);
    std::string value;
    if (op == XRT_EW_CONST) {
      const std::uint32_t bits = code[++c];
      value = integer ? fmt::format("{}", static_cast<std::int32_t>(bits))
                      : fmt::format("__uint_as_float(0x{:x}u)", bits);
    } else {
      value = instruction(op, integer, d, fmt::format("r{}", (w >> 16) & 255),
                          fmt::format("r{}", w >> 24));
    }
    s += fmt::format("    {} = {};\n", d, value);
  }
  s += fmt::format("    at<{}>(a, {})[i] = {};\n  }}", type_of(p.y_dtype), p.inputs,
                   stored(p.y_dtype, integer, fmt::format("r{}", p.result)));
  Fields f;
  f.line(s);
  elements(f, "{P}::run", count);
}

}  // namespace cuda

namespace {

template <typename Params>
Params params_of(const ModuleOp& op) {
  Params p;
  std::memcpy(&p, op.params.data(), sizeof(p));
  return p;
}

}  // namespace

namespace {

cuda::Alignment alignment_of(const ModuleOp& op, bool residual) {
  const auto of = [&](std::size_t operand) {
    int a = 16;
    while (op.operands[operand].offset % static_cast<std::size_t>(a) != 0) a /= 2;
    return a;
  };
  const std::size_t y = op.operands.size() - 1;
  return {of(0), of(y), residual ? of(y - 1) : 16};
}

}  // namespace

CudaProgram write_cuda(const Module& module, const ModuleFunction& function) {
  CudaProgram program;
  program.source = cuda_prelude();
  cuda::Writer writer(program);
  for (int i = 0; i < function.op_count; ++i) {
    const ModuleOp& op = module.ops[static_cast<std::size_t>(function.first_op + i)];
    writer.begin_op(static_cast<std::uint32_t>(i));
    switch (op.kernel) {
      case XRT_K_CONV_F32:
      case XRT_K_CONV_Q8: {
        const auto p = params_of<xrt_k_conv>(op);
        writer.conv(p, op.kernel == XRT_K_CONV_Q8,
                    alignment_of(op, (p.flags & XRT_HAS_RESIDUAL) != 0));
        break;
      }
      case XRT_K_DWCONV_F32:
      case XRT_K_DWCONV_Q8: {
        const auto p = params_of<xrt_k_conv>(op);
        writer.depthwise(p, op.kernel == XRT_K_DWCONV_Q8,
                         alignment_of(op, (p.flags & XRT_HAS_RESIDUAL) != 0));
        break;
      }
      case XRT_K_GEMM_F32:
      case XRT_K_GEMM_Q8: {
        const auto p = params_of<xrt_k_gemm>(op);
        writer.gemm(p, op.kernel == XRT_K_GEMM_Q8,
                    alignment_of(op, (p.flags & XRT_HAS_RESIDUAL) != 0));
        break;
      }
      case XRT_K_POOL:
        writer.pool(params_of<xrt_k_pool>(op));
        break;
      case XRT_K_EW:
        writer.ew(params_of<xrt_k_ew>(op), op.params.data());
        break;
      case XRT_K_COPY:
        writer.copy(params_of<xrt_k_copy>(op));
        break;
      case XRT_K_FILL:
        writer.fill(params_of<xrt_k_fill>(op));
        break;
      case XRT_K_REDUCE:
        writer.reduce(params_of<xrt_k_reduce>(op));
        break;
      case XRT_K_SOFTMAX:
        writer.softmax(params_of<xrt_k_softmax>(op));
        break;
      case XRT_K_NORM:
        writer.norm(params_of<xrt_k_norm>(op));
        break;
      case XRT_K_RESIZE:
        writer.resize(params_of<xrt_k_resize>(op));
        break;
      case XRT_K_ARG:
        writer.arg(params_of<xrt_k_arg>(op));
        break;
      default:
        throw Error(ErrorCode::kUnsupported, fmt::format("op '{}': kernel {} has no CUDA form",
                                                         op.name, static_cast<int>(op.kernel)));
    }
  }
  return program;
}

}  // namespace xrt::lite
