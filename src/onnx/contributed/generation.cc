// SPDX-License-Identifier: Apache-2.0
// Ops that run a language model to the end of a text: a Loop around it.
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "onnx/contributed/rewriting.h"
#include "xrt/error.h"

namespace xrt::contributed {
namespace {

constexpr std::size_t kFixedInputs = 3;  // words, positions and mask, before the past of the layers

using Captured = std::function<ValueId(ValueId)>;

// What one step of the model hands to the next. Words are int32.
struct Text {
  ValueId words;      // (B, T): those so far
  ValueId fed;        // (B, S): those that the model has not seen
  ValueId positions;  // (B, S)
  ValueId mask;       // (B, T): 0 for words that are padding
  ValueId next;       // (B, 1): the position of the next word
  ValueId ended;      // (B, 1), bool
  Values past;        // (2, B, heads, T - S, head) of each layer

  static constexpr std::size_t kStates = 6;  // before the past
  Values values() const {
    Values all{words, fed, positions, mask, next, ended};
    all.insert(all.end(), past.begin(), past.end());
    return all;
  }
  static Text of(const Values& v) {
    return {v[0], v[1], v[2], v[3], v[4], v[5], {v.begin() + kStates, v.end()}};
  }
};

// What decides which word is the next one; the values are those of the graph that the step is in.
struct Choice {
  std::int64_t end = 0, padding = 0, repeats = 0;
  ValueId least, penalty, vocabulary, first;  // invalid where not given
};

ValueId int32(Rewriting& r, std::int64_t value) {
  const auto number = static_cast<std::int32_t>(value);
  return r.constant(
      Tensor::from<std::int32_t>(DType::kInt32, {}, std::span<const std::int32_t>(&number, 1)));
}

// Words that are there already count less: a score above 0 is divided, one below multiplied.
ValueId penalized(Rewriting& r, ValueId scores, ValueId words, ValueId penalty) {
  const ValueId places = r.cast(words, DType::kInt64);
  const Attributes along{{"axis", std::int64_t{1}}};
  const ValueId old = r.op("GatherElements", {scores, places}, along);
  const ValueId is_negative = r.op("Less", {old, r.float_number(0)});
  const ValueId now = r.where(is_negative, r.mul(old, penalty), r.div(old, penalty));
  return r.op("ScatterElements", {scores, places, now}, along);
}

// Scores (B, V), float32, in which words that are not allowed are the least likely.
ValueId allowed(Rewriting& r, ValueId scores, const Text& text, const Choice& choice,
                ValueId is_first) {
  const ValueId never = r.float_number(std::numeric_limits<float>::lowest());
  const auto is_zero = [&](ValueId v) { return r.op("Equal", {v, int32(r, 0)}); };
  if (choice.penalty.valid()) scores = penalized(r, scores, text.words, choice.penalty);
  if (choice.repeats > 0) scores = block_repeats(r, text.words, scores, choice.repeats);
  if (choice.vocabulary.valid()) scores = r.where(is_zero(choice.vocabulary), never, scores);
  if (choice.first.valid()) {
    scores = r.where(r.op("And", {is_zero(choice.first), is_first}), never, scores);
  }
  if (choice.least.valid()) {
    const ValueId is_short = r.op("Less", {r.shape(text.words, 1, 2), choice.least});
    const ValueId is_end = r.op("Equal", {r.range(r.size(scores, 1)), r.whole(choice.end)});
    scores = r.where(r.op("And", {is_short, is_end}), never, scores);
  }
  return scores;
}

// What the model says of the next word: scores (B, V), float32, and the past with the words fed.
struct Answer {
  ValueId scores;
  Values present;
};

Answer ask(Rewriting& r, const Graph& model, const Captured& captured, const Text& text) {
  Values inputs{text.fed, text.positions, text.mask};
  inputs.insert(inputs.end(), text.past.begin(), text.past.end());
  const Values outputs = r.call(model, inputs, captured);
  return {r.cast(r.gather(outputs[0], r.whole(-1), 1), DType::kFloat32),
          {outputs.begin() + 1, outputs.end()}};
}

// The text with one word (B, 1) more.
Text append(Rewriting& r, const Text& text, ValueId word, ValueId ended, Values present) {
  const ValueId one = r.op("Expand", {int32(r, 1), r.shape(word)});
  return {r.concat({text.words, word}, 1), word,  text.next,         r.concat({text.mask, one}, 1),
          r.add(text.next, one),           ended, std::move(present)};
}

// With the likeliest word; a text that has ended gets padding, also for the word that ends it.
Text advance(Rewriting& r, const Graph& model, const Captured& captured, const Text& text,
             const Choice& choice, ValueId is_first) {
  Answer answer = ask(r, model, captured, text);
  const ValueId scores = allowed(r, answer.scores, text, choice, is_first);
  const ValueId place =
      r.op("ArgMax", {scores}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{1}}});
  const ValueId likeliest = r.cast(place, DType::kInt32);
  const ValueId ended = r.op("Or", {text.ended, r.op("Equal", {likeliest, int32(r, choice.end)})});
  const ValueId word = r.where(ended, int32(r, choice.padding), likeliest);
  return append(r, text, word, ended, std::move(answer.present));
}

void check_model(const Rewriting& r, const Graph& model, const char* name) {
  const std::size_t given = model.inputs().size(), made = model.outputs().size();
  if (given <= kFixedInputs || made != given - kFixedInputs + 1) {
    r.refuse(std::string("its graph '") + name +
             "' does not take words, positions, a mask and the past of its layers, and give scores "
             "and their present");
  }
}

// No words yet.
ValueId empty_past(Rewriting& r, const Type& type, ValueId batch) {
  const bool is_known = type.has_rank() && type.rank() == 5 && (*type.shape)[2].is_known() &&
                        (*type.shape)[4].is_known();
  if (!is_known) r.refuse("the sizes of the heads of its past are not declared");
  const ValueId shape = r.concat(
      {r.ints({2}), batch, r.ints({(*type.shape)[2].value(), 0, (*type.shape)[4].value()})});
  return r.cast(r.op("ConstantOfShape", {shape}), type.dtype);
}

Text beginning(Rewriting& r, const Graph& model, std::size_t mask_input, std::int64_t padding) {
  const ValueId words = r.need(0);
  // Positions count the words that are no padding, whatever mask is given.
  const ValueId counted =
      r.cast(r.op("Not", {r.op("Equal", {words, int32(r, padding)})}), DType::kInt32);
  const ValueId mask = r.input(mask_input).valid() ? r.input(mask_input) : counted;
  const ValueId counts = r.op("CumSum", {counted, r.whole(1)});
  const ValueId batch = r.shape(words, 0, 1);
  const ValueId rows = r.concat({batch, r.ints({1})});
  Text text{words,
            words,
            r.mul(r.sub(counts, int32(r, 1)), counted),
            mask,
            r.reduce("ReduceSum", counted, {1}),
            r.cast(r.op("Expand", {int32(r, 0), rows}), DType::kBool),
            {}};
  for (std::size_t i = kFixedInputs; i < model.inputs().size(); ++i) {
    text.past.push_back(empty_past(r, model.type(model.inputs()[i]), batch));
  }
  return text;
}

// The attributes that all have, and the operands from `least` on: the length before which no text
// ends, the penalty of words that are there, and the masks of words.
Choice read_choice(Rewriting& r, std::size_t least, std::size_t penalty) {
  if (r.int_attr("model_type", 0) != 0) {
    r.refuse("a model of an encoder and a decoder: load the two and write the loop outside");
  }
  Choice choice;
  choice.end = r.required_int("eos_token_id");
  choice.padding = r.required_int("pad_token_id");
  choice.repeats = r.int_attr("no_repeat_ngram_size", 0);
  const ValueId length = r.input(least), factor = r.input(penalty);
  if (length.valid()) choice.least = r.cast(r.reshape(length, {1}), DType::kInt64);
  if (factor.valid()) choice.penalty = r.reshape(factor, {});
  choice.vocabulary = r.input(penalty + 1);
  choice.first = r.input(penalty + 2);
  return choice;
}

ValueId truth(Rewriting& r, bool value) { return r.cast(int32(r, value ? 1 : 0), DType::kBool); }

// The body of the Loop around a model while it is built.
struct Steps {
  std::unique_ptr<Body> body;
  Captured captured;
  ValueId step;
  Text text;

  Steps(Rewriting& r, const Graph& model) : body(r.new_body("generate")) {
    captured = [this, &r](ValueId outer) {
      return outer.valid() ? body->capture(r.graph(), outer) : outer;
    };
    step = body->graph.add_input("step", Type::tensor(DType::kInt64, Shape{}));
    body->graph.add_input("go", Type::tensor(DType::kBool, Shape{}));
    Values states;
    for (const char* name : {"words", "fed", "positions", "mask", "next"}) {
      states.push_back(state(name, DType::kInt32, Shape{Dim(), Dim()}));
    }
    states.push_back(state("ended", DType::kBool, Shape{Dim(), Dim()}));
    for (std::size_t i = kFixedInputs; i < model.inputs().size(); ++i) {
      const Type& past = model.type(model.inputs()[i]);
      Shape shape{Dim(2), Dim(), (*past.shape)[2], Dim(), (*past.shape)[4]};
      states.push_back(
          state("past" + std::to_string(i - kFixedInputs), past.dtype, std::move(shape)));
    }
    text = Text::of(states);
  }

  ValueId state(const std::string& name, DType dtype, Shape shape) const {
    return body->graph.add_input(name, Type::tensor(dtype, std::move(shape)));
  }
  // `choice` with the body's values; the words of the first step are allowed elsewhere if
  // `has_first`.
  Choice inside(Choice choice, bool has_first) const {
    for (ValueId* v : {&choice.least, &choice.penalty, &choice.vocabulary}) *v = captured(*v);
    choice.first = has_first ? ValueId{} : captured(choice.first);
    return choice;
  }
  // Ends with the states after the step, and whether all texts have ended.
  void finish(Rewriting& b, const Values& states, ValueId ended) const {
    const ValueId flags = b.reshape(b.cast(ended, DType::kInt32), {-1});
    const ValueId all = b.reduce("ReduceMin", flags, {0}, /*keep=*/false);
    body->graph.add_output(b.op("Not", {b.cast(all, DType::kBool)}));
    for (const ValueId v : states) body->graph.add_output(v);
  }
};

// Rows (R, T) of words with padding behind them, up to `most` (int64, rank 0).
ValueId padded(Rewriting& r, ValueId words, ValueId most, std::int64_t padding) {
  const ValueId left = r.op("Max", {r.sub(most, r.size(words, 1)), r.whole(0)});
  const ValueId rest = r.concat({r.shape(words, 0, 1), r.reshape(left, {1})});
  return r.concat({words, r.op("Expand", {int32(r, padding), rest})}, 1);
}

// Always the likeliest word, until all texts have ended or are as long as is wanted.
void rewrite_greedy_search(Rewriting& r) {
  const Choice choice = read_choice(r, 2, 3);
  const ValueId most = r.cast(r.reshape(r.need(1), {}), DType::kInt64);
  const auto model = r.required_graph("decoder");
  check_model(r, *model, "decoder");
  Text text = beginning(r, *model, 6, choice.padding);
  ValueId trips = r.sub(most, r.size(text.words, 1));
  const bool has_first = r.has_attr("init_decoder");
  if (has_first) {
    const auto first = r.required_graph("init_decoder");
    check_model(r, *first, "init_decoder");
    text = advance(
        r, *first, [](ValueId v) { return v; }, text, choice, truth(r, true));
    trips = r.sub(trips, r.whole(1));
  }
  const Steps steps(r, *model);
  Rewriting b = steps.body->rewriting();
  const ValueId is_first = b.op("Equal", {steps.step, b.whole(0)});
  const Text after =
      advance(b, *model, steps.captured, steps.text, steps.inside(choice, has_first), is_first);
  steps.finish(b, after.values(), after.ended);
  const ValueId words = r.loop(*steps.body, trips, text.values())[0];
  r.finish({padded(r, words, most, choice.padding)});
}

// --- beams --------------------------------------------------------------------------------------

// The likeliest texts that have ended, the best first: words (B, K, most) and scores (B, K), minus
// infinity where there is none yet. K: the number of beams.
struct Ended {
  ValueId words, scores;
};

// What a search by beams knows besides; the values are those of the graph that the step is in.
struct Beams {
  ValueId count;   // K: int64, rank 0
  ValueId most;    // length of a text: int64, rank 0
  ValueId weight;  // of the length: float32, rank 0
  std::int64_t padding = 0;
  bool is_early = false;
};

std::pair<ValueId, ValueId> largest(Rewriting& r, ValueId scores, ValueId count) {
  const Values found =
      r.ops("TopK", {scores, r.reshape(count, {1})}, 2, {{"axis", std::int64_t{1}}});
  return {found[0], found[1]};
}

ValueId at_places(Rewriting& r, ValueId values, ValueId places) {
  return r.op("GatherElements", {values, places}, {{"axis", std::int64_t{1}}});
}

// Rows of (B * K, …) for beams (B, n) of each text.
ValueId rows_of(Rewriting& r, const Beams& beams, ValueId chosen) {
  const ValueId texts = r.unsqueeze(r.range(r.size(chosen, 0)), {1});
  return r.reshape(r.add(r.mul(texts, beams.count), chosen), {-1});
}

// A sum of logarithms as a score: longer texts have lower sums.
ValueId by_length(Rewriting& r, const Beams& beams, ValueId sums, ValueId words) {
  const ValueId length = r.cast(r.size(words, 1), DType::kFloat32);
  return r.div(sums, r.op("Pow", {length, beams.weight}));
}

// With K texts more, `words` (B * K, T) and `scores` (B, K), of which those of minus infinity do
// not count.
Ended with_texts(Rewriting& r, const Beams& beams, const Ended& ended, ValueId words,
                 ValueId scores) {
  const ValueId shape =
      r.concat({r.ints({-1}), r.reshape(beams.count, {1}), r.reshape(beams.most, {1})});
  const ValueId more = r.reshape_to(padded(r, words, beams.most, beams.padding), shape);
  const ValueId all = r.concat({ended.words, more}, 1);
  const auto [best, places] = largest(r, r.concat({ended.scores, scores}, 1), beams.count);
  const ValueId kept =
      r.op("GatherND", {all, r.unsqueeze(places, {2})}, {{"batch_dims", std::int64_t{1}}});
  return {kept, best};
}

// The K likeliest texts go on, until for each prompt K have ended and no other can be better.
void rewrite_beam_search(Rewriting& r) {
  Choice choice = read_choice(r, 2, 6);
  if (r.wants(2)) r.refuse("the scores of every step (its third output)");
  if (r.has_attr("init_decoder")) r.refuse("a graph of its own for the first step");
  const auto model = r.required_graph("decoder");
  check_model(r, *model, "decoder");
  const auto number = [&](std::size_t i) {
    return r.cast(r.reshape(r.need(i), {}), DType::kInt64);
  };
  Beams beams;
  beams.most = number(1);
  beams.count = number(3);
  beams.weight = r.input(5).valid() ? r.reshape(r.input(5), {}) : r.float_number(1);
  beams.padding = choice.padding;
  beams.is_early = r.int_attr("early_stopping", 0) == 1;
  const float infinity = std::numeric_limits<float>::infinity();

  // Each prompt K times; at first all but one of the K are out of the question.
  const Text once = beginning(r, *model, 9, choice.padding);
  const ValueId batch = r.shape(once.words, 0, 1);
  const ValueId count = r.reshape(beams.count, {1});
  const ValueId table = r.concat({batch, count});
  const ValueId texts = r.unsqueeze(r.range(r.size(once.words, 0)), {1});
  const ValueId rows = r.reshape(r.op("Expand", {texts, table}), {-1});
  Text text = once;
  for (ValueId* v : {&text.words, &text.fed, &text.positions, &text.mask, &text.next}) {
    *v = r.gather(*v, rows);
  }
  for (ValueId& past : text.past) past = r.gather(past, rows, 1);
  if (choice.first.valid()) choice.first = r.gather(choice.first, rows);
  const ValueId is_one = r.op("Equal", {r.range(beams.count), r.whole(0)});
  const ValueId sums =
      r.op("Expand", {r.where(is_one, r.float_number(0), r.float_number(-1e9F)), table});
  Values begin = text.values();
  begin.push_back(sums);
  begin.push_back(
      r.op("Expand", {int32(r, choice.padding), r.concat({table, r.reshape(beams.most, {1})})}));
  begin.push_back(r.op("Expand", {r.float_number(-infinity), table}));

  const Steps steps(r, *model);
  const ValueId before = steps.state("sums", DType::kFloat32, Shape{Dim(), Dim()});
  const Ended ended{steps.state("ended_words", DType::kInt32, Shape{Dim(), Dim(), Dim()}),
                    steps.state("ended_scores", DType::kFloat32, Shape{Dim(), Dim()})};
  Rewriting b = steps.body->rewriting();
  Beams inner = beams;
  for (ValueId* v : {&inner.count, &inner.most, &inner.weight}) *v = steps.captured(*v);
  const ValueId is_first = b.op("Equal", {steps.step, b.whole(0)});
  const Answer answer = ask(b, *model, steps.captured, steps.text);
  const ValueId logs = b.op("LogSoftmax", {answer.scores}, {{"axis", std::int64_t{1}}});
  const ValueId scores = allowed(b, logs, steps.text, steps.inside(choice, false), is_first);

  // The 2 K likeliest words behind all beams of a prompt, of which at most K end a text.
  const ValueId words = b.size(scores, 1);
  const ValueId total = b.add(scores, b.reshape(before, {-1, 1}));
  const ValueId across = b.reshape_to(total, b.concat({b.shape(before, 0, 1), b.ints({-1})}));
  const auto [top, places] = largest(b, across, b.mul(inner.count, b.whole(2)));
  const ValueId beam = b.div(places, words);
  const ValueId word = b.sub(places, b.mul(beam, words));
  const ValueId never = b.float_number(-infinity);
  const ValueId is_end = b.op("Equal", {word, b.whole(choice.end)});

  // Those that end a text count if they are among the K likeliest.
  const auto first_beams = [&](ValueId v) {
    return b.slice_axis(v, {}, b.reshape(inner.count, {1}), 1);
  };
  const ValueId is_new = b.op("And", {first_beams(is_end), b.op("Not", {steps.text.ended})});
  const ValueId texts_before = b.gather(steps.text.words, rows_of(b, inner, first_beams(beam)));
  const ValueId new_scores =
      b.where(is_new, by_length(b, inner, first_beams(top), steps.text.words), never);
  const Ended now = with_texts(b, inner, ended, texts_before, new_scores);
  const ValueId worst = b.slice(now.scores, {-1}, {std::numeric_limits<std::int64_t>::max()}, {1});
  ValueId is_done = b.op("Greater", {worst, never});
  if (!beams.is_early) {
    const ValueId possible = by_length(b, inner, b.slice(top, {0}, {1}, {1}), steps.text.words);
    is_done = b.op("And", {is_done, b.op("GreaterOrEqual", {worst, possible})});
  }
  const ValueId done = b.op("Or", {steps.text.ended, is_done});

  // The others go on.
  const auto [after, chosen] = largest(b, b.where(is_end, never, top), inner.count);
  const ValueId next = b.cast(b.reshape(at_places(b, word, chosen), {-1, 1}), DType::kInt32);
  const ValueId from = rows_of(b, inner, at_places(b, beam, chosen));
  Text on = steps.text;
  on.words = b.gather(on.words, from);
  Values present;
  for (const ValueId v : answer.present) present.push_back(b.gather(v, from, 1));
  Values states = append(b, on, next, done, std::move(present)).values();
  for (const ValueId v : {after, now.words, now.scores}) states.push_back(v);
  steps.finish(b, states, done);

  const Values result = r.loop(*steps.body, r.sub(beams.most, r.size(once.words, 1)), begin);
  const Text last = Text::of(result);
  const std::size_t extra = result.size() - 3;
  const Ended found{result[extra + 1], result[extra + 2]};
  const ValueId open = r.where(last.ended, r.float_number(-infinity),
                               by_length(r, beams, result[extra], last.words));
  const Ended best = with_texts(r, beams, found, last.words, open);
  const ValueId wanted = r.cast(r.reshape(r.need(4), {1}), DType::kInt64);
  r.finish({r.slice_axis(best.words, {}, wanted, 1), r.slice_axis(best.scores, {}, wanted, 1)});
}

constexpr Entry kGenerations[] = {
    {kMicrosoft, "BeamSearch", rewrite_beam_search},
    {kMicrosoft, "GreedySearch", rewrite_greedy_search},
};

}  // namespace

std::span<const Entry> generation_ops() { return kGenerations; }

}  // namespace xrt::contributed
