// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN over a known count of steps: the product with all inputs at once, then the
// steps one after the other. TensorRT has no layer of its own for them any more.
#include <algorithm>

#include "engines/tensorrt/lowering.h"

namespace xrt::tensorrt {

namespace {

constexpr std::int64_t kMaxSteps = 64;  // unrolled: each step is about ten layers

// What one direction works with; products are [batch, gates · hidden].
struct Direction {
  Value inputs = nullptr;      // X · W', [steps, batch, gates · hidden]
  Value recurrence = nullptr;  // R, [gates · hidden, hidden]
  Value input_bias = nullptr;  // [1, gates · hidden], null if there is none
  Value state_bias = nullptr;
  bool reverse = false;
};

struct Recurrence {
  NodeContext& c;
  std::int64_t gates;
  std::int64_t steps = 0, batch = 0, hidden = 0, directions = 0;

  Recurrence(NodeContext& context, std::int64_t gate_count) : c(context), gates(gate_count) {
    c.require_float(0);
    c.need(c.attr("layout") == 0, "batches before steps");
    c.need(!c.has(4), "sequences of different lengths");
    c.need(!c.node.has("clip"), "clipped gates");
    c.need(!c.node.has("activation_alpha") && !c.node.has("activation_beta"),
           "activations with parameters");
    const Dims x = c.require_static(0, "a recurrent op");
    const Dims r = c.require_static(2, "a recurrent op");
    steps = x[0];
    batch = x[1];
    directions = r[0];
    hidden = r[2];
    c.need(steps >= 1 && steps <= kMaxSteps, "its steps are unrolled: 1 to 64 of them");
  }

  void need_activations(const std::vector<std::string>& wanted) const {
    const std::vector<std::string> given = c.node.attr_strings("activations");
    for (std::size_t i = 0; i < given.size(); ++i) {
      c.need(given[i] == wanted[i % wanted.size()], "other activations than the default ones");
    }
  }

  Direction direction(std::int64_t d) const {
    Direction out;
    const std::string way = need_string(c.node, "direction");
    out.reverse = way == "reverse" || (way == "bidirectional" && d == 1);
    const Value w = c.net.take(c.in(1), 0, d);
    out.inputs = c.net.matmul(c.in(0), w, false, true);
    out.recurrence = c.net.take(c.in(2), 0, d);
    if (c.has(3)) {
      const Value b = c.net.take(c.in(3), 0, d);
      const std::int64_t n = gates * hidden;
      out.input_bias = c.net.unsqueeze(c.net.slice(b, {0}, {n}, {1}), {0});
      out.state_bias = c.net.unsqueeze(c.net.slice(b, {n}, {n}, {1}), {0});
    }
    return out;
  }

  // [batch, hidden] at the start: operand `i`, or zeros.
  Value initial(std::size_t i, std::int64_t d) const {
    if (c.has(i)) return c.net.take(c.in(i), 0, d);
    return c.net.expand(c.net.scalar(c.dtype(0), 0.0, 2), {batch, hidden});
  }

  Value input_at(const Direction& d, std::int64_t step) const {
    const Value x = c.net.take(d.inputs, 0, step);
    return d.input_bias == nullptr ? x : c.net.binary(x, d.input_bias, EW::kSUM);
  }
  Value state_product(const Direction& d, Value h) const {
    const Value x = c.net.matmul(h, d.recurrence, false, true);
    return d.state_bias == nullptr ? x : c.net.binary(x, d.state_bias, EW::kSUM);
  }
  // Gate `k` of [batch, gates · hidden].
  Value gate(Value all, std::int64_t k) const {
    return c.net.slice(all, {0, k * hidden}, {batch, hidden}, {1, 1});
  }

  // Runs `step` over every direction and writes Y and Y_h; `state` starts as the hidden state.
  template <typename Begin, typename Step>
  void run(const Begin& begin, const Step& step) const {
    std::vector<Value> whole;
    std::vector<Value> last;
    for (std::int64_t d = 0; d < directions; ++d) {
      const Direction dir = direction(d);
      Value h = begin(d);
      std::vector<Value> outputs(static_cast<std::size_t>(steps));
      for (std::int64_t i = 0; i < steps; ++i) {
        const std::int64_t t = dir.reverse ? steps - 1 - i : i;
        h = step(dir, t, h);
        outputs[static_cast<std::size_t>(t)] = c.net.reshape(h, {1, 1, batch, hidden});
      }
      whole.push_back(outputs.size() == 1 ? outputs[0] : c.net.concat(outputs, 0));
      last.push_back(c.net.reshape(h, {1, batch, hidden}));
    }
    if (c.wants(0)) c.out(0, whole.size() == 1 ? whole[0] : c.net.concat(whole, 1));
    if (c.wants(1)) c.out(1, last.size() == 1 ? last[0] : c.net.concat(last, 0));
  }
};

// Gates in the order i, o, f, c.
void lstm(NodeContext& c) {
  const Recurrence r(c, 4);
  c.need(!c.has(7), "peepholes");
  c.need(c.attr("input_forget") == 0, "coupled gates");
  r.need_activations({"Sigmoid", "Tanh", "Tanh"});
  Value cell = nullptr;
  std::vector<Value> cells;
  r.run(
      [&](std::int64_t d) {
        if (d > 0) cells.push_back(cell);
        cell = r.initial(6, d);
        return r.initial(5, d);
      },
      [&](const Direction& dir, std::int64_t t, Value h) {
        const Value all = c.net.binary(r.input_at(dir, t), r.state_product(dir, h), EW::kSUM);
        const Value i = c.net.activation(r.gate(all, 0), ACT::kSIGMOID);
        const Value o = c.net.activation(r.gate(all, 1), ACT::kSIGMOID);
        const Value f = c.net.activation(r.gate(all, 2), ACT::kSIGMOID);
        const Value g = c.net.activation(r.gate(all, 3), ACT::kTANH);
        cell =
            c.net.binary(c.net.binary(f, cell, EW::kPROD), c.net.binary(i, g, EW::kPROD), EW::kSUM);
        return c.net.binary(o, c.net.activation(cell, ACT::kTANH), EW::kPROD);
      });
  cells.push_back(cell);
  if (!c.wants(2)) return;
  for (Value& v : cells) v = c.net.reshape(v, {1, r.batch, r.hidden});
  c.out(2, cells.size() == 1 ? cells[0] : c.net.concat(cells, 0));
}

// Gates in the order z, r, h.
void gru(NodeContext& c) {
  const Recurrence r(c, 3);
  r.need_activations({"Sigmoid", "Tanh"});
  const bool after = c.attr("linear_before_reset") != 0;
  r.run([&](std::int64_t d) { return r.initial(5, d); },
        [&](const Direction& dir, std::int64_t t, Value h) {
          const Value x = r.input_at(dir, t);
          const Value s = r.state_product(dir, h);
          const auto sigmoid = [&](std::int64_t k) {
            return c.net.activation(c.net.binary(r.gate(x, k), r.gate(s, k), EW::kSUM),
                                    ACT::kSIGMOID);
          };
          const Value z = sigmoid(0);
          const Value reset = sigmoid(1);
          Value candidate = nullptr;
          if (after) {
            candidate = c.net.binary(reset, r.gate(s, 2), EW::kPROD);
          } else {
            candidate = r.gate(r.state_product(dir, c.net.binary(reset, h, EW::kPROD)), 2);
          }
          const Value n =
              c.net.activation(c.net.binary(r.gate(x, 2), candidate, EW::kSUM), ACT::kTANH);
          // (1 - z) n + z h
          return c.net.binary(n, c.net.binary(z, c.net.binary(h, n, EW::kSUB), EW::kPROD),
                              EW::kSUM);
        });
}

void rnn(NodeContext& c) {
  const Recurrence r(c, 1);
  r.need_activations({"Tanh"});
  r.run([&](std::int64_t d) { return r.initial(5, d); },
        [&](const Direction& dir, std::int64_t t, Value h) {
          return c.net.activation(
              c.net.binary(r.input_at(dir, t), r.state_product(dir, h), EW::kSUM), ACT::kTANH);
        });
}

}  // namespace

void register_recurrent(LoweringTable& t) {
  t.add("LSTM", lstm);
  t.add("GRU", gru);
  t.add("RNN", rnn);
}

}  // namespace xrt::tensorrt
