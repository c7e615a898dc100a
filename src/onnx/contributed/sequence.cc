// SPDX-License-Identifier: Apache-2.0
// Words and tokens: embeddings of words, repeated n-grams, hashes.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <limits>

#include "onnx/contributed/rewriting.h"
#include "xrt/error.h"

namespace xrt::contributed {
namespace {

// A word's letters, looked up, convolved, and the largest of each filter's answers.
void rewrite_word_conv_embedding(Rewriting& r) {
  const ValueId letters = r.need(0);  // (words, longest)
  const ValueId filters = r.need(1);  // (M, 1, width, size)
  const ValueId zero = r.cast_like(r.whole(0), letters);
  const ValueId is_letter = r.cast(r.op("Greater", {letters, zero}), DType::kInt64);
  const ValueId count = r.mul(r.reduce("ReduceSum", is_letter, {1}),
                              r.slice(is_letter, {0}, {1}, {1}));  // (words, 1)
  const ValueId width = r.shape(filters, 2, 3);
  const ValueId rows = r.unsqueeze(r.gather(r.need(3), letters), {1});
  const ValueId answers = r.op("Tanh", {r.op("Conv", {rows, filters, r.need(2)})});
  const ValueId found = r.squeeze(answers, {3});  // (words, M, places)
  // A window holds a letter, or is the first one.
  const ValueId last = r.sub(r.op("Max", {count, width}), width);
  const ValueId at = r.range(r.size(found, 2));
  const ValueId inside = r.unsqueeze(r.op("LessOrEqual", {at, last}), {1});
  const ValueId kept = r.where(inside, found, r.number(-1e12, found));
  r.finish({r.reduce("ReduceMax", kept, {2}, /*keep=*/false)});
}

void rewrite_ngram_repeat_block(Rewriting& r) {
  const auto n = r.required_int("ngram_size", kNGram);
  r.finish({block_repeats(r, r.need(0), r.need(1), n)});
}

// Predicted words up to the first that is not the source's follow the current ones; then the place
// in the source behind the only occurrence of the last words.
void rewrite_bifurcation_detector(Rewriting& r) {
  const auto least = r.int_attr("min_ngram_size", 1, kNGram);
  const auto most = r.int_attr("max_ngram_size", 3, kNGram);
  const ValueId source = r.need(0);
  ValueId words = r.need(1);
  const ValueId length = r.shape(source);
  if (r.input(3).valid()) {
    const ValueId predicted = r.input(3);
    const ValueId rest = r.slice_axis(source, r.reshape(r.need(2), {1}), {}, 0);
    const ValueId known = r.slice_axis(predicted, {}, r.shape(rest), 0);
    // The first that differs, or one behind the end.
    const ValueId differs = r.cast(r.op("Not", {r.op("Equal", {rest, known})}), DType::kInt64);
    const ValueId first = r.op("ArgMax", {r.concat({differs, r.ints({1})})},
                               {{"axis", std::int64_t{0}}, {"keepdims", std::int64_t{1}}});
    words = r.concat({words, r.slice_axis(predicted, {}, r.add(first, r.ints({1})), 0)});
  }
  const ValueId at = r.range(r.squeeze(length, {0}));
  ValueId found = r.ints({-1});
  ValueId over = r.op("Less", {r.ints({0}), r.ints({0})});
  for (std::int64_t n = least; n <= most; ++n) {
    const ValueId around = r.ints(Ints(static_cast<std::size_t>(n), 0));
    const ValueId tail =
        r.slice(r.concat({around, words}), {-n}, {std::numeric_limits<std::int64_t>::max()}, {0});
    const ValueId padded = r.concat({source, around});
    ValueId same = r.op("LessOrEqual", {at, r.sub(length, r.ints({n}))});
    for (std::int64_t k = 0; k < n; ++k) {
      const ValueId word = r.slice_axis(padded, r.ints({k}), r.add(length, r.ints({k})), 0);
      same = r.op("And", {same, r.op("Equal", {word, r.slice(tail, {k}, {k + 1}, {0})})});
    }
    const ValueId marks = r.concat({r.cast(same, DType::kInt64), r.ints({0})});
    const ValueId times = r.reduce("ReduceSum", marks, {0});
    const ValueId behind =
        r.add(r.op("ArgMax", {marks}, {{"axis", std::int64_t{0}}, {"keepdims", std::int64_t{1}}}),
              r.ints({n}));
    const ValueId missing = r.op(
        "Or", {r.op("Less", {r.shape(words), r.ints({n})}), r.op("Equal", {times, r.ints({0})})});
    const ValueId at_end = r.op("GreaterOrEqual", {behind, length});
    const ValueId several = r.op("Greater", {times, r.ints({1})});
    const ValueId here =
        r.where(r.op("And", {several, r.op("Not", {at_end})}), r.ints({-1}), behind);
    over = r.op("Or", {over, missing});
    found = r.where(over, found, here);
    over = r.op("Or", {over, at_end});
  }
  r.finish({words, r.reshape_to(found, r.shape(r.need(2)))});
}

// MurmurHash3_x86_32 of the bytes of each element.
void rewrite_murmur_hash(Rewriting& r) {
  const bool positive = r.flag("positive", true);
  const auto seed = r.int_attr("seed", 0, kAny);
  const ValueId x = r.need(0);
  const DType type = r.dtype(x);
  const auto u32 = [&](std::uint32_t number) {
    return r.constant(Tensor::from<std::uint32_t>(DType::kUInt32, {},
                                                  std::span<const std::uint32_t>(&number, 1)));
  };
  const auto shift = [&](ValueId v, std::uint32_t bits, const char* direction) {
    return r.op("BitShift", {v, u32(bits)}, {{"direction", std::string(direction)}});
  };
  const auto turned = [&](ValueId v, std::uint32_t bits) {
    return r.op("BitwiseOr", {shift(v, bits, "LEFT"), shift(v, 32 - bits, "RIGHT")});
  };
  const auto as = [&](ValueId v, DType to) {
    return r.dtype(v) == to ? v : r.op("BitCast", {v}, {{"to", static_cast<std::int64_t>(to)}});
  };
  Values blocks;
  if (type == DType::kInt32 || type == DType::kUInt32 || type == DType::kFloat32) {
    blocks = {as(x, DType::kUInt32)};
  } else if (type == DType::kInt64 || type == DType::kUInt64 || type == DType::kFloat64) {
    const ValueId whole = as(x, DType::kUInt64);
    const auto u64 = [&](std::uint64_t number) {
      return r.constant(Tensor::from<std::uint64_t>(DType::kUInt64, {},
                                                    std::span<const std::uint64_t>(&number, 1)));
    };
    blocks = {r.cast(r.op("BitwiseAnd", {whole, u64(0xffffffffU)}), DType::kUInt32),
              r.cast(r.op("BitShift", {whole, u64(32)}, {{"direction", std::string("RIGHT")}}),
                     DType::kUInt32)};
  } else {
    r.refuse("hashes of strings, whose bytes no op of the standard reads, or of an unknown type");
  }
  ValueId h = u32(static_cast<std::uint32_t>(seed));
  for (ValueId k : blocks) {
    k = r.mul(turned(r.mul(k, u32(0xcc9e2d51U)), 15), u32(0x1b873593U));
    h = turned(r.op("BitwiseXor", {h, k}), 13);
    h = r.add(r.mul(h, u32(5)), u32(0xe6546b64U));
  }
  h = r.op("BitwiseXor", {h, u32(static_cast<std::uint32_t>(4 * blocks.size()))});
  h = r.op("BitwiseXor", {h, shift(h, 16, "RIGHT")});
  h = r.mul(h, u32(0x85ebca6bU));
  h = r.op("BitwiseXor", {h, shift(h, 13, "RIGHT")});
  h = r.mul(h, u32(0xc2b2ae35U));
  h = r.op("BitwiseXor", {h, shift(h, 16, "RIGHT")});
  r.finish({positive ? h : as(h, DType::kInt32)});
}

struct NGrams {
  std::int64_t longest = 0, heads = 0, pad = 0;
  bool reset = false;
  std::int64_t history() const { return longest - 1; }
};

NGrams read_ngrams(Rewriting& r) {
  NGrams n;
  n.longest = r.required_int("max_ngram_size", {2, kNGram.most});
  n.heads = r.required_int("n_head_per_ngram", kLength);
  n.pad = r.required_int("pad_id", kAny);
  n.reset = r.flag("reset_on_eos");
  return n;
}

// For n = 2 … N: the last n words, each times its factor, by exclusive or; modulo the sizes of the
// heads of that n. `word(k)` is the one k places before each place, `border(k)` whether one lies
// between that and the next, or invalid.
template <typename Word, typename Border>
ValueId ngram_hashes(Rewriting& r, const NGrams& n, const Word& word, const Border& border,
                     ValueId filler, ValueId offsets) {
  const ValueId factors = r.need(1);
  Values hashes;
  ValueId mix;
  ValueId crossed;
  for (std::int64_t k = 0; k < n.longest; ++k) {
    ValueId here = word(k);
    const ValueId mark = k == 0 ? ValueId{} : border(k);
    if (mark.valid()) crossed = crossed.valid() ? r.op("Or", {crossed, mark}) : mark;
    if (crossed.valid()) here = r.where(crossed, filler, here);
    const ValueId term = r.mul(here, r.gather(factors, r.whole(k)));
    mix = k == 0 ? term : r.op("BitwiseXor", {mix, term});
    if (k == 0) continue;
    const ValueId moduli = r.slice(r.need(2), {(k - 1) * n.heads}, {k * n.heads}, {0});
    hashes.push_back(r.op("Mod", {r.unsqueeze(mix, {-1}), moduli}));
  }
  const ValueId y = r.concat(hashes, -1);
  return offsets.valid() ? r.add(y, offsets) : y;
}

ValueId either(Rewriting& r, ValueId a, ValueId b) {
  if (!a.valid()) return b;
  return b.valid() ? r.op("Or", {a, b}) : a;
}

void rewrite_ngram_hash_mapping(Rewriting& r) {
  const NGrams n = read_ngrams(r);
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  const ValueId ids = r.need(0);  // (B, S)
  const ValueId eos = r.input(5).valid() ? r.reshape_to(r.input(5), r.ints({})) : ValueId{};
  const ValueId filler = eos.valid() ? eos : r.cast_like(r.whole(n.pad), ids);
  const ValueId batch = r.shape(ids, 0, 1);
  ValueId past = r.input(3);
  if (!past.valid()) past = r.op("Expand", {filler, r.concat({batch, r.ints({n.history()})})});
  const ValueId all = r.concat({past, ids}, 1);
  const ValueId count = r.shape(ids, 1, 2);
  const auto back = [&](ValueId v, std::int64_t k) {
    const ValueId from = r.ints({n.history() - k});
    return r.slice_axis(v, from, r.add(from, count), 1);
  };
  ValueId changes;  // at a word whose segment is not that of the word before it, in this call
  if (r.input(6).valid()) {
    const ValueId segments = r.input(6);
    const ValueId same =
        r.op("Equal", {r.slice(segments, {1}, {kEnd}, {1}), r.slice(segments, {0}, {-1}, {1})});
    const ValueId none = r.cast(r.ints({0}), DType::kBool);
    const ValueId front = r.op("Expand", {none, r.concat({batch, r.ints({n.longest})})});
    changes = r.concat({front, r.op("Not", {same})}, 1);
  }
  const auto word = [&](std::int64_t k) { return back(all, k); };
  const auto border = [&](std::int64_t k) {
    return either(r, n.reset && eos.valid() ? r.op("Equal", {back(all, k), eos}) : ValueId{},
                  changes.valid() ? back(changes, k - 1) : ValueId{});
  };
  r.finish({ngram_hashes(r, n, word, border, filler, r.input(4)),
            r.slice(all, {-n.history()}, {kEnd}, {1})});
}

// Sentences one behind the other, with the places where they begin.
void rewrite_varlen_ngram_hash_mapping(Rewriting& r) {
  const NGrams n = read_ngrams(r);
  if (r.flag("state_update_capacity")) r.refuse("state_update_capacity");
  const ValueId ids = r.need(0);
  const ValueId eos = r.input(6).valid() ? r.reshape_to(r.input(6), r.ints({})) : ValueId{};
  const ValueId filler = eos.valid() ? eos : r.cast_like(r.whole(n.pad), ids);
  const ValueId borders = r.cast(r.need(3), DType::kInt64);  // (B + 1)
  const ValueId batch = r.sub(r.shape(borders), r.ints({1}));
  const ValueId history = r.ints({n.history()});
  const ValueId history_shape = r.concat({batch, history});
  const ValueId ends = r.slice(borders, {1}, {std::numeric_limits<std::int64_t>::max()}, {0});
  const ValueId at = r.range(r.squeeze(r.shape(ids), {0}));
  const ValueId passed =
      r.cast(r.op("GreaterOrEqual", {r.unsqueeze(at, {1}), ends}), DType::kInt64);
  const ValueId sentence = r.reduce("ReduceSum", passed, {1}, /*keep=*/false);
  const ValueId start = r.gather(borders, sentence);
  const ValueId held = r.mul(batch, history);
  // Where a place lies in a table of all pasts, then all words.
  const auto place = [&](ValueId where, ValueId whose, ValueId begin) {
    const ValueId before = r.add(r.mul(r.add(whose, r.ints({1})), history), r.sub(where, begin));
    return r.where(r.op("GreaterOrEqual", {where, begin}), r.add(where, held), before);
  };
  const auto table_of = [&](ValueId past, ValueId now, ValueId fill) {
    if (!past.valid()) past = r.op("Expand", {fill, history_shape});
    return r.concat({r.reshape(past, {-1}), now});
  };
  const ValueId words = table_of(r.input(4), ids, filler);
  const auto back = [&](ValueId table, std::int64_t k) {
    return r.gather(table, place(r.sub(at, r.ints({k})), sentence, start));
  };
  ValueId segments;
  if (r.input(7).valid()) {
    segments = table_of(r.input(8), r.input(7), r.cast(r.ints({0}), DType::kInt32));
  }
  const auto word = [&](std::int64_t k) { return back(words, k); };
  const auto border = [&](std::int64_t k) {
    ValueId change;
    if (segments.valid()) {
      change = r.op("Not", {r.op("Equal", {back(segments, k), back(segments, k - 1)})});
      if (!r.input(8).valid()) {
        const ValueId inside = r.op("GreaterOrEqual", {r.sub(at, r.ints({k})), start});
        change = r.op("And", {change, inside});
      }
    }
    return either(r, n.reset && eos.valid() ? r.op("Equal", {back(words, k), eos}) : ValueId{},
                  change);
  };
  const ValueId y = ngram_hashes(r, n, word, border, filler, r.input(5));
  const auto last_of = [&](ValueId table) {
    const ValueId rows = r.unsqueeze(r.range(r.squeeze(batch, {0})), {1});
    const ValueId steps = r.sub(r.range(r.whole(n.history())), history);
    const ValueId where = r.add(r.unsqueeze(ends, {1}), steps);
    const ValueId begins = r.unsqueeze(r.slice(borders, {0}, {-1}, {0}), {1});
    return r.gather(table, place(where, rows, begins));
  };
  const ValueId present = r.wants(1) ? last_of(words) : ValueId{};
  const ValueId present_segments = r.wants(2) && segments.valid() ? last_of(segments) : ValueId{};
  r.finish({y, present, present_segments});
}

constexpr auto kSequence = std::to_array<Entry>({
    {kMicrosoft, "BifurcationDetector", rewrite_bifurcation_detector},
    {kMicrosoft, "MurmurHash3", rewrite_murmur_hash},
    {kMicrosoft, "NGramHashMapping", rewrite_ngram_hash_mapping},
    {kMicrosoft, "NGramRepeatBlock", rewrite_ngram_repeat_block},
    {kMicrosoft, "VarlenNGramHashMapping", rewrite_varlen_ngram_hash_mapping},
    {kMicrosoft, "WordConvEmbedding", rewrite_word_conv_embedding},
});

}  // namespace

ValueId block_repeats(Rewriting& r, ValueId ids, ValueId scores, std::int64_t n) {
  // Where n-grams may begin: 0 … length - n.
  const ValueId windows = r.op("Max", {r.sub(r.shape(ids, 1, 2), r.ints({n - 1})), r.ints({0})});
  ValueId repeats;
  for (std::int64_t k = 0; k + 1 < n; ++k) {
    const ValueId word = r.slice_axis(ids, r.ints({k}), r.add(windows, r.ints({k})), 1);
    const ValueId at = r.add(windows, r.ints({k}));
    const ValueId last = r.slice_axis(ids, at, r.add(at, r.ints({1})), 1);
    const ValueId same = r.op("Equal", {word, last});
    repeats = repeats.valid() ? r.op("And", {repeats, same}) : same;
  }
  const ValueId ends = r.slice_axis(ids, r.ints({n - 1}), r.add(windows, r.ints({n - 1})), 1);
  const double infinity = std::numeric_limits<double>::infinity();
  ValueId updates;
  if (repeats.valid()) {
    updates = r.where(repeats, r.number(-infinity, scores), r.number(infinity, scores));
  } else {
    updates = r.op("Expand", {r.number(-infinity, scores), r.shape(ends)});
  }
  return r.op("ScatterElements", {scores, ends, updates},
              {{"axis", std::int64_t{1}}, {"reduction", std::string("min")}});
}

std::span<const Entry> sequence_ops() { return kSequence; }

}  // namespace xrt::contributed
