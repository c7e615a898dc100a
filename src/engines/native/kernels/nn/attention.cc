// SPDX-License-Identifier: Apache-2.0
// What decoders of language models are made of, in float32: Attention over a cache that the graph
// itself writes (nonpad_kv_seqlen), RotaryEmbedding and RMSNormalization. Other forms of these ops
// are computed by their bodies.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "engines/native/context.h"
#include "engines/native/kernels/common/axes.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/register.h"
#include "engines/native/kernels/vector/panels.h"
#include "engines/native/kernels/vector/vector_ops.h"
#include "engines/native/scratch.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

constexpr std::int64_t kLeastWork = 1 << 15;  // products of a task

// Shapes: B batch, N heads of queries, K heads of keys and values, S queries, T positions of the
// cache, D numbers of a head of Q and K, E of one of V.
class CachedAttention final : public Kernel {
 public:
  explicit CachedAttention(const KernelCreateContext& context)
      : is_causal_(need_int(context.node(), "is_causal") != 0),
        scale_(context.node().attributes.contains("scale")
                   ? std::optional(need_float(context.node(), "scale"))
                   : std::nullopt) {}

  void run(KernelContext& k) const override {
    Problem p;
    const Tensor& q = k.input(0);
    const Tensor& keys = k.input(1);
    const Tensor& values = k.input(2);
    p.batch = q.dims()[0];
    p.heads = q.dims()[1];
    p.queries = q.dims()[2];
    p.head = q.dims()[3];
    p.kv_heads = keys.dims()[1];
    p.positions = keys.dims()[2];
    p.value_head = values.dims()[3];
    const Dims wanted_keys{p.batch, p.kv_heads, p.positions, p.head};
    const Dims wanted_values{p.batch, p.kv_heads, p.positions, p.value_head};
    if (keys.dims() != wanted_keys || values.dims() != wanted_values || p.kv_heads < 1 ||
        p.heads % p.kv_heads != 0) {
      fail("keys " + shape_text(keys.dims()) + " and values " + shape_text(values.dims()) +
           " do not fit queries " + shape_text(q.dims()));
    }
    p.valid = ints_input(k, 6);
    if (static_cast<std::int64_t>(p.valid.size()) != p.batch) {
      fail("nonpad_kv_seqlen has " + std::to_string(p.valid.size()) + " numbers for a batch of " +
           std::to_string(p.batch));
    }
    for (const std::int64_t n : p.valid) {
      if (n < 0 || n > p.positions) {
        fail("nonpad_kv_seqlen " + std::to_string(n) + " is outside a cache of " +
             std::to_string(p.positions) + " positions");
      }
    }
    Tensor& y = k.output(0, DType::kFloat32, {p.batch, p.heads, p.queries, p.value_head});
    if (y.count() == 0) return;
    p.q = q.data<float>();
    p.k = keys.data<float>();
    p.v = values.data<float>();
    p.y = y.data<float>();
    p.scale = scale_.value_or(1.0F / std::sqrt(static_cast<float>(p.head)));
    // The queries of all heads that share keys are rows side by side. Some at a time read the keys
    // once; all of them one by one where there would be too few tasks.
    p.rows = p.heads / p.kv_heads * p.queries;
    const std::int64_t longest = *std::max_element(p.valid.begin(), p.valid.end());
    const std::int64_t shared = (p.rows + kPanelQueries - 1) / kPanelQueries;
    p.rows_a_task = p.batch * p.kv_heads * shared < 2 * k.num_threads() ? 1 : kPanelQueries;
    p.parts = (p.rows + p.rows_a_task - 1) / p.rows_a_task;
    const std::int64_t work =
        std::max<std::int64_t>(p.rows_a_task * longest * (p.head + p.value_head), 1);
    k.parallel_for(p.batch * p.kv_heads * p.parts, std::max<std::int64_t>(kLeastWork / work, 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     Scratch<float> scores(static_cast<std::size_t>(
                         kPanelQueries * std::max<std::int64_t>(longest, 1)));
                     for (; begin < end; ++begin) attend(p, begin, longest, scores.data());
                   });
  }

 private:
  static constexpr std::int64_t kPanelQueries = 3;

  struct Problem {
    std::int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, positions = 0;
    std::int64_t head = 0, value_head = 0;
    std::int64_t rows = 0, rows_a_task = 1, parts = 1;
    std::vector<std::int64_t> valid;
    const float* q = nullptr;
    const float* k = nullptr;
    const float* v = nullptr;
    float* y = nullptr;
    float scale = 1;
  };

  // Keys that a query may see.
  std::int64_t limit(const Problem& p, std::int64_t b, std::int64_t row) const {
    const std::int64_t valid = p.valid[static_cast<std::size_t>(b)];
    if (!is_causal_) return valid;
    return std::clamp<std::int64_t>(valid - p.queries + row % p.queries + 1, 0, valid);
  }

  void attend(const Problem& p, std::int64_t task, std::int64_t step, float* scores) const {
    const VectorOps& ops = vector_ops();
    const PanelOps& panels = panel_ops();
    const std::int64_t matrix = task / p.parts;  // of keys and values
    const std::int64_t first = task % p.parts * p.rows_a_task;
    const std::int64_t count = std::min(p.rows_a_task, p.rows - first);
    const std::int64_t b = matrix / p.kv_heads;
    std::int64_t most = 0;
    for (std::int64_t r = 0; r < count; ++r) most = std::max(most, limit(p, b, first + r));
    const float* q = p.q + (matrix * p.rows + first) * p.head;
    const float* k = p.k + matrix * p.positions * p.head;
    const float* v = p.v + matrix * p.positions * p.value_head;
    float* y = p.y + (matrix * p.rows + first) * p.value_head;
    std::fill_n(y, count * p.value_head, 0.0F);
    if (most == 0) return;
    panels.dots(q, p.head, count, k, most, p.head, scores, step);
    for (std::int64_t r = 0; r < count; ++r) {
      float* row = scores + r * step;
      const std::int64_t n = limit(p, b, first + r);
      if (n > 0) {
        ops.scale_shift(row, row, n, p.scale, 0.0F);
        const float sum = ops.exp_shifted(row, row, n, ops.maximum(row, n));
        ops.scale_shift(row, row, n, 1.0F / sum, 0.0F);
      }
      std::fill(row + n, row + most, 0.0F);
    }
    panels.add_weighted_rows(scores, step, count, v, most, p.value_head, y);
  }

  bool is_causal_;
  std::optional<float> scale_;  // none: that of the width of a head
};

bool is_absent(const NodeView& n, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i <= last; ++i) {
    if (n.has_input(i)) return false;
  }
  return true;
}

Support all_float32(const NodeView& n, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (n.input_dtype(i) != DType::kFloat32) return Support::no("not float32");
  }
  return Support::yes();
}

Support supports_attention(const NodeView& n) {
  if (!n.has_input(6) || !is_absent(n, 3, 5)) {
    return Support::no("no cache that the graph writes (nonpad_kv_seqlen), or a mask beside it");
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if (!n.input_type(i).has_rank() || n.input_type(i).rank() != 4) {
      return Support::no("heads are not an axis of their own");
    }
  }
  if (n.has_output(1) || n.has_output(2) || n.has_output(3)) {
    return Support::no("scores are outputs");
  }
  const Node& node = n.node();
  if (need_float(node, "softcap") != 0.0F || node.attr_int("left_window_size", -1) != -1 ||
      node.attr_int("right_window_size", -1) != -1) {
    return Support::no("scores have a cap, or queries a window");
  }
  return all_float32(n, 3);
}

// x turned, pair by pair, by the angles of its position.
class Rotary final : public Kernel {
 public:
  explicit Rotary(const KernelCreateContext& context)
      : interleaved_(need_int(context.node(), "interleaved") != 0),
        size_(context.node().attr_int("rotary_embedding_dim", 0)) {}

  void run(KernelContext& k) const override {
    const Tensor& x = k.input(0);
    const Tensor& cos = k.input(1);
    const Tensor& sin = k.input(2);
    const std::int64_t batch = x.dims()[0];
    const std::int64_t heads = x.dims()[1];
    const std::int64_t positions = x.dims()[2];
    const std::int64_t head = x.dims()[3];
    const std::int64_t turned = size_ != 0 ? size_ : head;
    const std::int64_t pairs = turned / 2;
    if (turned > head || turned % 2 != 0 || cos.dims() != sin.dims() ||
        cos.dims().back() != pairs) {
      fail("angles of shape " + shape_text(cos.dims()) + " do not turn " + std::to_string(turned) +
           " of " + std::to_string(head) + " numbers");
    }
    const std::vector<std::int64_t> rows = ints_input(k, 3);
    if (static_cast<std::int64_t>(rows.size()) != batch * positions) {
      fail(std::to_string(rows.size()) + " position ids for " + std::to_string(batch * positions) +
           " positions");
    }
    for (const std::int64_t row : rows) {
      if (row < 0 || row >= cos.dims()[0]) {
        fail("position " + std::to_string(row) + " is outside angles for " +
             std::to_string(cos.dims()[0]));
      }
    }
    Tensor& y = k.output(0, DType::kFloat32, x.dims());
    if (y.count() == 0) return;
    const float* in = x.data<float>();
    float* out = y.data<float>();
    const std::int64_t stride = interleaved_ ? 2 : 1;
    const std::int64_t other = interleaved_ ? 1 : pairs;
    k.parallel_for(batch * heads * positions,
                   std::max<std::int64_t>(kLeastWork / 2 / std::max<std::int64_t>(head, 1), 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (; begin < end; ++begin) {
                       const std::int64_t b = begin / (heads * positions);
                       const std::int64_t row =
                           rows[static_cast<std::size_t>(b * positions + begin % positions)];
                       const float* c = cos.data<float>() + row * pairs;
                       const float* s = sin.data<float>() + row * pairs;
                       const float* from = in + begin * head;
                       float* to = out + begin * head;
                       for (std::int64_t i = 0; i < pairs; ++i) {
                         const float a = from[i * stride];
                         const float z = from[i * stride + other];
                         to[i * stride] = a * c[i] - z * s[i];
                         to[i * stride + other] = a * s[i] + z * c[i];
                       }
                       std::copy(from + turned, from + head, to + turned);
                     }
                   });
  }

 private:
  bool interleaved_;
  std::int64_t size_;
};

Support supports_rotary(const NodeView& n) {
  if (!n.has_input(3)) return Support::no("no position ids");
  if (!n.input_type(0).has_rank() || n.input_type(0).rank() != 4) {
    return Support::no("heads are not an axis of their own");
  }
  for (std::size_t i = 1; i < 3; ++i) {
    if (!n.input_type(i).has_rank() || n.input_type(i).rank() != 2) {
      return Support::no("angles are no table");
    }
  }
  return all_float32(n, 3);
}

std::unique_ptr<Kernel> create_rms_norm(const KernelCreateContext& create) {
  const float epsilon = need_float(create.node(), "epsilon");
  return make_kernel([epsilon](KernelContext& k) {
    const Tensor& x = k.input(0);
    const Tensor& scale = k.input(1);
    const std::int64_t n = x.dims().back();
    if (scale.count() != n) {
      fail("a scale of shape " + shape_text(scale.dims()) + " does not fit rows of " +
           std::to_string(n));
    }
    Tensor& y = k.output(0, DType::kFloat32, x.dims());
    if (y.count() == 0) return;
    const VectorOps& ops = vector_ops();
    k.parallel_for(x.count() / n, std::max<std::int64_t>(kLeastWork / 2 / n, 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (; begin < end; ++begin) {
                       const float* row = x.data<float>() + begin * n;
                       const float mean = ops.sum_squares(row, n) / static_cast<float>(n);
                       ops.normalize(row, y.data<float>() + begin * n, n, 0.0F,
                                     1.0F / std::sqrt(mean + epsilon), scale.data<float>(),
                                     nullptr);
                     }
                   });
  });
}

Support supports_rms_norm(const NodeView& n) {
  const Type& x = n.input_type(0);
  const auto scale = n.input_type(1).static_dims();
  const std::int64_t axis = need_int(n.node(), "axis");
  if (!x.has_rank() || x.rank() == 0 ||
      (axis != -1 && axis != static_cast<std::int64_t>(x.rank()) - 1)) {
    return Support::no("more than the last axis is normalised");
  }
  if (!scale || scale->size() != 1) return Support::no("the scale is no vector");
  const Dim& last = x.shape->back();
  if (last.is_known() ? last.value() != scale->front() : scale->front() == 1) {
    return Support::no("the scale broadcasts");
  }
  return all_float32(n, 2);
}

}  // namespace

void register_attention_kernels(KernelRegistry& registry) {
  registry.add({.op = "Attention",
                .supports = supports_attention,
                .create = [](const KernelCreateContext& c) -> std::unique_ptr<Kernel> {
                  return std::make_unique<CachedAttention>(c);
                }});
  registry.add({.op = "RotaryEmbedding",
                .supports = supports_rotary,
                .create = [](const KernelCreateContext& c) -> std::unique_ptr<Kernel> {
                  return std::make_unique<Rotary>(c);
                }});
  registry.add(
      {.op = "RMSNormalization", .supports = supports_rms_norm, .create = create_rms_norm});
}

}  // namespace xrt::native
