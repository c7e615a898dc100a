// SPDX-License-Identifier: Apache-2.0
// From ops to kernels: for each a structure with its sizes, and an instance of a template.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <map>

#include "drivers/cuda/code.h"
#include "module.h"
#include "targets/cuda.h"
#include "xrt/error.h"

namespace xrt::lite {
namespace {

constexpr int kTerms = 16;        // of a tile, at a time
constexpr int kProcessors = 132;  // blocks that a device runs at once, about

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The members of a kernel's structure P.
class Fields {
 public:
  void number(const char* name, std::int64_t v) {
    fmt::format_to(std::back_inserter(text_), "  static constexpr int {} = {};\n", name, v);
  }
  void type(const char* name, const char* t) {
    fmt::format_to(std::back_inserter(text_), "  typedef {} {};\n", t, name);
  }
  // Bit patterns: infinities are no literals.
  void real(const char* name, float v) {
    fmt::format_to(std::back_inserter(text_),
                   "  static __device__ inline float {}() {{ return __uint_as_float(0x{:x}u); }}\n",
                   name, std::bit_cast<std::uint32_t>(v));
  }
  // name(i) looks up a small table.
  void table(const char* name, const std::int32_t* values, int count) {
    std::string text = fmt::format("  static __device__ inline int {}(int i) {{ return ", name);
    for (int i = 0; i < count; ++i) {
      text += i + 1 < count ? fmt::format("i == {} ? {} : ", i, values[i])
                            : fmt::format("{}", values[i]);
    }
    text_ += text + (count == 0 ? "0; }\n" : "; }\n");
  }
  void line(const std::string& text) { text_ += "  " + text + "\n"; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

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

class Writer {
 public:
  explicit Writer(CudaProgram& to) : to_(to) {}

  void begin_op(std::uint32_t index) { op_ = index; }

  // A kernel `function`<P> of `block` threads.
  void launch(const Fields& fields, const std::string& function, std::int64_t x, std::int64_t y,
              std::int64_t z, int block) {
    launch_text(fields.text(), function, x, y, z, block);
  }
  void launch_text(const std::string& fields, const std::string& function, std::int64_t x,
                   std::int64_t y, std::int64_t z, int block) {
    if (x > INT32_MAX || y > 65535 || z > 65535) {
      throw Error(ErrorCode::kUnsupported, "an op is too large for a grid of CUDA blocks");
    }
    const std::string key = fmt::format("{}|{}|{}", function, block, fields);
    const auto [at, fresh] = known_.try_emplace(key, to_.kernels);
    if (fresh) {
      const int k = to_.kernels++;
      const std::string call =
          fmt::format(fmt::runtime(function), fmt::arg("P", fmt::format("P{}", k)));
      to_.source += fmt::format(
          "struct P{0} {{\n{1}}};\nextern \"C\" __global__ void __launch_bounds__({2}) "
          "k{0}(Args a) {{ {3}(a); }}\n",
          k, fields, block, call);
    }
    to_.launches.push_back({op_,
                            static_cast<std::uint32_t>(at->second),
                            {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y),
                             static_cast<std::uint32_t>(z)},
                            static_cast<std::uint32_t>(block)});
  }
  void elements(const Fields& fields, const std::string& function, std::int64_t count) {
    launch(fields, function, ceil_div(count, 256), 1, 1, 256);
  }

  void conv(const xrt_k_conv& p, bool aligned);
  void depthwise(const xrt_k_conv& p);
  void gemm(const xrt_k_gemm& p, bool aligned);
  void pool(const xrt_k_pool& p);
  void ew(const xrt_k_ew& p, const std::uint32_t* words);
  void copy(const xrt_k_copy& p);
  void fill(const xrt_k_fill& p);
  void reduce(const xrt_k_reduce& p);
  void softmax(const xrt_k_softmax& p);
  void norm(const xrt_k_norm& p);
  void resize(const xrt_k_resize& p);
  void arg(const xrt_k_arg& p);

 private:
  template <typename Params>
  void epilogue(Fields& f, const Params& p, float alpha) {
    f.number("bias", (p.flags & XRT_HAS_BIAS) != 0);
    f.number("residual", (p.flags & XRT_HAS_RESIDUAL) != 0);
    f.number("clips", p.activation == XRT_ACT_CLIP);
    f.real("lo", p.lo);
    f.real("hi", p.hi);
    f.real("alpha", alpha);
    f.number("y", 2 + ((p.flags & XRT_HAS_BIAS) != 0) + ((p.flags & XRT_HAS_RESIDUAL) != 0));
    f.type("W", p.weight_dtype == XRT_LITE_F16 ? "u16" : "float");
  }
  void sums(Fields& f, const char* left, std::int64_t outer, std::int64_t m, std::int64_t n,
            std::int64_t k, int pack);
  static void image(Fields& f, const xrt_k_conv& p);

  CudaProgram& to_;
  std::map<std::string, int> known_;
  std::uint32_t op_ = 0;
};

void Writer::sums(Fields& f, const char* left, std::int64_t outer, std::int64_t m, std::int64_t n,
                  std::int64_t k, int pack) {
  const CudaTile t = choose_cuda_tile(outer, m, n, k, pack);
  f.number("m", m), f.number("ng", n), f.number("k", k), f.number("outer", outer);
  f.number("bm", t.bm), f.number("bn", t.bn), f.number("tm", t.tm), f.number("bk", kTerms);
  f.number("splits", t.splits), f.number("pack", pack), f.number("pack_or_one", std::max(pack, 1));
  launch(f, fmt::format("sums<{{P}}, {}<{{P}}>>", left), ceil_div(m, t.bm), ceil_div(n, t.bn),
         outer * t.splits, t.bm / t.tm * (t.bn / 4));
  if (t.splits > 1) elements(f, "finish<{P}>", outer * m * n);
}

void Writer::image(Fields& f, const xrt_k_conv& p) {
  f.number("ih", p.ih), f.number("iw", p.iw), f.number("oh", p.oh), f.number("ow", p.ow);
  f.number("kh", p.kh), f.number("kw", p.kw), f.number("oc", p.oc);
  f.number("stride_h", p.stride_h), f.number("stride_w", p.stride_w);
  f.number("dilation_h", p.dilation_h), f.number("dilation_w", p.dilation_w);
  f.number("pad_top", p.pad_top), f.number("pad_left", p.pad_left);
  f.number("x_pitch", p.x_pitch);
  f.line(fmt::format("static __device__ inline size_t y_at(int row) {{ return (size_t)row * {}; }}",
                     p.y_pitch));
  f.line(fmt::format("static __device__ inline size_t r_at(int row) {{ return (size_t)row * {}; }}",
                     p.r_pitch));
}

void Writer::conv(const xrt_k_conv& p, bool aligned) {
  Fields f;
  const std::int64_t icg = p.ic / p.groups;
  image(f, p);
  epilogue(f, p, 1);
  f.number("icg", icg), f.number("batched", 0);
  f.number("b_row", 0), f.number("b_col", 0);
  f.number("vector", aligned && icg % 4 == 0 && p.x_pitch % 4 == 0);
  f.line("static __device__ inline i64 a_start(int) { return 0; }");
  f.line("static __device__ inline i64 b_start(int) { return 0; }");
  sums(f, "ConvLeft", p.groups, std::int64_t{p.n} * p.oh * p.ow, p.oc / p.groups, icg * p.kh * p.kw,
       p.pack_n);
}

void Writer::depthwise(const xrt_k_conv& p) {
  Fields f;
  image(f, p);
  epilogue(f, p, 1);
  f.number("m", std::int64_t{p.n} * p.oh * p.ow);
  elements(f, "depthwise<{P}>", std::int64_t{p.n} * p.oh * p.ow * p.oc);
}

void Writer::gemm(const xrt_k_gemm& p, bool aligned) {
  Fields f;
  epilogue(f, p, p.alpha);
  const auto start = [&](const char* name, const std::int32_t* strides) {
    std::string text = fmt::format("static __device__ inline i64 {}(int i) {{ return ", name);
    std::int64_t inner = 1;
    for (int d = 3; d >= 0; --d) {
      if (p.batch[d] > 1) {
        text += fmt::format("(i64)(i / {} % {}) * {} + ", inner, p.batch[d], strides[d]);
      }
      inner *= p.batch[d];
    }
    f.line(text + "0; }");
  };
  start("a_start", p.a_batch);
  start("b_start", p.b_batch);
  start("y_start", p.y_batch);
  f.line(
      fmt::format("static __device__ inline size_t y_at(int row) {{ return (size_t)y_start(row / "
                  "{0}) + (size_t)(row % {0}) * {1}; }}",
                  p.m, p.y_row));
  f.line("static __device__ inline size_t r_at(int row) { return y_at(row); }");
  f.number("a_row", p.a_row), f.number("a_col", p.a_col);
  f.number("b_row", p.b_row), f.number("b_col", p.b_col), f.number("batched", 1);
  bool vector = aligned && p.a_col == 1 && p.a_row % 4 == 0 && p.k % 4 == 0;
  std::int64_t outer = 1;
  for (int d = 0; d < 4; ++d) {
    vector = vector && p.a_batch[d] % 4 == 0;
    outer *= p.batch[d];
  }
  f.number("vector", vector);
  sums(f, "GemmLeft", outer, p.m, p.n, p.k, p.pack_n);
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

// One instruction of a pointwise program on the variables r0, r1, … .
std::string instruction(xrt_ew_op op, bool integer, const std::string& d, const std::string& a,
                        const std::string& b) {
  const char* one = integer ? "" : ".0f";
  const auto binary = [&](const char* o) { return fmt::format("{} {} {}", a, o, b); };
  const auto truth = [&](const std::string& c) {
    return fmt::format("({}) ? 1{} : 0{}", c, one, one);
  };
  const auto call = [&](const char* f) { return fmt::format("{}({})", f, a); };
  switch (op) {
    case XRT_EW_ADD:
      return binary("+");
    case XRT_EW_SUB:
      return binary("-");
    case XRT_EW_MUL:
      return binary("*");
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

template <typename Params>
Params params_of(const ModuleOp& op) {
  Params p;
  std::memcpy(&p, op.params.data(), sizeof(p));
  return p;
}

}  // namespace

int cuda_pack(std::int64_t n) { return n > 32 ? 64 : 32; }

CudaTile choose_cuda_tile(std::int64_t outer, std::int64_t m, std::int64_t n, std::int64_t k,
                          int pack) {
  // Larger tiles load less per product; smaller ones give a device more blocks.
  struct Shape {
    int bm, bn, tm;
    double cost;  // of a product, in larger blocks 1
  };
  static constexpr Shape kShapes[] = {
      {128, 64, 8, 1.0}, {64, 64, 4, 1.2}, {64, 32, 4, 1.5}, {32, 32, 2, 2.2}, {8, 64, 1, 3.2}};
  const std::int64_t steps = ceil_div(k, kTerms);
  CudaTile best = {};
  double least = 0;
  for (const Shape& s : kShapes) {
    if (pack > 0 && s.bn > pack) continue;
    const std::int64_t blocks = outer * ceil_div(m, s.bm) * ceil_div(n, s.bn);
    for (const int splits : {1, 2, 4, 8, 16, 32}) {
      if (splits > 1 && (steps < splits * 4 || outer * splits > 65535)) break;
      // Two blocks a processor; a launch and the sums of parts cost, too.
      const auto waves = static_cast<double>(ceil_div(blocks * splits, kProcessors * 2));
      const double work =
          waves * static_cast<double>(ceil_div(steps, splits) * kTerms) * s.bm * s.bn;
      const double parts =
          splits == 1 ? 0 : 5e5 + static_cast<double>(outer * m * n * splits) / kProcessors * 4;
      const double cost = work * s.cost + parts;
      if (best.bm == 0 || cost < least) best = {s.bm, s.bn, s.tm, splits}, least = cost;
    }
  }
  return best;
}

std::size_t cuda_scratch(xrt_kernel_id kernel, const void* params) {
  std::int64_t outer = 1, m = 0, n = 0, k = 0;
  int pack = 0;
  if (kernel == XRT_K_CONV_F32) {
    const auto& p = *static_cast<const xrt_k_conv*>(params);
    outer = p.groups, m = std::int64_t{p.n} * p.oh * p.ow, n = p.oc / p.groups;
    k = std::int64_t{p.ic / p.groups} * p.kh * p.kw, pack = p.pack_n;
  } else if (kernel == XRT_K_GEMM_F32) {
    const auto& p = *static_cast<const xrt_k_gemm*>(params);
    for (const int b : p.batch) outer *= b;
    m = p.m, n = p.n, k = p.k, pack = p.pack_n;
  } else {
    return 0;
  }
  const int splits = choose_cuda_tile(outer, m, n, k, pack).splits;
  return splits == 1 ? 0 : static_cast<std::size_t>(splits * outer * m * n) * 4;
}

CudaProgram write_cuda(const Module& module, const ModuleFunction& function) {
  CudaProgram program;
  program.source = cuda_prelude();
  Writer writer(program);
  for (int i = 0; i < function.op_count; ++i) {
    const ModuleOp& op = module.ops[static_cast<std::size_t>(function.first_op + i)];
    writer.begin_op(static_cast<std::uint32_t>(i));
    const bool aligned = op.operands[0].offset % 16 == 0;
    switch (op.kernel) {
      case XRT_K_CONV_F32:
        writer.conv(params_of<xrt_k_conv>(op), aligned);
        break;
      case XRT_K_DWCONV_F32:
        writer.depthwise(params_of<xrt_k_conv>(op));
        break;
      case XRT_K_GEMM_F32:
        writer.gemm(params_of<xrt_k_gemm>(op), aligned);
        break;
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
