// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM: written out step by step, in ops that have rules. The length of the sequence
// has to be known.
#include <string>

#include "autodiff/rule.h"

namespace xrt::autodiff {
namespace {

struct Layer {
  Rule& r;
  std::int64_t length, batch, hidden, gates;
  bool layout;
  Var x;  // [length, batch, input]
};

Var activate(const Rule& r, const std::string& name, Var x) {
  if (name == "Tanh") return tanh(x);
  if (name == "Sigmoid") return sigmoid(x);
  if (name == "Relu") return x.e->op("Relu", {x});
  r.refuse("activation '" + name + "'");
}

// What one direction of the layer is made of.
struct Direction {
  Var w, recurrent;    // [input, gates · hidden], [hidden, gates · hidden]
  Var w_bias, r_bias;  // [gates · hidden], absent where there is no B
  Var h, c;            // [batch, hidden]
  std::vector<std::string> activations;
  bool reverse = false;
};

Var gate(const Layer& layer, Var all, std::int64_t k) {
  return slice(all, {k * layer.hidden}, {(k + 1) * layer.hidden}, {-1});
}

Var plus(Var x, Var bias) { return bias.valid() ? x + bias : x; }

void step_rnn(const Layer& layer, Direction& d, Var from_x) {
  const Var sum = plus(from_x + matmul(d.h, d.recurrent), d.r_bias);
  d.h = activate(layer.r, d.activations[0], sum);
}

// Gates z, r, h.
void step_gru(const Layer& layer, Direction& d, Var from_x) {
  const auto part = [&](Var v, std::int64_t k) { return gate(layer, v, k); };
  const bool before = layer.r.attr("linear_before_reset") != 0;
  const Var from_h = plus(matmul(d.h, d.recurrent), d.r_bias);
  const Var z = activate(layer.r, d.activations[0], part(from_x, 0) + part(from_h, 0));
  const Var reset = activate(layer.r, d.activations[0], part(from_x, 1) + part(from_h, 1));
  Var candidate;
  if (before) {
    candidate = part(from_x, 2) + reset * part(from_h, 2);
  } else {
    const Var w = part(d.recurrent, 2);
    candidate = part(from_x, 2) + matmul(reset * d.h, w);
    if (d.r_bias.valid()) candidate = candidate + part(d.r_bias, 2);
  }
  candidate = activate(layer.r, d.activations[1], candidate);
  d.h = (1.0 - z) * candidate + z * d.h;
}

// Gates i, o, f, c.
void step_lstm(const Layer& layer, Direction& d, Var from_x) {
  const Var all = plus(from_x + matmul(d.h, d.recurrent), d.r_bias);
  const Var i = activate(layer.r, d.activations[0], gate(layer, all, 0));
  const Var f = activate(layer.r, d.activations[0], gate(layer, all, 2));
  const Var candidate = activate(layer.r, d.activations[1], gate(layer, all, 3));
  d.c = f * d.c + i * candidate;
  const Var o = activate(layer.r, d.activations[0], gate(layer, all, 1));
  d.h = o * activate(layer.r, d.activations[2], d.c);
}

// The slice of one direction along axis 0, or an absent Var.
Var of_direction(Var v, std::int64_t direction) {
  if (!v.valid()) return v;
  return squeeze(slice(v, {direction}, {direction + 1}, {0}), {0});
}

std::vector<Var> expand_recurrent(Rule& r) {
  const std::string& op = r.node.op;
  const std::int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
  const std::vector<std::string> defaults =
      op == "LSTM"  ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
      : op == "GRU" ? std::vector<std::string>{"Sigmoid", "Tanh"}
                    : std::vector<std::string>{"Tanh"};
  if (r.has(4)) r.refuse("sequence_lens");
  if (r.has(7)) r.refuse("peepholes");
  if (r.node.has("clip") || r.node.attr_int("input_forget", 0) != 0)
    r.refuse("clip or input_forget");
  const bool layout = r.attr("layout") != 0;
  const Dims x_dims = r.x_dims(0);
  const Dims r_dims = r.x_dims(2);
  Var x = r.x(0);
  if (layout) x = transpose(x, {1, 0, 2});
  const Layer layer{r, x_dims[layout ? 1 : 0], x_dims[layout ? 0 : 1], r_dims[2], gates, layout, x};
  std::vector<std::string> names = defaults;
  const std::int64_t directions = r_dims[0];
  if (r.node.has("activations")) names = r.node.attr_strings("activations");
  if (names.size() != defaults.size() * static_cast<std::size_t>(directions)) {
    if (names != defaults) r.refuse("the number of activations");
    for (std::int64_t d = 1; d < directions; ++d) {
      names.insert(names.end(), defaults.begin(), defaults.end());
    }
  }
  const std::string direction = need_string(r.node, "direction");

  std::vector<std::vector<Var>> rows(static_cast<std::size_t>(layer.length));
  std::vector<Var> last_h;
  std::vector<Var> last_c;
  for (std::int64_t k = 0; k < directions; ++k) {
    Direction d;
    const auto initial = [&](std::size_t i) {
      if (!r.has(i)) return expand(r.e.scalar(0, x.dtype), {layer.batch, layer.hidden});
      return of_direction(layout ? transpose(r.x(i), {1, 0, 2}) : r.x(i), k);
    };
    d.w = transpose(of_direction(r.x(1), k), {1, 0});
    d.recurrent = transpose(of_direction(r.x(2), k), {1, 0});
    if (r.has(3)) {
      const Var b = of_direction(r.x(3), k);
      d.w_bias = slice(b, {0}, {gates * layer.hidden}, {0});
      d.r_bias = slice(b, {gates * layer.hidden}, {2 * gates * layer.hidden}, {0});
    }
    d.h = initial(5);
    if (op == "LSTM") d.c = initial(6);
    d.activations.assign(names.begin() + k * static_cast<std::int64_t>(defaults.size()),
                         names.begin() + (k + 1) * static_cast<std::int64_t>(defaults.size()));
    d.reverse = direction == "reverse" || k == 1;
    const Var from_x = plus(matmul(layer.x, d.w), d.w_bias);
    for (std::int64_t t = 0; t < layer.length; ++t) {
      const std::int64_t at = d.reverse ? layer.length - 1 - t : t;
      const Var row = squeeze(slice(from_x, {at}, {at + 1}, {0}), {0});
      if (op == "LSTM") {
        step_lstm(layer, d, row);
      } else if (op == "GRU") {
        step_gru(layer, d, row);
      } else {
        step_rnn(layer, d, row);
      }
      rows[static_cast<std::size_t>(at)].push_back(unsqueeze(d.h, {0}));
    }
    last_h.push_back(unsqueeze(d.h, {0}));
    if (op == "LSTM") last_c.push_back(unsqueeze(d.c, {0}));
  }
  // Y is [length, directions, batch, hidden], or with layout [batch, length, directions, hidden].
  std::vector<Var> steps;
  for (const std::vector<Var>& row : rows) steps.push_back(unsqueeze(concat(row, 0), {0}));
  Var y = concat(steps, 0);
  Var h = concat(last_h, 0);
  if (layout) {
    y = transpose(y, {2, 0, 1, 3});
    h = transpose(h, {1, 0, 2});
  }
  if (op != "LSTM") return {y, h};
  const Var c = concat(last_c, 0);
  return {y, h, layout ? transpose(c, {1, 0, 2}) : c};
}

}  // namespace

void register_recurrent(RuleRegistry& registry) {
  for (const char* op : {"RNN", "GRU", "LSTM"}) {
    registry.add_expanded(op, expand_recurrent, inputs({0, 1, 2, 3, 5, 6, 7}));
  }
}

}  // namespace xrt::autodiff
