// SPDX-License-Identifier: Apache-2.0
// Writes kernels and their launches: for each op a structure with its sizes, and an instance of a
// template of the prelude.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>

#include "kernel.h"
#include "targets/cuda.h"

namespace xrt::lite::cuda {

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

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

// The largest power of two, up to 16, that divides where an operand begins, in bytes.
struct Alignment {
  int x = 16, y = 16, residual = 16;
};

// Whether a factor packed so is one for sums_mma.
bool on_tensor_cores(int weight_dtype, int pack_k);

class Writer {
 public:
  explicit Writer(CudaProgram& to) : to_(to) {}

  void begin_op(std::uint32_t index) { op_ = index; }

  // A kernel `function`<P> of `block` threads. `waits`: it calls wait_for_others() itself.
  void launch(const Fields& fields, const std::string& function, std::int64_t x, std::int64_t y,
              std::int64_t z, int block, bool waits = false);
  void elements(const Fields& fields, const std::string& function, std::int64_t count) {
    launch(fields, function, ceil_div(count, 256), 1, 1, 256);
  }

  // Sums (cuda_sums.cc, cuda_mma.cc).
  void conv(const xrt_k_conv& p, bool quantized, const Alignment& at);
  void depthwise(const xrt_k_conv& p, bool quantized, const Alignment& at);
  void gemm(const xrt_k_gemm& p, bool quantized, const Alignment& at);
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
  void sums(Fields& f, const char* left, std::int64_t outer, std::int64_t m, std::int64_t n,
            std::int64_t k, int pack);
  // `together`: elements of the left side begin at multiples of it and lie side by side.
  void sums_mma(Fields& f, const char* left, int weight_dtype, std::int64_t outer, std::int64_t m,
                std::int64_t n, std::int64_t k, std::int64_t together);
  static void image(Fields& f, const xrt_k_conv& p);

  CudaProgram& to_;
  std::map<std::string, int> known_;
  std::uint32_t op_ = 0;
};

}  // namespace xrt::lite::cuda
