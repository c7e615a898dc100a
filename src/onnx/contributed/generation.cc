// SPDX-License-Identifier: Apache-2.0
// Ops that run a language model to the end of a text: a Loop around it.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "onnx/contributed/rewriting.h"
#include "xrt/error.h"

namespace xrt::contributed {
namespace {

using Captured = std::function<ValueId(ValueId)>;

// What one step of the model hands to the next. Words are int32.
struct Text {
  ValueId words;   // (B, T): those so far
  ValueId fed;     // (B, S): those that the model has not seen
  ValueId ended;   // (B, 1), bool
  Values counted;  // of a decoder alone: positions (B, S), mask (B, T), next position (B, 1)
  Values past;     // of each layer: (2, B, heads, T - S, head), or keys and values (B, heads, …)

  Values values() const {
    Values all{words, fed, ended};
    all.insert(all.end(), counted.begin(), counted.end());
    all.insert(all.end(), past.begin(), past.end());
    return all;
  }
  // From values in that order, of a text like this one.
  Text with(const Values& v) const {
    Text text{v[0], v[1], v[2], {}, {}};
    const auto begin = v.begin() + 3, middle = begin + static_cast<std::ptrdiff_t>(counted.size());
    text.counted.assign(begin, middle);
    text.past.assign(middle, middle + static_cast<std::ptrdiff_t>(past.size()));
    return text;
  }
};

// A graph that gives the scores of the next word. Its inputs are
//   decoder alone:     words, positions, mask, past of the layers
//   behind an encoder: words, `fixed` up to `before_past`, past of the layers, the rest of `fixed`
// and its outputs the scores (B, S, V) and the past with the words fed.
struct Model {
  std::shared_ptr<const Graph> graph;
  // Of the source: its mask, where wanted its hidden states, keys and values of each layer; of the
  // graph around. Empty for a decoder alone.
  Values fixed;
  std::size_t before_past = 0;
  std::size_t first_past = 0;  // among the inputs
  std::size_t past_count = 0;

  const Type& past_type(std::size_t i) const {
    return graph->type(graph->inputs()[first_past + i]);
  }
  std::int64_t batch_axis() const { return fixed.empty() ? 1 : 0; }
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

Answer ask(Rewriting& r, const Model& model, const Captured& captured, const Text& text) {
  Values inputs{text.fed};
  if (model.fixed.empty())
    inputs.insert(inputs.end(), text.counted.begin(), text.counted.begin() + 2);
  for (std::size_t i = 0; i < model.before_past; ++i) inputs.push_back(captured(model.fixed[i]));
  inputs.insert(inputs.end(), text.past.begin(), text.past.end());
  for (std::size_t i = model.before_past; i < model.fixed.size(); ++i) {
    inputs.push_back(captured(model.fixed[i]));
  }
  const Values outputs = r.call(*model.graph, inputs, captured);
  return {r.cast(r.gather(outputs[0], r.whole(-1), 1), DType::kFloat32),
          {outputs.begin() + 1, outputs.end()}};
}

// The text with one word (B, 1) more.
Text append(Rewriting& r, const Text& text, ValueId word, ValueId ended, Values present) {
  Values counted;
  if (!text.counted.empty()) {
    const ValueId next = text.counted[2];
    const ValueId one = r.op("Expand", {int32(r, 1), r.shape(word)});
    counted = {next, r.concat({text.counted[1], one}, 1), r.add(next, one)};
  }
  return {r.concat({text.words, word}, 1), word, ended, std::move(counted), std::move(present)};
}

// With the likeliest word; a text that has ended gets padding, also for the word that ends it.
Text advance(Rewriting& r, const Model& model, const Captured& captured, const Text& text,
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

// Heads come third from the back, their size last.
void check_past(const Rewriting& r, const Model& model) {
  const std::size_t rank = model.fixed.empty() ? 5 : 4;
  for (std::size_t i = 0; i < model.past_count; ++i) {
    const Type& type = model.past_type(i);
    const bool is_known = type.is_tensor() && type.has_rank() && type.rank() == rank &&
                          (*type.shape)[rank - 3].is_known() && (*type.shape)[rank - 1].is_known();
    if (!is_known) r.refuse("the sizes of the heads of its past are not declared");
  }
}

// A decoder alone.
Model read_decoder(Rewriting& r, const char* name) {
  constexpr std::size_t kFirstPast = 3;
  Model model{r.required_graph(name), {}, 0, kFirstPast, 0};
  const std::size_t given = model.graph->inputs().size(), made = model.graph->outputs().size();
  if (given <= kFirstPast || made != given - kFirstPast + 1) {
    r.refuse(std::string("its graph '") + name +
             "' does not take words, positions, a mask and the past of its layers, and give scores "
             "and their present");
  }
  model.past_count = given - kFirstPast;
  check_past(r, model);
  return model;
}

// The decoder of the first step, where `model` is the one of all others.
Model read_first(Rewriting& r, const Model& model) {
  Model first = read_decoder(r, "init_decoder");
  if (first.past_count != model.past_count) {
    throw Error(ErrorCode::kInvalidModel,
                "its graphs 'init_decoder' and 'decoder' do not have as many layers");
  }
  return first;
}

// No words yet.
Values empty_past(Rewriting& r, const Model& model, ValueId batch) {
  Values past;
  for (std::size_t i = 0; i < model.past_count; ++i) {
    const Type& type = model.past_type(i);
    const Shape& dims = *type.shape;
    Values shape{batch, r.ints({dims[dims.size() - 3].value(), 0, dims.back().value()})};
    if (model.fixed.empty()) shape.insert(shape.begin(), r.ints({2}));
    past.push_back(r.cast(r.op("ConstantOfShape", {r.concat(shape)}), type.dtype));
  }
  return past;
}

ValueId is_word(Rewriting& r, ValueId words, std::int64_t padding) {
  return r.cast(r.op("Not", {r.op("Equal", {words, int32(r, padding)})}), DType::kInt32);
}

ValueId nobody_ended(Rewriting& r, ValueId batch) {
  const ValueId rows = r.concat({batch, r.ints({1})});
  return r.cast(r.op("Expand", {int32(r, 0), rows}), DType::kBool);
}

// The prompts, for a decoder alone.
Text prompts(Rewriting& r, const Model& model, std::size_t mask_input, std::int64_t padding) {
  const ValueId words = r.need(0);
  // Positions count the words that are no padding, whatever mask is given.
  const ValueId counted = is_word(r, words, padding);
  const ValueId mask = r.input(mask_input).valid() ? r.input(mask_input) : counted;
  const ValueId counts = r.op("CumSum", {counted, r.whole(1)});
  const ValueId batch = r.shape(words, 0, 1);
  return {words,
          words,
          nobody_ended(r, batch),
          {r.mul(r.sub(counts, int32(r, 1)), counted), mask, r.reduce("ReduceSum", counted, {1})},
          empty_past(r, model, batch)};
}

// The attributes that all have, and the operands from `least` on: the length before which no text
// ends, the penalty of words that are there, and the masks of words.
Choice read_choice(Rewriting& r, std::size_t least, std::size_t penalty) {
  Choice choice;
  choice.end = r.required_int("eos_token_id", kInt32);
  choice.padding = r.required_int("pad_token_id", kInt32);
  choice.repeats = r.int_attr("no_repeat_ngram_size", 0, {0, kNGram.most});
  const ValueId length = r.input(least), factor = r.input(penalty);
  if (length.valid()) choice.least = r.cast(r.reshape(length, {1}), DType::kInt64);
  if (factor.valid()) choice.penalty = r.reshape(factor, {});
  choice.vocabulary = r.input(penalty + 1);
  choice.first = r.input(penalty + 2);
  return choice;
}

// In the graph around, captured values are themselves.
ValueId outside(ValueId v) { return v; }

ValueId truth(Rewriting& r, bool value) { return r.cast(int32(r, value ? 1 : 0), DType::kBool); }

// The body of the Loop around a model while it is built.
struct Steps {
  std::unique_ptr<Body> body;
  Captured captured;
  ValueId step;
  Text text;

  Steps(Steps&&) = delete;  // `captured` knows where it is
  // `like`: the text before the first step.
  Steps(Rewriting& r, const Model& model, const Text& like) : body(r.new_body("generate")) {
    captured = [this, &r](ValueId outer) {
      return outer.valid() ? body->capture(r.graph(), outer) : outer;
    };
    step = body->graph.add_input("step", Type::tensor(DType::kInt64, Shape{}));
    body->graph.add_input("go", Type::tensor(DType::kBool, Shape{}));
    Values states{state("words", DType::kInt32, Shape{Dim(), Dim()}),
                  state("fed", DType::kInt32, Shape{Dim(), Dim()}),
                  state("ended", DType::kBool, Shape{Dim(), Dim()})};
    for (std::size_t i = 0; i < like.counted.size(); ++i) {
      states.push_back(state("counted" + std::to_string(i), DType::kInt32, Shape{Dim(), Dim()}));
    }
    for (std::size_t i = 0; i < model.past_count; ++i) {
      Type past = model.past_type(i);
      const std::size_t rank = past.shape->size();
      for (const std::size_t axis : {rank - 4, rank - 2}) (*past.shape)[axis] = Dim();
      states.push_back(body->graph.add_input("past" + std::to_string(i), past));
    }
    text = like.with(states);
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
  if (r.int_attr("model_type", 0, kAny) != 0) r.refuse("a model that is no decoder alone");
  const Choice choice = read_choice(r, 2, 3);
  const ValueId most = r.cast(r.reshape(r.need(1), {}), DType::kInt64);
  const Model model = read_decoder(r, "decoder");
  Text text = prompts(r, model, 6, choice.padding);
  ValueId trips = r.sub(most, r.size(text.words, 1));
  const bool has_first = r.has_attr("init_decoder");
  if (has_first) {
    const Model first = read_first(r, model);
    text = advance(r, first, outside, text, choice, truth(r, true));
    trips = r.sub(trips, r.whole(1));
  }
  const Steps steps(r, model, text);
  Rewriting b = steps.body->rewriting();
  const ValueId is_first = b.op("Equal", {steps.step, b.whole(0)});
  const Text after =
      advance(b, model, steps.captured, steps.text, steps.inside(choice, has_first), is_first);
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
  std::int64_t batch_axis = 0;  // of the past
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

// Between two steps of a search.
struct Search {
  Text text;
  ValueId sums;  // (B, K), of the logarithms of the words' probabilities
  Ended ended;

  Values values() const {
    Values all = text.values();
    all.insert(all.end(), {sums, ended.words, ended.scores});
    return all;
  }
};

// A step, from what the model says of the next word of each beam.
Search advance(Rewriting& r, const Beams& beams, const Search& before, const Answer& answer,
               const Choice& choice, ValueId is_first) {
  const Text& text = before.text;
  const ValueId logs = r.op("LogSoftmax", {answer.scores}, {{"axis", std::int64_t{1}}});
  const ValueId scores = allowed(r, logs, text, choice, is_first);

  // The 2 K likeliest words behind all beams of a prompt, of which at most K end a text.
  const ValueId words = r.size(scores, 1);
  const ValueId total = r.add(scores, r.reshape(before.sums, {-1, 1}));
  const ValueId across = r.reshape_to(total, r.concat({r.shape(before.sums, 0, 1), r.ints({-1})}));
  const auto [top, places] = largest(r, across, r.mul(beams.count, r.whole(2)));
  const ValueId beam = r.div(places, words);
  const ValueId word = r.sub(places, r.mul(beam, words));
  const ValueId never = r.float_number(-std::numeric_limits<float>::infinity());
  const ValueId is_end = r.op("Equal", {word, r.whole(choice.end)});

  // Those that end a text count if they are among the K likeliest.
  const auto first_beams = [&](ValueId v) {
    return r.slice_axis(v, {}, r.reshape(beams.count, {1}), 1);
  };
  const ValueId is_new = r.op("And", {first_beams(is_end), r.op("Not", {text.ended})});
  const ValueId texts = r.gather(text.words, rows_of(r, beams, first_beams(beam)));
  const ValueId new_scores =
      r.where(is_new, by_length(r, beams, first_beams(top), text.words), never);
  const Ended now = with_texts(r, beams, before.ended, texts, new_scores);
  const ValueId worst = r.slice(now.scores, {-1}, {std::numeric_limits<std::int64_t>::max()}, {1});
  ValueId is_done = r.op("Greater", {worst, never});
  if (!beams.is_early) {
    const ValueId possible = by_length(r, beams, r.slice(top, {0}, {1}, {1}), text.words);
    is_done = r.op("And", {is_done, r.op("GreaterOrEqual", {worst, possible})});
  }
  const ValueId done = r.op("Or", {text.ended, is_done});

  // The others go on.
  const auto [sums, chosen] = largest(r, r.where(is_end, never, top), beams.count);
  const ValueId next = r.cast(r.reshape(at_places(r, word, chosen), {-1, 1}), DType::kInt32);
  const ValueId from = rows_of(r, beams, at_places(r, beam, chosen));
  Text on = text;
  on.words = r.gather(on.words, from);
  Values present;
  for (const ValueId v : answer.present) present.push_back(r.gather(v, from, beams.batch_axis));
  return {append(r, on, next, done, std::move(present)), sums, now};
}

// The source of a model with an encoder, and what the encoder says of the first word, if anything:
// older files have the first step of the decoder in the graph of the encoder.
struct Source {
  Model model;
  Text text;  // the start, once for each source
  std::optional<Answer> first;
};

Source read_source(Rewriting& r, std::size_t mask_input, std::int64_t padding) {
  const ValueId words = r.need(0);
  ValueId mask = r.input(mask_input);
  if (!mask.valid()) {  // here, padding is what comes before the first word
    const ValueId counts = r.op("CumSum", {is_word(r, words, padding), r.whole(1)});
    mask = r.cast(r.op("Greater", {counts, int32(r, 0)}), DType::kInt32);
  }
  const ValueId batch = r.shape(words, 0, 1);
  const ValueId start = r.op("Expand", {int32(r, r.required_int("decoder_start_token_id", kInt32)),
                                        r.concat({batch, r.ints({1})})});
  const auto encoder = r.required_graph("encoder");
  Source source;
  Model& model = source.model;
  model.graph = r.required_graph("decoder");
  const std::size_t given = model.graph->inputs().size(), made = model.graph->outputs().size();
  const std::size_t layers = made - 1;  // keys and values
  const std::size_t fixed = given - 1 - std::min(given - 1, 2 * layers);
  const bool has_first = encoder->inputs().size() == 3;
  const bool fits = made > 1 && (fixed == 1 || (fixed == 2 && has_first)) &&
                    encoder->outputs().size() == (has_first ? 2 + 2 * layers : layers) &&
                    (has_first || encoder->inputs().size() == 2);
  if (!fits) {
    r.refuse(
        "its graphs 'encoder' and 'decoder' do not hand each other keys and values as those of T5 "
        "do");
  }
  model.before_past = fixed;
  model.first_past = 1 + fixed;
  model.past_count = layers;
  Values inputs{words, mask};
  if (has_first) inputs.push_back(start);
  const Values outputs = r.call(*encoder, inputs, outside);
  const auto cross = outputs.end() - static_cast<std::ptrdiff_t>(layers);
  model.fixed = {mask};
  if (fixed == 2) model.fixed.push_back(outputs[1]);
  model.fixed.insert(model.fixed.end(), cross, outputs.end());
  check_past(r, model);
  source.text = {start, start, nobody_ended(r, batch), {}, {}};
  if (has_first) {
    source.first = Answer{r.cast(r.gather(outputs[0], r.whole(-1), 1), DType::kFloat32),
                          {outputs.begin() + 2, cross}};
  } else {
    source.text.past = empty_past(r, model, batch);
  }
  return source;
}

// The K likeliest texts go on, until for each prompt K have ended and no other can be better.
void rewrite_beam_search(Rewriting& r) {
  const std::int64_t kind = r.int_attr("model_type", 0, kAny);
  if (kind != 0 && kind != 1) r.refuse("a model that is neither a decoder alone nor like T5");
  if (r.wants(2)) r.refuse("the scores of every step (its third output)");
  if (r.input(10).valid()) r.refuse("words of the decoder to begin with (its input 10)");
  Choice choice = read_choice(r, 2, 6);
  const auto number = [&](std::size_t i) {
    return r.cast(r.reshape(r.need(i), {}), DType::kInt64);
  };
  Source source;
  if (kind == 0) {
    source.model = read_decoder(r, "decoder");
    source.text = prompts(r, source.model, 9, choice.padding);
  } else {
    source = read_source(r, 9, choice.padding);
  }
  Beams beams;
  beams.most = number(1);
  beams.count = number(3);
  beams.weight = r.input(5).valid() ? r.reshape(r.input(5), {}) : r.float_number(1);
  beams.padding = choice.padding;
  beams.is_early = r.int_attr("early_stopping", 0, kAny) == 1;
  beams.batch_axis = source.model.batch_axis();
  const ValueId never = r.float_number(-std::numeric_limits<float>::infinity());

  // Each prompt K times; at first all but one of the K are out of the question.
  const ValueId begin = r.size(source.text.words, 1);
  const ValueId batch = r.shape(source.text.words, 0, 1);
  const ValueId table = r.concat({batch, r.reshape(beams.count, {1})});
  const ValueId each = r.unsqueeze(r.range(r.squeeze(batch, {0})), {1});
  const ValueId rows = r.reshape(r.op("Expand", {each, table}), {-1});
  const auto repeat = [&](ValueId& v, std::int64_t axis = 0) { v = r.gather(v, rows, axis); };
  Search search{source.text, {}, {}};
  Text& text = search.text;
  repeat(text.words);
  repeat(text.fed);
  for (ValueId& v : text.counted) repeat(v);
  for (ValueId& v : text.past) repeat(v, beams.batch_axis);
  for (ValueId& v : source.model.fixed) repeat(v);
  if (choice.first.valid()) repeat(choice.first);
  const ValueId is_one = r.op("Equal", {r.range(beams.count), r.whole(0)});
  const ValueId sums = r.where(is_one, r.float_number(0), r.float_number(-1e9F));
  search.sums = r.op("Expand", {sums, table});
  const ValueId none =
      r.op("Expand", {int32(r, choice.padding), r.concat({table, r.reshape(beams.most, {1})})});
  search.ended = {none, r.op("Expand", {never, table})};

  ValueId trips = r.sub(beams.most, begin);
  const bool has_first = source.first || (kind == 0 && r.has_attr("init_decoder"));
  if (has_first) {
    Answer answer;
    if (source.first) {
      answer = *source.first;
      repeat(answer.scores);
      for (ValueId& v : answer.present) repeat(v);
    } else {
      answer = ask(r, read_first(r, source.model), outside, text);
    }
    search = advance(r, beams, search, answer, choice, truth(r, true));
    trips = r.sub(trips, r.whole(1));
  }

  const Model& model = source.model;
  const Steps steps(r, model, search.text);
  const Search before{steps.text,
                      steps.state("sums", DType::kFloat32, Shape{Dim(), Dim()}),
                      {steps.state("ended_words", DType::kInt32, Shape{Dim(), Dim(), Dim()}),
                       steps.state("ended_scores", DType::kFloat32, Shape{Dim(), Dim()})}};
  Rewriting b = steps.body->rewriting();
  Beams inner = beams;
  for (ValueId* v : {&inner.count, &inner.most, &inner.weight}) *v = steps.captured(*v);
  const ValueId is_first = b.op("Equal", {steps.step, b.whole(0)});
  const Answer answer = ask(b, model, steps.captured, before.text);
  const Search after = advance(b, inner, before, answer, steps.inside(choice, has_first), is_first);
  steps.finish(b, after.values(), after.text.ended);

  const Values result = r.loop(*steps.body, trips, search.values());
  const Text last = search.text.with(result);
  const std::size_t extra = result.size() - 3;
  const Ended found{result[extra + 1], result[extra + 2]};
  const ValueId open = r.where(last.ended, never, by_length(r, beams, result[extra], last.words));
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
