// SPDX-License-Identifier: Apache-2.0
// Attention in its many packings, and rotary embeddings.
//
// Shapes: B batch, S positions of the queries, T of the keys (past and new ones), N heads of the
// queries, K heads of keys and values, H size of a head.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "onnx/contributed/rewriting.h"
#include "xrt/error.h"

namespace xrt::contributed {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();
// What is added to the scores of masked keys where the node does not say it.
constexpr float kMaskFilter = -10000.0F;

// Less than any score. What is lowest in float32 would be infinite in the smaller types.
ValueId lowest_like(Rewriting& r, ValueId like) {
  const DType type = r.dtype(like);
  if (type == DType::kFloat32 || type == DType::kFloat64) return r.number(kLowest, like);
  return r.number(type == DType::kBFloat16 ? -3.38e38 : -65504.0, like);
}

// (B, S, N * H) to (B, N, S, H).
ValueId heads_of(Rewriting& r, ValueId v, std::int64_t heads) {
  return r.transpose(r.reshape(v, {0, 0, heads, -1}), {0, 2, 1, 3});
}

// (B, N, S, H) to (B, S, N * H).
ValueId joined_heads(Rewriting& r, ValueId v) {
  return r.reshape(r.transpose(v, {0, 2, 1, 3}), {0, 0, -1});
}

// 1 / sqrt(H), or what is given.
ValueId score_scale(Rewriting& r, ValueId q, float given) {
  if (given != 0.0F) return r.number(given, q);
  if (const auto size = r.dim(q, -1)) {
    return r.number(1.0 / std::sqrt(static_cast<double>(*size)), q);
  }
  const ValueId size =
      r.op("Cast", {r.size(q, 3)}, {{"to", static_cast<std::int64_t>(DType::kFloat32)}});
  return r.cast_like(r.op("Reciprocal", {r.op("Sqrt", {size})}), q);
}

struct Scores {
  ValueId q, k, v;  // (B, N, S, H), (B, K, T, H), (B, K, T, Hv)
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  float scale = 0.0F;  // 0: 1 / sqrt(H)
  float softcap = 0.0F;
  ValueId mask = {};    // added to the scores, up to (B, N, S, T); may be invalid
  ValueId hidden = {};  // bool, like the mask: keys that are not seen at all; may be invalid
  ValueId sink = {};    // (N, 1, 1) or scalar: one more score of each row; may be invalid
};

struct Attended {
  ValueId y;       // (B, S, N * Hv)
  ValueId scores;  // (B, N, S, T), before the softmax
  ValueId probabilities;
};

Attended attend(Rewriting& r, const Scores& s) {
  const std::int64_t group = s.heads / s.kv_heads;
  // Heads that share a key are rows of one product.
  const auto rows = [&](ValueId v) {
    return group == 1
               ? v
               : r.reshape_to(
                     v, r.concat({r.shape(v, 0, 1), r.ints({s.kv_heads, -1}), r.shape(v, 3)}));
  };
  const auto back = [&](ValueId v, ValueId like) {
    if (group == 1) return v;
    return r.reshape_to(v, r.concat({r.shape(like, 0, 1), r.ints({s.heads, -1}), r.shape(v, 3)}));
  };
  const ValueId keys = r.transpose(s.k, {0, 1, 3, 2});
  const ValueId product = r.mul(r.matmul(rows(s.q), keys), score_scale(r, s.q, s.scale));
  ValueId scores = back(product, s.q);
  if (s.softcap != 0.0F) {
    const ValueId cap = r.number(s.softcap, scores);
    scores = r.mul(r.op("Tanh", {r.div(scores, cap)}), cap);
  }
  if (s.mask.valid()) scores = r.add(scores, s.mask);
  if (s.hidden.valid()) scores = r.where(s.hidden, lowest_like(r, scores), scores);
  ValueId probabilities;
  if (s.sink.valid()) {
    const ValueId column_shape = r.concat({r.shape(scores, 0, 3), r.ints({1})});
    const ValueId column = r.op("Expand", {r.cast_like(s.sink, scores), column_shape});
    probabilities = r.op("Softmax", {r.concat({scores, column}, 3)}, {{"axis", std::int64_t{-1}}});
    probabilities = r.slice(probabilities, {0}, {-1}, {3});
  } else {
    probabilities = r.op("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  }
  const ValueId y = back(r.matmul(rows(probabilities), s.v), s.q);
  return {joined_heads(r, y), scores, probabilities};
}

// Positions 0 … count - 1 as int64, where `count` is a list of one number.
ValueId positions(Rewriting& r, ValueId count) { return r.range(r.squeeze(count, {0})); }

// (S, T), true where the key lies behind the query. The last of the T keys are those of `rows`, the
// others past ones; the first query stands at the first of `rows`.
ValueId keys_behind(Rewriting& r, ValueId q, ValueId k, ValueId rows) {
  const ValueId queries = r.shape(q, 2, 3);
  const ValueId keys = r.shape(k, 2, 3);
  const ValueId row = r.add(positions(r, queries), r.sub(keys, r.shape(rows, 2, 3)));
  const ValueId behind = r.op("Greater", {positions(r, keys), r.unsqueeze(row, {1})});
  const auto count = r.dim(q, 2);
  const auto fresh = r.dim(rows, 2);
  if (rows == q || (count && fresh && *count >= *fresh)) return behind;
  // ONNX Runtime lets the last query see all keys, also where more of them are new than queries.
  const ValueId last = r.sub(queries, r.ints({1}));
  const ValueId before_last = r.op("Less", {positions(r, queries), last});
  return r.op("And", {behind, r.unsqueeze(before_last, {1})});
}

// What is added to the scores for a mask of int32 (0 hides), with rank
//   1: (B), the ends of the keys, (2 B), ends and then beginnings, or (3 B + 2), ends and then what
//      follows from the shapes;
//   2: (B, T); 3: (B, S, T); 4: (B, 1, M, M), of which the last S rows up to T hold.
ValueId additive_mask(Rewriting& r, std::size_t i, ValueId q, ValueId k, float filter) {
  const ValueId mask = r.need(i);
  const std::size_t rank = r.need_rank(i);
  const ValueId zero = r.cast_like(r.whole(0), mask);
  ValueId hides;
  if (rank == 1) {
    const ValueId batch = r.shape(q, 0, 1);
    const ValueId column = r.concat({batch, r.ints({1, 1, 1})});
    // Where no beginnings follow they are zeros.
    const ValueId twice = r.add(batch, batch);
    const ValueId more = r.concat({mask, r.op("Expand", {zero, batch})});
    const ValueId ends = r.slice_axis(more, {}, batch, 0);
    const ValueId begins = r.where(r.op("Equal", {r.shape(mask, 0, 1), twice}),
                                   r.slice_axis(more, batch, twice, 0), zero);
    const ValueId at = r.cast_like(positions(r, r.shape(k, 2, 3)), mask);
    hides = r.op("Or", {r.op("GreaterOrEqual", {at, r.reshape_to(ends, column)}),
                        r.op("Less", {at, r.reshape_to(begins, column)})});
  } else if (rank == 2 || rank == 3) {
    hides = r.op("Equal", {r.unsqueeze(mask, rank == 2 ? Ints{1, 2} : Ints{1}), zero});
  } else {
    const ValueId queries = r.shape(q, 2, 3);
    const ValueId keys = r.shape(k, 2, 3);
    const ValueId part =
        r.slice_axis(r.slice_axis(mask, r.sub(keys, queries), keys, 2), r.ints({0}), keys, 3);
    hides = r.op("Equal", {part, zero});
  }
  return r.where(hides, r.number(filter, q), r.number(0.0, q));
}

// The mask of input `i`, where there is one, and of the causal order; `rows` as in keys_behind.
ValueId merged_mask(Rewriting& r, std::size_t i, bool causal, ValueId q, ValueId k, ValueId rows,
                    float filter) {
  ValueId mask;
  if (r.input(i).valid()) mask = additive_mask(r, i, q, k, filter);
  if (!causal) return mask;
  return r.where(keys_behind(r, q, k, rows), lowest_like(r, q),
                 mask.valid() ? mask : r.number(0.0, q));
}

ValueId sum_where_valid(Rewriting& r, ValueId a, ValueId b) {
  if (!a.valid()) return b;
  return b.valid() ? r.add(a, b) : a;
}

// --- Attention and QAttention: projections inside ----------------------------------------------

// Projected queries, keys and values (B, S, D + D + Dv) to the outputs of Attention.
void finish_self_attention(Rewriting& r, ValueId projected, std::size_t mask, std::size_t past,
                           ValueId bias) {
  const auto heads = r.required_int("num_heads", kHeads);
  const bool causal = r.flag("unidirectional");
  const float scale = r.float_attr("scale", 0.0F);
  const float filter = r.float_attr("mask_filter_value", kMaskFilter);
  if (r.flag("do_rotary")) r.refuse("do_rotary");
  if (r.flag("past_present_share_buffer")) r.refuse("past_present_share_buffer");
  const Ints sizes = r.ints_attr("qkv_hidden_sizes", kLength);
  const Values parts = sizes.size() == 3
                           ? r.split(projected, sizes, 2)
                           : r.ops("Split", {projected}, 3,
                                   {{"axis", std::int64_t{2}}, {"num_outputs", std::int64_t{3}}});
  const ValueId q = heads_of(r, parts[0], heads);
  ValueId k = heads_of(r, parts[1], heads);
  ValueId v = heads_of(r, parts[2], heads);
  if (r.input(past).valid()) {
    const ValueId state = r.need(past);
    k = r.concat({r.gather(state, r.whole(0)), k}, 2);
    v = r.concat({r.gather(state, r.whole(1)), v}, 2);
  }
  Scores s{q, k, v, heads, heads, scale};
  s.mask = sum_where_valid(r, merged_mask(r, mask, causal, q, k, q, filter), bias);
  const Attended a = attend(r, s);
  ValueId present;
  if (r.wants(1)) present = r.concat({r.unsqueeze(k, {0}), r.unsqueeze(v, {0})}, 0);
  r.finish({a.y, present});
}

void rewrite_attention(Rewriting& r) {
  ValueId projected = r.matmul(r.need(0), r.need(1));
  if (r.input(2).valid()) projected = r.add(projected, r.input(2));
  finish_self_attention(r, projected, 3, 4, r.input(5));
}

void rewrite_quantised_attention(Rewriting& r) {
  const ValueId sums =
      r.op("MatMulInteger", {r.need(0), r.need(1), r.single(r.input(6)), r.single(r.input(7))});
  const ValueId scale = r.mul(r.single(r.need(3)), r.single(r.need(4)));
  const ValueId projected = r.add(r.mul(r.cast(sums, DType::kFloat32), scale), r.need(2));
  finish_self_attention(r, projected, 5, 8, {});
}

// --- MultiHeadAttention -------------------------------------------------------------------------

struct Projections {
  ValueId q, k, v;      // (B, N, S, H), (B, N, L, H), (B, N, L, Hv)
  bool cached = false;  // keys and values come as heads, from an encoder
};

// Queries, keys and values at inputs 0 to 2, packed in whatever way, plus a bias of all three.
Projections read_projections(Rewriting& r, std::int64_t heads, ValueId bias) {
  const ValueId query = r.need(0);
  const auto part_of = [&](ValueId v, std::int64_t i) {  // (B, L, N, parts, H)
    return r.transpose(r.gather(v, r.whole(i), 3), {0, 2, 1, 3});
  };
  if (!r.input(1).valid()) {
    if (r.need_rank(0) == 5) return {part_of(query, 0), part_of(query, 1), part_of(query, 2)};
    const ValueId sum = sum_where_valid(r, query, bias);
    const Values parts =
        r.ops("Split", {sum}, 3, {{"axis", std::int64_t{2}}, {"num_outputs", std::int64_t{3}}});
    return {heads_of(r, parts[0], heads), heads_of(r, parts[1], heads),
            heads_of(r, parts[2], heads)};
  }
  ValueId q = query;
  ValueId k = r.need(1);
  ValueId v = r.input(2);
  const std::size_t rank = r.need_rank(1);
  ValueId k_bias;
  ValueId v_bias;
  if (bias.valid()) {
    const ValueId size = r.shape(query, 2, 3);
    const ValueId both = r.add(size, size);
    q = r.add(q, r.slice_axis(bias, {}, size, 0));
    k_bias = r.slice_axis(bias, size, both, 0);
    v_bias = r.slice_axis(bias, both, {}, 0);
  }
  q = heads_of(r, q, heads);
  if (rank == 5) return {q, part_of(k, 0), part_of(k, 1)};
  if (rank == 4) return {q, k, r.need(2), true};
  k = heads_of(r, sum_where_valid(r, k, k_bias), heads);
  v = heads_of(r, sum_where_valid(r, r.need(2), v_bias), heads);
  return {q, k, v};
}

// Rows of the past that each beam has come by: row t of beam w is that of the beam which
// `indirection` (batch, beams, longest) names.
ValueId past_of_beams(Rewriting& r, ValueId past, ValueId indirection, ValueId length) {
  const ValueId beams = r.shape(indirection, 1, 2);
  const ValueId batch = r.shape(indirection, 0, 1);
  const ValueId named = r.cast(r.slice_axis(indirection, r.ints({0}), length, 2), DType::kInt64);
  const ValueId first = r.mul(r.unsqueeze(positions(r, batch), {1, 2}), beams);
  const ValueId source = r.unsqueeze(r.add(named, first), {3});
  const ValueId time = r.op("Expand", {r.unsqueeze(positions(r, length), {1}), r.shape(source)});
  // (batch, beams, length, 2) into (beams of all, longest, N, H)
  const ValueId rows =
      r.op("GatherND", {r.transpose(past, {0, 2, 1, 3}), r.concat({source, time}, 3)});
  const ValueId joined =
      r.reshape_to(rows, r.concat({r.shape(past, 0, 1), length, r.shape(rows, 3)}));
  return r.transpose(joined, {0, 2, 1, 3});
}

struct CachedHeads {
  ValueId all;      // what is attended to
  ValueId present;  // the state that is handed on
};

// The past and the new rows. With a length, the past is a buffer of which that many rows count.
CachedHeads with_past(Rewriting& r, ValueId past, ValueId rows, ValueId length,
                      ValueId indirection) {
  if (!past.valid()) return {rows, rows};
  if (!length.valid()) {
    const ValueId all = r.concat({past, rows}, 2);
    return {all, all};
  }
  const ValueId before = r.slice_axis(past, r.ints({0}), length, 2);
  const ValueId end = r.add(length, r.shape(rows, 2, 3));
  const ValueId present = r.concat({before, rows, r.slice_axis(past, end, {}, 2)}, 2);
  if (!indirection.valid()) return {r.concat({before, rows}, 2), present};
  return {r.concat({past_of_beams(r, past, indirection, length), rows}, 2), present};
}

struct MultiHeadInputs {
  ValueId bias;
  std::size_t mask = 0;
  ValueId scores_bias, past_key, past_value, past_length, indirection;
};

void multi_head_attention(Rewriting& r, const MultiHeadInputs& in, bool causal) {
  const auto heads = r.required_int("num_heads", kHeads);
  const float scale = r.float_attr("scale", 0.0F);
  const float filter = r.float_attr("mask_filter_value", kMaskFilter);
  const Projections p = read_projections(r, heads, in.bias);
  CachedHeads k{p.k, p.k};
  CachedHeads v{p.v, p.v};
  if (!p.cached) {
    ValueId length;
    if (in.past_length.valid()) length = r.reshape(r.cast(in.past_length, DType::kInt64), {1});
    k = with_past(r, in.past_key, p.k, length, in.indirection);
    v = with_past(r, in.past_value, p.v, length, in.indirection);
  }
  Scores s{p.q, k.all, v.all, heads, heads, scale};
  const ValueId rows = r.input(1).valid() ? p.k : p.q;
  s.mask =
      sum_where_valid(r, merged_mask(r, in.mask, causal, p.q, k.all, rows, filter), in.scores_bias);
  const Attended a = attend(r, s);
  r.finish({a.y, k.present, v.present, a.scores});
}

void rewrite_multi_head_attention(Rewriting& r) {
  const bool causal = r.flag("unidirectional");
  multi_head_attention(
      r, {r.input(3), 4, r.input(5), r.input(6), r.input(7), r.input(8), r.input(9)}, causal);
}

void rewrite_decoder_masked_multi_head_attention(Rewriting& r) {
  r.flag("past_present_share_buffer");
  r.flag("output_qk");
  // One new position: what it may see is the whole past.
  multi_head_attention(
      r, {r.input(10), 3, r.input(4), r.input(5), r.input(6), r.input(7), r.input(9)}, false);
}

// --- rotary embeddings --------------------------------------------------------------------------

// x (B, N, S, H) turned by cos and sin (longest, R) at `ids` (B, S), or by (B, S, R) as they are.
// `turned`: how many of the H are turned, 2 R; 0 where no attribute says it.
ValueId rotated(Rewriting& r, ValueId x, ValueId cos, ValueId sin, ValueId ids, bool interleaved,
                std::int64_t turned = 0) {
  Attributes attributes{{"interleaved", static_cast<std::int64_t>(interleaved)}};
  if (const auto half = r.dim(cos, -1); half && turned == 0) turned = product({*half, 2});
  if (turned != 0 && r.dim(x, -1) != turned) attributes["rotary_embedding_dim"] = turned;
  return r.op("RotaryEmbedding", {x, cos, sin, ids}, std::move(attributes));
}

// Input 0 as heads and back: (B, S, hidden) or (B, N, S, H).
template <typename Turn>
void turn_heads(Rewriting& r, std::int64_t heads, ValueId cos, const Turn& turn) {
  const ValueId x = r.need(0);
  if (r.need_rank(0) == 4) return r.finish({turn(x)});
  // Without a number of heads, the cache is as wide as half a head.
  const ValueId head =
      heads != 0
          ? r.reshape(x, {0, 0, heads, -1})
          : r.reshape_to(x, r.concat({r.ints({0, 0, -1}), r.mul(r.shape(cos, -1), r.ints({2}))}));
  const ValueId y = r.transpose(turn(r.transpose(head, {0, 2, 1, 3})), {0, 2, 1, 3});
  r.finish({r.reshape(y, {0, 0, -1})});
}

void rewrite_rotary_embedding(Rewriting& r) {
  const bool interleaved = r.flag("interleaved");
  const auto heads = r.int_attr("num_heads", 0, kHeadsOrNone);
  const auto turned = r.int_attr("rotary_embedding_dim", 0, kLengthOrNone);
  const ValueId cos = r.need(2);
  const ValueId sin = r.need(3);
  const bool offset = r.need_rank(1) < 2;
  turn_heads(r, heads, cos, [&](ValueId x) {
    ValueId ids = r.need(1);
    if (offset) {
      const ValueId row = r.add(positions(r, r.shape(x, 2, 3)), r.reshape(ids, {1}));
      ids = r.op("Expand", {row, r.concat({r.shape(x, 0, 1), r.shape(x, 2, 3)})});
    }
    return rotated(r, x, cos, sin, ids, interleaved, turned);
  });
}

// Three positions a word; which of them holds is fixed for each entry of the cache's rows.
void rewrite_multimodal_rotary_embedding(Rewriting& r) {
  const bool interleaved = r.flag("interleaved");
  const auto heads = r.int_attr("num_heads", 0, kHeadsOrNone);
  const bool woven = r.int_attr("mrope_layout", 0, {0, 1}) == 1;
  const Ints sections = r.ints_attr("mrope_section", kLengthOrNone);
  if (sections.size() != 3) {
    throw Error(ErrorCode::kInvalidModel, "its mrope_section is no list of three numbers");
  }
  const std::int64_t half = sections[0] + sections[1] + sections[2];
  Tensor stream = Tensor::allocate(DType::kInt64, {half});
  for (std::int64_t d = 0; d < half; ++d) {
    auto& s = stream.data<std::int64_t>()[d];
    if (woven) {
      s = 0;
      for (std::int64_t k = 1; k <= 2; ++k) {
        if (d % 3 == k && d < sections[static_cast<std::size_t>(k)] * 3) s = k;
      }
    } else {
      s = d < sections[0] ? 0 : d < sections[0] + sections[1] ? 1 : 2;
    }
  }
  const ValueId streams = r.constant(std::move(stream));
  const auto rows = [&](std::size_t i) {
    const ValueId all = r.gather(r.need(i), r.need(1));  // (3, B, S, half)
    ValueId chosen = r.gather(all, r.whole(0));
    for (std::int64_t k = 1; k <= 2; ++k) {
      chosen = r.where(r.op("Equal", {streams, r.whole(k)}), r.gather(all, r.whole(k)), chosen);
    }
    return chosen;
  };
  const ValueId cos = rows(2);
  const ValueId sin = rows(3);
  turn_heads(r, heads, r.need(2),
             [&](ValueId x) { return rotated(r, x, cos, sin, {}, interleaved); });
}

// --- GroupQueryAttention ------------------------------------------------------------------------

struct Lengths {
  ValueId total;    // (B, 1): keys of each sentence
  ValueId before;   // (B, 1): of them, those that are past
  ValueId longest;  // (1): rows of the present state
};

// Rows of the past and new ones, one behind the other, then zeros up to the length of the present.
ValueId present_rows(Rewriting& r, ValueId past, ValueId rows, const Lengths& n,
                     std::optional<std::int64_t> batch) {
  if (!past.valid()) return rows;
  const ValueId count = r.shape(rows, 2, 3);
  if (batch == 1) {
    const ValueId before = r.reshape(n.before, {1});
    const ValueId all = r.concat({r.slice_axis(past, r.ints({0}), before, 2), rows}, 2);
    const ValueId missing = r.sub(n.longest, r.add(before, count));
    return r.op("Pad", {all, r.concat({r.ints({0}), missing}), {}, r.ints({2})});
  }
  // Row t of a sentence is row t of its past, or row t - before of the new ones.
  const ValueId at = r.unsqueeze(positions(r, n.longest), {0});
  const ValueId capacity = r.shape(past, 2, 3);
  const ValueId fresh = r.add(r.sub(at, n.before), capacity);
  const ValueId last = r.sub(r.add(capacity, count), r.ints({1}));
  const ValueId row = r.op("Min", {r.where(r.op("Less", {at, n.before}), at, fresh), last});
  const ValueId all = r.transpose(r.concat({past, rows}, 2), {0, 2, 1, 3});
  const ValueId picked =
      r.op("GatherND", {all, r.unsqueeze(row, {2})}, {{"batch_dims", std::int64_t{1}}});
  const ValueId filled = r.unsqueeze(r.op("Less", {at, r.add(n.before, count)}), {2, 3});
  return r.transpose(r.where(filled, picked, r.number(0.0, rows)), {0, 2, 1, 3});
}

void rewrite_group_query_attention(Rewriting& r) {
  const auto heads = r.required_int("num_heads", kHeads);
  const auto kv_heads = r.required_int("kv_num_heads", kHeads);
  const float scale = r.float_attr("scale", 0.0F);
  const float softcap = r.float_attr("softcap", 0.0F);
  const bool rotary = r.flag("do_rotary");
  const bool interleaved = r.flag("rotary_interleaved");
  const auto window = r.int_attr("local_window_size", -1, {-1, kAny.most});
  const bool causal = r.flag("causal", true);
  const bool smooth = r.int_attr("smooth_softmax", -1, kAny) == 1;
  const auto qk_output = r.int_attr("qk_output", 0, {0, 2});
  if (heads % kv_heads != 0) {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("{} heads do not share {} keys", heads, kv_heads));
  }
  if (r.string_attr("k_quant_type", "NONE") != "NONE" ||
      r.string_attr("v_quant_type", "NONE") != "NONE") {
    r.refuse("keys and values that are kept as integers (k_quant_type, v_quant_type)");
  }
  if (r.flag("sliding_window_cache")) r.refuse("sliding_window_cache");
  const ValueId query = r.need(0);
  const auto batch = r.dim(query, 0);
  ValueId q;
  ValueId k;
  ValueId v;
  if (r.input(1).valid()) {
    q = heads_of(r, query, heads);
    k = heads_of(r, r.need(1), kv_heads);
    v = heads_of(r, r.need(2), kv_heads);
  } else {
    const Values parts =
        r.split(heads_of(r, query, heads + 2 * kv_heads), {heads, kv_heads, kv_heads}, 1);
    q = parts[0];
    k = parts[1];
    v = parts[2];
  }
  if (r.input(14).valid() || r.input(15).valid()) {
    const float epsilon = r.float_attr("qk_norm_epsilon", 1e-6F);
    const Attributes attributes{{"axis", std::int64_t{-1}}, {"epsilon", epsilon}};
    q = r.op("RMSNormalization", {q, r.need(14)}, attributes);
    k = r.op("RMSNormalization", {k, r.need(15)}, attributes);
  }
  const ValueId count = r.shape(query, 1, 2);
  const ValueId longest = r.reshape(r.cast(r.need(6), DType::kInt64), {1});
  // One that says more keys than there are means all; engines with integers of 32 bits would add
  // beyond them.
  const ValueId last = r.op(
      "Min", {r.reshape(r.cast(r.need(5), DType::kInt64), {-1, 1}), r.sub(longest, r.ints({1}))});
  const ValueId total = r.add(last, r.ints({1}));
  // The first prompt is as long as everything together; it may be padded at its end.
  const ValueId prompt = r.op("Equal", {count, longest});
  const ValueId before = r.where(prompt, r.ints({0}), r.sub(total, count));
  const ValueId past_key = r.input(3);
  ValueId capacity = longest;
  if (past_key.valid()) capacity = r.op("Max", {longest, r.shape(past_key, 2, 3)});
  const Lengths lengths{total, before, capacity};
  const ValueId query_at = r.add(positions(r, count), before);  // (B, S)
  if (rotary) {
    ValueId ids = r.input(9);
    if (!ids.valid()) {
      // Words of the padding stand at 1.
      ids = r.where(r.op("Less", {query_at, total}), query_at, r.ints({1}));
    }
    q = rotated(r, q, r.need(7), r.need(8), ids, interleaved);
    k = rotated(r, k, r.need(7), r.need(8), ids, interleaved);
  }
  const ValueId keys = present_rows(r, past_key, k, lengths, batch);
  const ValueId values = present_rows(r, r.input(4), v, lengths, batch);
  const bool is_plain = causal && window <= 0 && softcap == 0.0F && !smooth && qk_output == 0 &&
                        !r.input(10).valid() && !r.input(11).valid();
  if (is_plain && past_key.valid() && r.dtype(query) == DType::kFloat32) {
    // A query sees what stands before it. Words of the padding are behind all others.
    const ValueId valid = r.reshape(r.add(before, count), {-1});
    Attributes attributes{{"is_causal", std::int64_t{1}}};
    if (scale != 0.0F) attributes["scale"] = scale;
    const ValueId y = r.op("Attention", {q, keys, values, {}, {}, {}, valid}, attributes);
    return r.finish({joined_heads(r, y), keys, values, {}});
  }
  const ValueId key_at = positions(r, r.shape(keys, 2, 3));  // (T)
  const ValueId row = r.unsqueeze(query_at, {1, 3});         // (B, 1, S, 1)
  ValueId hidden = causal ? r.op("Greater", {key_at, row})
                          : r.op("GreaterOrEqual", {key_at, r.unsqueeze(total, {2, 3})});
  if (window > 0) {
    const ValueId first = r.sub(row, r.whole(window));
    hidden = r.op("Or", {hidden, r.op("LessOrEqual", {key_at, first})});
  }
  Scores s{q, keys, values, heads, kv_heads, scale, softcap};
  s.hidden = hidden;
  if (r.input(10).valid()) {
    // It is as long as the keys that count, the present may be longer.
    const ValueId missing = r.sub(r.shape(keys, 2, 3), r.shape(r.input(10), 3, 4));
    s.mask = r.op("Pad", {r.input(10), r.concat({r.ints({0}), missing}), {}, r.ints({3})});
  }
  if (r.input(11).valid()) {
    s.sink = r.reshape(r.input(11), {-1, 1, 1});
  } else if (smooth) {
    s.sink = r.number(0.0, query);
  }
  const Attended a = attend(r, s);
  ValueId qk;
  if (qk_output == 1) qk = r.where(hidden, r.number(0.0, query), a.scores);
  if (qk_output == 2) qk = a.probabilities;
  // Without the rows of the buffer that hold no key.
  if (qk.valid() && past_key.valid()) qk = r.slice_axis(qk, {}, longest, 3);
  r.finish({a.y, keys, values, qk});
}

// --- states that are not keys -------------------------------------------------------------------

void rewrite_linear_attention(Rewriting& r) {
  if (r.flag("state_window")) r.refuse("state_window");
  const float scale = r.float_attr("scale", 0.0F);
  if (scale != 0.0F) r.attributes()["scale"] = scale;
  r.become("LinearAttention", {r.need(0), r.need(1), r.need(2), r.input(3), r.input(4), r.input(5)},
           std::move(r.attributes()));
}

void rewrite_linear_attention_gate(Rewriting& r) {
  const ValueId a = r.cast(r.need(0), DType::kFloat32);
  const ValueId decay = r.mul(r.op("Softplus", {r.add(a, r.need(1))}), r.need(2));
  ValueId beta;
  if (r.wants(1)) beta = r.op("Sigmoid", {r.need(3)});
  r.finish({r.cast_like(decay, r.need(0)), beta});
}

// The state in front of the input, one filter a channel; the last rows are the next state.
void rewrite_causal_conv(Rewriting& r) {
  const auto axes = r.int_attr("ndim", 1, kAny);
  const bool last = r.flag("channels_last");
  const auto dilation = r.int_attr("dilation", 1, kLength);
  const std::string activation = r.string_attr("activation", "none");
  if (axes != 1 || r.flag("state_window")) r.refuse("ndim above 1, or state_window");
  const ValueId weight = r.need(1);
  const auto channels = r.dim(weight, 0);
  // Channels in the last place may be several axes. An empty state has no -1.
  const auto first = [&](ValueId v) {
    if (r.rank(v) != 3U) {
      const ValueId count = r.reduce("ReduceProd", r.shape(v, 2), {0});
      v = r.reshape_to(v, r.concat({r.shape(v, 0, 2), count}));
    }
    return r.transpose(v, {0, 2, 1});
  };
  const ValueId input = r.need(0);
  const ValueId x = last ? first(input) : input;
  const ValueId rows = r.mul(r.sub(r.shape(weight, 2, 3), r.ints({1})), r.ints({dilation}));
  ValueId state;
  if (r.input(3).valid()) {
    state = last ? first(r.input(3)) : r.input(3);
  } else {
    state = r.op("Expand", {r.number(0.0, x), r.concat({r.shape(x, 0, 2), rows})});
  }
  const ValueId all = r.concat({state, x}, 2);
  ValueId y;
  if (channels) {
    y = r.op("Conv", {all, weight, r.input(2)},
             {{"group", *channels}, {"dilations", Ints{dilation}}});
  } else {
    // Conv names the number of groups: the windows of every place, (B, C, L, K), instead.
    const ValueId places = r.unsqueeze(r.range(r.size(x, 2)), {1});
    const ValueId taps = r.mul(r.range(r.size(weight, 2)), r.whole(dilation));
    const ValueId windows = r.gather(all, r.add(places, taps), 2);
    y = r.reduce("ReduceSum", r.mul(windows, weight), {-1}, /*keep=*/false);
    if (r.input(2).valid()) y = r.add(y, r.unsqueeze(r.input(2), {1}));
  }
  if (activation == "silu" || activation == "swish") {
    y = r.mul(y, r.op("Sigmoid", {y}));
  } else if (activation != "none") {
    r.refuse("the activation '" + activation + "' is not known");
  }
  ValueId present = r.slice_axis(all, r.shape(x, 2, 3), {}, 2);
  if (last) {
    y = r.reshape_to(r.transpose(y, {0, 2, 1}), r.shape(input));
    present = r.reshape_to(r.transpose(present, {0, 2, 1}),
                           r.concat({r.shape(input, 0, 1), rows, r.shape(input, 2)}));
  }
  r.finish({y, present});
}

constexpr auto kAttention = std::to_array<Entry>({
    {kMicrosoft, "Attention", rewrite_attention},
    {kMicrosoft, "CausalConvWithState", rewrite_causal_conv},
    {kMicrosoft, "DecoderMaskedMultiHeadAttention", rewrite_decoder_masked_multi_head_attention},
    {kMicrosoft, "GroupQueryAttention", rewrite_group_query_attention},
    {kMicrosoft, "LinearAttention", rewrite_linear_attention},
    {kMicrosoft, "LinearAttentionGate", rewrite_linear_attention_gate},
    {kMicrosoft, "MRotaryEmbedding", rewrite_multimodal_rotary_embedding},
    {kMicrosoft, "MultiHeadAttention", rewrite_multi_head_attention},
    {kMicrosoft, "QAttention", rewrite_quantised_attention},
    {kMicrosoft, "RotaryEmbedding", rewrite_rotary_embedding},
});

}  // namespace

std::span<const Entry> attention_ops() { return kAttention; }

}  // namespace xrt::contributed
