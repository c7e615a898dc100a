// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM: one stablehlo.while over time per direction, the products with the whole
// sequence taken out of the loop.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "engines/xla/lowering.h"
#include "engines/xla/lowerings/places.h"
#include "ops/gate_functions.h"

namespace xrt::xla {

namespace {

using Activation = std::function<Hlo(const Hlo&)>;

Activation activation(NodeContext& c, const GateFunction& function) {
  HloBuilder& b = c.b;
  const std::string& name = function.name;
  const double alpha = function.alpha, beta = function.beta;
  const auto scalar = [&b](double value, const Hlo& x) { return b.splat(value, x.dtype, x.dims); };
  if (name == "sigmoid") return [&b](const Hlo& x) { return b.unary("logistic", x); };
  if (name == "tanh") return [&b](const Hlo& x) { return b.unary("tanh", x); };
  if (name == "relu") return [&b](const Hlo& x) { return b.maximum(x, b.zeros_like(x)); };
  if (name == "affine") {
    return [=, &b](const Hlo& x) { return b.add(b.mul(x, scalar(alpha, x)), scalar(beta, x)); };
  }
  if (name == "leakyrelu") {
    return [=, &b](const Hlo& x) {
      return b.select(b.compare("LT", x, b.zeros_like(x)), b.mul(x, scalar(alpha, x)), x);
    };
  }
  if (name == "thresholdedrelu") {
    return [=, &b](const Hlo& x) {
      return b.select(b.compare("GT", x, scalar(alpha, x)), x, b.zeros_like(x));
    };
  }
  if (name == "scaledtanh") {
    return [=, &b](const Hlo& x) {
      return b.mul(b.unary("tanh", b.mul(x, scalar(beta, x))), scalar(alpha, x));
    };
  }
  if (name == "hardsigmoid") {
    return [=, &b](const Hlo& x) {
      const Hlo line = b.add(b.mul(x, scalar(alpha, x)), scalar(beta, x));
      return b.maximum(b.minimum(line, scalar(1, x)), b.zeros_like(x));
    };
  }
  if (name == "elu") {
    return [=, &b](const Hlo& x) {
      return b.select(b.compare("GT", x, b.zeros_like(x)), x,
                      b.mul(b.unary("exponential_minus_one", x), scalar(alpha, x)));
    };
  }
  if (name == "softsign") {
    return [=, &b](const Hlo& x) { return b.div(x, b.add(scalar(1, x), b.unary("abs", x))); };
  }
  if (name == "softplus") {
    return [=, &b](const Hlo& x) {
      const Hlo tail = b.unary("exponential", b.unary("negate", b.unary("abs", x)));
      return b.add(b.maximum(x, b.zeros_like(x)), b.unary("log_plus_one", tail));
    };
  }
  c.refuse(fmt::format("no activation '{}'", name));
}

// What the three ops share.
struct Recurrent {
  std::int64_t length, batch, hidden, directions, gates;
  bool batch_first;
  DType dtype;                          // of the node
  Hlo x;                                // [length, batch, input], in float32 for the 16-bit floats
  std::vector<Activation> activations;  // per direction, one after the other
  Hlo clip;                             // scalar, or invalid
};

Recurrent read(NodeContext& c, std::int64_t gates) {
  Recurrent r;
  r.gates = gates;
  r.dtype = c.dtype(0);
  r.batch_first = c.attr("layout") != 0;
  const std::string direction = need_string(c.node, "direction");
  r.directions = direction == "bidirectional" ? 2 : 1;
  r.x = c.b.convert(c.in(0), compute_dtype(r.dtype));
  c.need(r.x.rank() == 3, "the operand's rank");
  if (r.batch_first) r.x = c.b.transpose(r.x, {1, 0, 2});
  r.length = r.x.dims[0];
  r.batch = r.x.dims[1];
  r.hidden = c.dims(2).at(2);
  c.need(c.dims(1).at(1) == gates * r.hidden && c.dims(1)[0] == r.directions, "the weights' shape");
  c.need(r.length > 0, "an empty sequence");
  for (const GateFunction& function : gate_functions(c.node)) {
    r.activations.push_back(activation(c, function));
  }
  const float clip = c.node.attr_float("clip", 0);
  if (clip > 0) r.clip = c.b.scalar(clip, r.x.dtype);
  return r;
}

// Slice `d` of an operand's leading axis (directions), in the computing type; invalid if absent.
Hlo direction_of(NodeContext& c, const Recurrent& r, std::size_t operand, std::int64_t d) {
  if (!c.has(operand)) return {};
  const Hlo x = c.b.convert(c.in(operand), r.x.dtype);
  return c.b.reshape(c.b.slice_axis(x, 0, d, d + 1), Dims(x.dims.begin() + 1, x.dims.end()));
}

// An initial state [batch, hidden].
Hlo initial_state(NodeContext& c, const Recurrent& r, std::size_t operand, std::int64_t d) {
  if (!c.has(operand)) return c.b.splat(0, r.x.dtype, {r.batch, r.hidden});
  const Hlo x = c.b.convert(c.in(operand), r.x.dtype);
  return c.b.reshape(c.b.slice_axis(x, r.batch_first ? 1 : 0, d, d + 1), {r.batch, r.hidden});
}

struct Result {
  Hlo sequence;  // [length, batch, hidden]
  Hlos states;
};

// `step` maps (inputs already times W, states) to new states; states[0] is what is returned.
using Step = std::function<Hlos(const Hlo&, const Hlos&)>;

Result run_over_time(NodeContext& c, const Recurrent& r, bool backward, const Hlo& projected,
                     const Hlos& initial, const Step& step) {
  HloBuilder& b = c.b;
  const Hlo lengths = c.has(4) ? b.convert(c.in(4), DType::kInt64) : Hlo{};
  Hlos init{b.scalar(0, DType::kInt64), b.splat(0, r.x.dtype, {r.length, r.batch, r.hidden})};
  init.insert(init.end(), initial.begin(), initial.end());
  const Hlo zero = b.scalar(0, DType::kInt64);
  const Hlo count = b.scalar(static_cast<double>(r.length), DType::kInt64);
  const Hlo newest = b.scalar(static_cast<double>(r.length - 1), DType::kInt64);
  const Hlos results = b.while_loop(
      init, [&](const Hlos& now) { return b.compare("LT", now[0], count); },
      [&](const Hlos& now) {
        const Hlo place = backward ? b.sub(newest, now[0]) : now[0];
        const std::int64_t width = projected.dims[2];
        const Hlo x = b.reshape(
            b.dynamic_slice(projected, {place, zero, zero}, {1, r.batch, width}), {r.batch, width});
        const Hlos states(now.begin() + 2, now.end());
        Hlos next = step(x, states);
        Hlo shown = next[0];
        if (lengths.valid()) {
          // Past its end a sequence keeps its state and shows zeros.
          const Dims dims{r.batch, r.hidden};
          const Hlo inside = b.broadcast_in_dim(
              b.compare("LT", b.broadcast_in_dim(place, {r.batch}, {}), lengths), dims, {0});
          shown = b.select(inside, next[0], b.splat(0, r.x.dtype, dims));
          for (std::size_t i = 0; i < next.size(); ++i) {
            next[i] = b.select(inside, next[i], states[i]);
          }
        }
        Hlos out{b.binary_scalar("add", now[0], 1),
                 b.dynamic_update_slice(now[1], b.reshape(shown, {1, r.batch, r.hidden}),
                                        {place, zero, zero})};
        out.insert(out.end(), next.begin(), next.end());
        return out;
      });
  Hlos states(results.begin() + 2, results.end());
  if (lengths.valid()) {
    // A sequence without elements ends with 0, as on the other engines.
    const Dims dims{r.batch, r.hidden};
    const Hlo none = b.broadcast_in_dim(b.scalar(0, DType::kInt64), {r.batch}, {});
    const Hlo some = b.broadcast_in_dim(b.compare("GT", lengths, none), dims, {0});
    for (Hlo& state : states) state = b.select(some, state, b.splat(0, r.x.dtype, dims));
  }
  return {results[1], std::move(states)};
}

Hlo clipped(HloBuilder& b, const Recurrent& r, const Hlo& x) {
  if (!r.clip.valid()) return x;
  const Hlo limit = b.broadcast_in_dim(r.clip, x.dims, {});
  return b.maximum(b.minimum(x, limit), b.unary("negate", limit));
}

// a [batch, k] times the transpose of w [n, k].
Hlo product(HloBuilder& b, const Hlo& a, const Hlo& w) {
  return b.dot_general(a, w, {}, {}, {a.rank() - 1}, {1}, a.dtype);
}

Hlo gate(HloBuilder& b, const Recurrent& r, const Hlo& all, std::int64_t index) {
  return b.slice_axis(all, all.rank() - 1, index * r.hidden, (index + 1) * r.hidden);
}

// The outputs Y, Y_h and (for LSTM) Y_c from the results of each direction.
void finish(NodeContext& c, const Recurrent& r, const std::vector<Result>& results) {
  HloBuilder& b = c.b;
  Hlos sequences;
  for (const Result& result : results) {
    sequences.push_back(b.reshape(result.sequence, {r.length, 1, r.batch, r.hidden}));
  }
  Hlo y = b.convert(b.concatenate(sequences, 1), r.dtype);
  if (r.batch_first) y = b.transpose(y, {2, 0, 1, 3});
  c.out(0, y);
  for (std::size_t k = 0; k < results[0].states.size(); ++k) {
    Hlos states;
    for (const Result& result : results) {
      states.push_back(b.reshape(result.states[k], {1, r.batch, r.hidden}));
    }
    Hlo state = b.convert(b.concatenate(states, 0), r.dtype);
    if (r.batch_first) state = b.transpose(state, {1, 0, 2});
    c.out(k + 1, state);
  }
}

bool is_backward(NodeContext& c, std::int64_t d) {
  return d == 1 || need_string(c.node, "direction") == "reverse";
}

// Both biases of a direction, [gates · hidden] each; zeros if absent.
std::pair<Hlo, Hlo> biases(NodeContext& c, const Recurrent& r, std::int64_t d) {
  const Hlo both = direction_of(c, r, 3, d);
  const std::int64_t width = r.gates * r.hidden;
  if (!both.valid()) {
    const Hlo none = c.b.splat(0, r.x.dtype, {width});
    return {none, none};
  }
  return {c.b.slice_axis(both, 0, 0, width), c.b.slice_axis(both, 0, width, 2 * width)};
}

Hlo add_row(HloBuilder& b, const Hlo& x, const Hlo& row) {
  return b.add(x, b.broadcast_in_dim(row, x.dims, {x.rank() - 1}));
}

void lower_rnn(NodeContext& c) {
  HloBuilder& b = c.b;
  const Recurrent r = read(c, 1);
  std::vector<Result> results;
  for (std::int64_t d = 0; d < r.directions; ++d) {
    const auto [input_bias, state_bias] = biases(c, r, d);
    const Hlo projected =
        add_row(b, product(b, r.x, direction_of(c, r, 1, d)), b.add(input_bias, state_bias));
    const Hlo weights = direction_of(c, r, 2, d);
    results.push_back(run_over_time(c, r, is_backward(c, d), projected, {initial_state(c, r, 5, d)},
                                    [&, d](const Hlo& x, const Hlos& state) {
                                      const Hlo sum = b.add(x, product(b, state[0], weights));
                                      return Hlos{r.activations[at(d)](clipped(b, r, sum))};
                                    }));
  }
  finish(c, r, results);
}

// Gates z, r, h.
void lower_gru(NodeContext& c) {
  HloBuilder& b = c.b;
  const Recurrent r = read(c, 3);
  const bool after = c.attr("linear_before_reset") != 0;
  std::vector<Result> results;
  for (std::int64_t d = 0; d < r.directions; ++d) {
    const auto [input_bias, state_bias] = biases(c, r, d);
    const Hlo projected = add_row(b, product(b, r.x, direction_of(c, r, 1, d)), input_bias);
    const Hlo weights = direction_of(c, r, 2, d);
    const Hlo zr = b.slice_axis(weights, 0, 0, 2 * r.hidden);
    const Hlo h = b.slice_axis(weights, 0, 2 * r.hidden, 3 * r.hidden);
    const Hlo zr_bias = b.slice_axis(state_bias, 0, 0, 2 * r.hidden);
    const Hlo h_bias = b.slice_axis(state_bias, 0, 2 * r.hidden, 3 * r.hidden);
    const Activation& f = r.activations[at(2 * d)];
    const Activation& g = r.activations[at(2 * d + 1)];
    results.push_back(run_over_time(
        c, r, is_backward(c, d), projected, {initial_state(c, r, 5, d)},
        [&](const Hlo& x, const Hlos& state) {
          const Hlo from_state = add_row(b, product(b, state[0], zr), zr_bias);
          const Hlo update = f(clipped(b, r, b.add(gate(b, r, x, 0), gate(b, r, from_state, 0))));
          const Hlo reset = f(clipped(b, r, b.add(gate(b, r, x, 1), gate(b, r, from_state, 1))));
          const Hlo hidden = after ? b.mul(reset, add_row(b, product(b, state[0], h), h_bias))
                                   : add_row(b, product(b, b.mul(reset, state[0]), h), h_bias);
          const Hlo candidate = g(clipped(b, r, b.add(gate(b, r, x, 2), hidden)));
          const Hlo one = b.splat(1, update.dtype, update.dims);
          return Hlos{b.add(b.mul(b.sub(one, update), candidate), b.mul(update, state[0]))};
        }));
  }
  finish(c, r, results);
}

// Gates i, o, f, c.
void lower_lstm(NodeContext& c) {
  HloBuilder& b = c.b;
  const Recurrent r = read(c, 4);
  const bool coupled = c.attr("input_forget") != 0;
  std::vector<Result> results;
  for (std::int64_t d = 0; d < r.directions; ++d) {
    const auto [input_bias, state_bias] = biases(c, r, d);
    const Hlo projected =
        add_row(b, product(b, r.x, direction_of(c, r, 1, d)), b.add(input_bias, state_bias));
    const Hlo weights = direction_of(c, r, 2, d);
    const Hlo peepholes = direction_of(c, r, 7, d);
    const Activation& f = r.activations[at(3 * d)];
    const Activation& g = r.activations[at(3 * d + 1)];
    const Activation& h = r.activations[at(3 * d + 2)];
    const auto peep = [&](const Hlo& x, const Hlo& cell, std::int64_t index) {
      if (!peepholes.valid()) return x;
      const Hlo row = gate(b, r, peepholes, index);
      return b.add(x, b.mul(cell, b.broadcast_in_dim(row, cell.dims, {1})));
    };
    results.push_back(run_over_time(
        c, r, is_backward(c, d), projected, {initial_state(c, r, 5, d), initial_state(c, r, 6, d)},
        [&](const Hlo& x, const Hlos& state) {
          const Hlo all = b.add(x, product(b, state[0], weights));
          const Hlo& cell = state[1];
          const Hlo input = f(clipped(b, r, peep(gate(b, r, all, 0), cell, 0)));
          const Hlo one = b.splat(1, input.dtype, input.dims);
          const Hlo forget =
              coupled ? b.sub(one, input) : f(clipped(b, r, peep(gate(b, r, all, 2), cell, 2)));
          const Hlo candidate = g(clipped(b, r, gate(b, r, all, 3)));
          const Hlo next = b.add(b.mul(forget, cell), b.mul(input, candidate));
          const Hlo output = f(clipped(b, r, peep(gate(b, r, all, 1), next, 1)));
          return Hlos{b.mul(output, h(next)), next};
        }));
  }
  finish(c, r, results);
}

}  // namespace

void register_recurrent(LoweringTable& t) {
  t.add("RNN", lower_rnn);
  t.add("GRU", lower_gru);
  t.add("LSTM", lower_lstm);
}

}  // namespace xrt::xla
