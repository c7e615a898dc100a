// SPDX-License-Identifier: Apache-2.0
// What a function is made of before anything of it is on a device: buffers, and steps in order.
// A plan is made without a GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "device/cuda/compute.h"
#include "xrt/engine.h"

namespace xrt::cuda {

using Dims = std::vector<std::int64_t>;

inline std::int64_t element_count(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return count;
}
// Of a dense, row-major tensor, in elements.
Dims row_major_strides(const Dims& dims);
inline bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }
inline std::size_t bytes_of(DType dtype) { return static_cast<std::size_t>(bit_width(dtype)) / 8; }
// Of so many elements, which may share bytes.
inline std::size_t bytes_of(DType dtype, std::int64_t count) {
  return (static_cast<std::size_t>(count) * static_cast<std::size_t>(bit_width(dtype)) + 7) / 8;
}

struct Buffer {
  enum class Place : std::uint8_t {
    kInput,
    kOutput,
    kConstant,  // given, or made of given ones when the function is loaded
    kLoading,   // a given one that only makes others
    kTemporary,
  };
  Place place = Place::kTemporary;
  std::size_t bytes = 0;
  std::size_t index = 0;                       // of kInput and kOutput: which
  bool direct = false;                         // it lies where the caller has it, or wants it
  std::shared_ptr<const TensorView> constant;  // a given one
};

// Elements of a buffer: where they lie, by logical axis. Strides count elements; 0 repeats one.
struct View {
  int buffer = -1;
  DType dtype = DType::kUndefined;
  Dims dims, strides;
  std::int64_t offset = 0;  // elements

  std::int64_t count() const { return element_count(dims); }
  bool is_row_major() const;
  // Whether each element lies in one place and none of its memory between them is left out.
  bool is_dense() const;
  std::size_t byte_offset() const { return static_cast<std::size_t>(offset) * bytes_of(dtype); }
};

// A convolution of bytes as cuDNN has it: y = int8(activation(conv(x, w) · scale + bias + residual
// · residual_scale) · y_scale), with sums in int32.
struct IntegerConvolution {
  View x, w, y;                  // int8
  View scale, bias;              // float32, by channel
  std::optional<View> residual;  // int8
  float residual_scale = 0, y_scale = 1;
  std::vector<std::int64_t> strides, dilations, pads_begin, pads_end;
  bool has_relu = false;
};

// A generated kernel. Its one parameter is an array of addresses: of `reads`, then of `writes`.
struct KernelStep {
  std::string kernel;
  Grid grid;
  std::vector<View> reads, writes;
  // Others that compute the same, of which the fastest is taken.
  struct Way {
    std::string kernel;
    Grid grid;
  };
  std::vector<Way> others = {};
  // The same by a library, where that has a way.
  std::optional<IntegerConvolution> library = {};
};

enum class Activation : std::uint8_t { kNone, kRelu, kGeluTanh };

// d = activation(alpha · a b + beta · c + bias), as cuBLASLt has it: matrices by column. `a` is the
// second factor of the graph's product, so that results lie by row.
struct ProductStep {
  struct Matrix {
    View view;  // whose memory
    std::int64_t rows = 0, columns = 0, leading = 0;
    std::int64_t batch_stride = 0;
    bool transposed = false;
  };
  DType dtype = DType::kFloat32;    // of the result and of what is added
  DType factors = DType::kFloat32;  // half where the graph widens what is half, else `dtype`
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Matrix a, b, c, d;  // c is d where there is nothing to add
  float alpha = 1, beta = 0;
  std::optional<View> bias;  // m elements
  Activation activation = Activation::kNone;
};

// y = activation(conv(x, w) + bias + residual), as cuDNN has it; or of a y that is given the x or
// the w that it changes with, by how much.
struct ConvolutionStep {
  enum class Result : std::uint8_t { kY, kX, kW };
  Result result = Result::kY;
  View x, w, y;
  std::optional<View> bias, residual;
  std::vector<std::int64_t> strides, dilations, pads_begin, pads_end;
  Activation activation = Activation::kNone;
};

// o = softmax(scale · q kᵀ + mask) v, as cuDNN has it: [batch, heads, positions, width], of half
// precision.
struct AttentionStep {
  View q, k, v, o;
  View sums;                 // of the exponentials, as logarithms: [batch, heads, positions, 1]
  std::optional<View> mask;  // repeats along axes of size 1
  float scale = 1;
  bool causal = false;  // keys behind a query's position are hidden
};

struct Step {
  std::string first;  // node of a product, a convolution or an attention
  std::string what;   // for errors and records: "Conv 'conv1'"
  std::variant<KernelStep, ProductStep, ConvolutionStep, AttentionStep> work;
  std::vector<int> reads, writes;  // buffers
  bool once = false;               // it makes constants of constants
  bool direct = false;             // it uses such buffers, and is queued behind all others
};

struct Plan {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<View> inputs, outputs;           // of the function, row-major
  std::string definitions;                     // CUDA C++ that the kernels' code calls
  std::vector<std::string> kernel_codes;       // and that of each kernel
  std::map<std::string, std::string> kernels;  // each one's part of it, by name

  // Where a buffer lies in its block of memory: temporaries and what crosses the border in one,
  // what is constant in another, what is only needed to load in a third.
  std::vector<std::size_t> offsets;
  std::size_t arena_bytes = 0, constant_bytes = 0, loading_bytes = 0;
  // Of direct buffers, which have no place in the arena: behind it, where steps are only timed.
  std::size_t direct_bytes = 0;
};

// CUDA C++ of the function.
std::string source_of(const Plan& plan);

// Finds out what is constant, and fills in `offsets` and the sizes.
void lay_out(Plan& plan);

}  // namespace xrt::cuda
