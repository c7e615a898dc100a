// SPDX-License-Identifier: Apache-2.0
// Products with weights of 4 and 8 bits. A few rows are bound by memory: they are multiplied with
// the numbers as they come. For many rows a part of a panel at a time is dequantised, and
// multiplied as floats. With the option activations=int8 rows are rounded to int8, each block of
// numbers by its own largest one, and multiplied as integers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engines/native/compressed/kernels.h"
#include "engines/native/compressed/weights.h"
#include "engines/native/context.h"
#include "engines/native/dnn/post_ops.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/vector/vector_ops.h"

namespace xrt::native {

void register_block_gather(KernelRegistry& registry);

namespace {

constexpr std::int64_t kFewRows = 12;
constexpr std::int64_t kPart = 128;        // of the depth: with the widest panel 32 KB of floats
constexpr std::int64_t kWidestPanel = 64;  // columns
constexpr std::int64_t kBytesPerTask = 64 << 10;
constexpr std::int64_t kRowsPerTask = 24;

bool rounds_activations(const CompileOptions& options) {
  const auto given = options.engine_options.find("activations");
  if (given == options.engine_options.end() || given->second == "float") return false;
  if (given->second == "int8") return true;
  throw Error(ErrorCode::kInvalidArgument,
              "native: the option activations is '" + given->second + "'; float or int8 is wanted");
}

// Consecutive pieces of one piece of memory.
class Carver {
 public:
  template <typename T>
  std::size_t add(std::int64_t count) {
    const std::size_t at = bytes_;
    bytes_ += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

class BlockMatMulKernel final : public Kernel {
 public:
  explicit BlockMatMulKernel(const KernelCreateContext& context)
      : weights_(make(context)), rounds_(rounds_activations(context.options())) {
    const Tensor* bias = context.constant_input(4);
    if (bias == nullptr) return;
    bias_.resize(static_cast<std::size_t>(bias->count()));
    StoredWeights* stored = context.stored_weights();
    if (stored != nullptr && !stored->empty()) {
      const Tensor kept = stored->take("bias", bias_.size() * sizeof(float));
      std::memcpy(bias_.data(), kept.raw(), kept.bytes());
    } else {
      load_float(bias->dtype(), bias->raw(), 0, bias->count(), bias_.data());
    }
  }

  std::size_t weight_bytes() const override { return weights_.bytes() + bias_.size() * 4; }
  bool reads_input(std::size_t i) const override { return i == 0; }
  bool saves_weights() const override { return true; }
  void save(FlatWriter& writer) const override {
    writer.number(BlockWeights::kStored + (bias_.empty() ? 0 : 1));
    weights_.save(writer);
    if (bias_.empty()) return;
    writer.text("bias").bytes(
        {reinterpret_cast<const char*>(bias_.data()), bias_.size() * sizeof(float)});
  }

  void run(KernelContext& k) const override {
    const Tensor& a = k.input(0);
    const std::int64_t depth = weights_.depth();
    if (a.rank() == 0 || a.dims().back() != depth) {
      fail("cannot multiply a value of shape " + shape_text(a.dims()) + " with a matrix of " +
           std::to_string(depth) + " rows");
    }
    Dims dims = a.dims();
    dims.back() = weights_.columns();
    Tensor& y = k.output(0, a.dtype(), dims);
    if (y.count() == 0) return;
    Job job;
    job.rows = a.count() / depth;
    const std::int64_t width = weights_.panels() * panel_ops().panel;
    const bool is_float = a.dtype() == DType::kFloat32;
    const bool copies_x = !is_float || weights_.padded_depth() != depth;
    const bool copies_y = !is_float || width != weights_.columns();
    const std::int64_t per_row = weights_.blocks();
    Carver carver;
    const auto x_at = carver.add<float>(copies_x ? job.rows * weights_.padded_depth() : 0);
    const auto y_at = carver.add<float>(copies_y ? job.rows * width : 0);
    const auto totals_at = carver.add<float>(job.rows * per_row);
    const auto scales_at = carver.add<float>(rounds_ ? job.rows * per_row : 0);
    const auto bytes_at = carver.add<std::int8_t>(rounds_ ? job.rows * weights_.padded_depth() : 0);
    std::byte* memory = k.scratch(carver.bytes());
    job.x = is_float ? a.data<float>() : nullptr;
    if (copies_x) {
      auto* to = reinterpret_cast<float*>(memory + x_at);
      pad(k, a, job.rows, to);
      job.x = to;
    }
    job.y = copies_y ? reinterpret_cast<float*>(memory + y_at) : y.data<float>();
    job.y_step = copies_y ? width : weights_.columns();
    job.totals = reinterpret_cast<float*>(memory + totals_at);
    job.scales = reinterpret_cast<float*>(memory + scales_at);
    job.bytes = reinterpret_cast<std::int8_t*>(memory + bytes_at);
    if (rounds_) {
      round_rows(k, job);
    } else if (weights_.has_totals() && job.rows <= kFewRows) {
      add_up(k, job);
    }
    multiply(k, job);
    if (copies_y) store(k, job, y);
  }

 private:
  struct Job {
    std::int64_t rows = 0;
    const float* x = nullptr;  // [rows][padded depth]
    float* y = nullptr;        // [rows][y_step], whole panels
    std::int64_t y_step = 0;
    float* totals = nullptr;  // [rows][blocks]; int32 where rows are rounded
    float* scales = nullptr;
    std::int8_t* bytes = nullptr;
  };

  static BlockWeights make(const KernelCreateContext& context) {
    const auto axis = static_cast<std::size_t>(context.node().attr_int("axis", 0));
    const std::int64_t block = context.node().attr_int("block", 0);
    const Tensor& q = *context.constant_input(1);
    StoredWeights* stored = context.stored_weights();
    if (stored != nullptr && !stored->empty()) return {*stored, q, axis, block};
    return {q,
            *context.constant_input(2),
            context.constant_input(3),
            context.constant_input(5),
            axis,
            block};
  }

  // Rows as floats, with zeros up to whole words.
  void pad(const KernelContext& k, const Tensor& a, std::int64_t rows, float* to) const {
    const std::int64_t depth = weights_.depth();
    const std::int64_t padded = weights_.padded_depth();
    k.parallel_for(rows, std::max<std::int64_t>(16384 / padded, 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t r = begin; r < end; ++r) {
                       float* row = to + r * padded;
                       load_float(a.dtype(), a.raw(), r * depth, depth, row);
                       std::fill(row + depth, row + padded, 0.0F);
                     }
                   });
  }

  // fn(row, block, numbers, count)
  template <typename F>
  void over_blocks(const KernelContext& k, const Job& job, F&& fn) const {
    const std::int64_t padded = weights_.padded_depth();
    k.parallel_for(job.rows, std::max<std::int64_t>(16384 / padded, 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t r = begin; r < end; ++r) {
                       for (std::int64_t b = 0; b < weights_.blocks(); ++b) {
                         const std::int64_t first = b * weights_.block();
                         fn(r, b, job.x + r * padded + first,
                            std::min(weights_.block(), padded - first));
                       }
                     }
                   });
  }

  void add_up(const KernelContext& k, const Job& job) const {
    const VectorOps& ops = vector_ops();
    over_blocks(k, job, [&](std::int64_t r, std::int64_t b, const float* x, std::int64_t n) {
      job.totals[r * weights_.blocks() + b] = ops.sum(x, n);
    });
  }

  void round_rows(const KernelContext& k, const Job& job) const {
    const VectorOps& ops = vector_ops();
    auto* totals = reinterpret_cast<std::int32_t*>(job.totals);
    const std::int64_t padded = weights_.padded_depth();
    over_blocks(k, job, [&](std::int64_t r, std::int64_t b, const float* x, std::int64_t n) {
      const float most = std::max(ops.maximum(x, n), -ops.minimum(x, n));
      float scale = most > 0 ? most / 127.0F : 1.0F;
      // Bytes hide numbers that are none: the results must not.
      if (!std::isfinite(ops.sum(x, n))) scale = std::numeric_limits<float>::quiet_NaN();
      std::int8_t* to = job.bytes + r * padded + b * weights_.block();
      ops.quantize_s8(x, to, n, scale, 0);
      std::int32_t total = 0;
      for (std::int64_t i = 0; i < n; ++i) total += to[i];
      job.scales[r * weights_.blocks() + b] = scale;
      totals[r * weights_.blocks() + b] = total;
    });
  }

  void multiply(const KernelContext& k, const Job& job) const {
    const std::int64_t panels = weights_.panels();
    const auto each = static_cast<std::int64_t>(weights_.bytes()) / panels;
    // Few rows: the weights are the work. Many: parts of the rows where panels are few.
    const bool few = job.rows <= kFewRows;
    const std::int64_t parts =
        few || panels >= 2 * k.num_threads()
            ? 1
            : std::clamp<std::int64_t>(job.rows / kRowsPerTask, 1, k.num_threads());
    const std::int64_t grain =
        few ? std::max<std::int64_t>(kBytesPerTask / std::max<std::int64_t>(each, 1), 1) : 1;
    k.parallel_for(panels * parts, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t part = i % parts;
        const std::int64_t first = job.rows * part / parts;
        const std::int64_t last = job.rows * (part + 1) / parts;
        multiply_panel(job, i / parts, first, last - first);
      }
    });
  }

  void multiply_panel(const Job& job, std::int64_t p, std::int64_t first, std::int64_t rows) const {
    const PanelOps& ops = panel_ops();
    const BlockPanel w = weights_.panel(p);
    const std::int64_t padded = weights_.padded_depth();
    const std::int64_t blocks = weights_.blocks();
    const float* x = job.x + first * padded;
    float* y = job.y + first * job.y_step + p * ops.panel;
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = y + r * job.y_step;
      std::fill_n(row, ops.panel, 0.0F);
      if (bias_.empty()) continue;
      const std::int64_t from = p * ops.panel;
      std::copy_n(bias_.data() + from, std::min(ops.panel, weights_.columns() - from), row);
    }
    if (rounds_) {
      ops.multiply_block_bytes(w, job.bytes + first * padded, padded, rows,
                               job.scales + first * blocks,
                               reinterpret_cast<const std::int32_t*>(job.totals) + first * blocks,
                               blocks, y, job.y_step);
      return;
    }
    if (job.rows <= kFewRows) {
      ops.multiply_blocks(w, x, padded, rows, job.totals + first * blocks, blocks, y, job.y_step);
      return;
    }
    alignas(64) float floats[kPart * kWidestPanel];
    for (std::int64_t at = 0; at < padded; at += kPart) {
      const std::int64_t depth = std::min(kPart, padded - at);
      ops.expand_blocks(w, at, depth, floats);
      ops.multiply(x + at, padded, rows, depth, floats, y, job.y_step);
    }
  }

  void store(const KernelContext& k, const Job& job, Tensor& y) const {
    const std::int64_t columns = weights_.columns();
    k.parallel_for(job.rows, std::max<std::int64_t>(16384 / columns, 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t r = begin; r < end; ++r) {
                       store_float(y.dtype(), job.y + r * job.y_step, columns, y.raw(),
                                   r * columns);
                     }
                   });
  }

  BlockWeights weights_;
  std::vector<float> bias_;
  bool rounds_;
};

}  // namespace

void register_compressed_kernels(KernelRegistry& registry) {
  registry.add({.domain = std::string(dnn::kDomain),
                .op = "BlockMatMul",
                .create = [](const KernelCreateContext& c) -> std::unique_ptr<Kernel> {
                  return std::make_unique<BlockMatMulKernel>(c);
                }});
  register_block_gather(registry);
}

}  // namespace xrt::native
