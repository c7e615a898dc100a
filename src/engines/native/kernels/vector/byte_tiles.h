// SPDX-License-Identifier: Apache-2.0
// Exact sums of products of bytes on processors with AVX2 and without an instruction that adds
// four of them.
//
// Such a processor multiplies unsigned bytes by signed ones and adds two products in 16 bits, which
// saturate: 255 * (a + b) fits for -128 <= a + b <= 128. Weights beyond that are two numbers, of
// which a panel holds the first for all bytes of X and the second for those that need it
// (dnn/int8/tiles.h). Where many do, the bytes of X are words of 16 bits: their products are
// added in 32 bits, half as many at a time.
#pragma once

#include <cstdint>

#include "engines/native/kernels/vector/vector_ops.h"

namespace xrt::native {

struct ByteTiles {
  static constexpr std::int64_t kColumns = 16;  // of a panel
  static constexpr std::int64_t kRows = 6;      // at most, of a tile
  static constexpr std::int64_t kQuad = 4;      // bytes of a row that are multiplied at a time
  static constexpr std::int64_t kOverread = 16;

  // Rows of bytes. Each is made of `runs` pieces of `quads` times four consecutive bytes (or two
  // words), the i-th of which begins offsets[i] bytes behind the row's address.
  struct Rows {
    const std::uint8_t* const* rows;
    std::int64_t count;
    const std::int64_t* offsets;
    std::int64_t runs;
    std::int64_t quads;
  };

  struct Quad {
    std::int32_t run;
    std::int32_t byte;  // behind the beginning of the run
  };

  // Second numbers of half of a panel's columns: [count][kColumns / 2][kQuad], for those bytes of a
  // row that `quads` names.
  struct Extras {
    const std::int8_t* weights = nullptr;
    const Quad* quads = nullptr;
    std::int64_t count = 0;
  };

  // Weights of kColumns columns.
  struct Panel {
    const std::int8_t* first;  // [runs][quads][kColumns][kQuad]
    Extras halves[2];
  };

  // sums[r][kColumns] = row r times the panel.
  void (*multiply)(const Rows& x, const Panel& w, std::int32_t* sums);

  // The same of rows of kPair words of 16 bits at a time, without extras. `first` is
  // [runs][quads][kColumns][kPair].
  static constexpr std::int64_t kPair = 2;
  void (*multiply_words)(const Rows& x, const Panel& w, std::int32_t* sums);

  // One channel beside the other, without sums over them: sums[r][j] = the sum over t < 2 * pairs
  // of rows[r][offsets[t] + j] * w[t][j]. The panel's layout is [pairs][2][kColumns] with what
  // depthwise_index() says. Reads up to kOverread bytes behind what it is about.
  void (*multiply_channels)(const std::uint8_t* const* rows, std::int64_t count,
                            const std::int64_t* offsets, std::int64_t pairs, const std::int16_t* w,
                            std::int32_t* sums);
  // Where the weight of tap t and column j lies.
  static constexpr std::int64_t depthwise_index(std::int64_t t, std::int64_t j) {
    // Channels 0-3 and 8-11, then 4-7 and 12-15; two taps of a channel side by side.
    const std::int64_t half = j / 4 % 2;
    const std::int64_t place = j % 4 + j / 8 * 4;
    return (t / 2 * 2 + half) * kColumns + place * 2 + t % 2;
  }

  // What is done to the sums of a tile.
  struct Step {
    enum class Kind : std::uint8_t {
      kSum,  // + alpha * operand, uint8 or int8
      kAdd,  // the operand is float32
      kSub,
      kMul,
      kDiv,
      kLinear,     // alpha * t + beta
      kClip,       // within alpha … beta
      kLeaky,      // alpha * t where t < 0
      kHardSwish,  // t * (alpha * t + beta, within 0 … 1)
      kFunction,
    };
    Kind kind;
    float alpha = 0;
    float beta = 0;
    bool is_signed = false;         // of kSum
    const void* operand = nullptr;  // has the shape of the result
    VectorOps::Unary function = nullptr;
  };
  enum class Result : std::uint8_t { kUInt8, kInt8, kFloat32, kInt32 };
  struct Finish {
    const float* factors;  // per column of the panel, as the next two
    const float* bias;
    const std::int32_t* zeros;      // what the sums are too large by
    const std::int32_t* row_zeros;  // the same, per row; null: 0
    float scale;
    const Step* steps;
    std::int64_t step_count;
    Result to;
  };
  // y[at + r * y_step + j] = the steps of ((sums - zeros) * factors * scale + bias), rounded to the
  // nearest even and saturated where y is of bytes; of Result::kInt32 sums - zeros. Operands are
  // read at the same place before it is written.
  void (*finish)(const std::int32_t* sums, std::int64_t rows, std::int64_t columns,
                 const Finish& how, void* y, std::int64_t at, std::int64_t y_step);

  std::int64_t (*total)(const std::uint8_t* x, std::int64_t n);
};

// Null where the processor has no AVX2.
const ByteTiles* byte_tiles();

}  // namespace xrt::native
