// SPDX-License-Identifier: Apache-2.0
// If, Loop, Scan: their bodies are lowered into regions of stablehlo.if and stablehlo.while.
#include <fmt/format.h>

#include <string>

#include "engines/xla/lowering.h"
#include "engines/xla/lowerings/places.h"

namespace xrt::xla {

namespace {

Bound bound_to(const Hlo& value) {
  Bound bound;
  bound.plain = value;
  return bound;
}

void lower_if(NodeContext& c) {
  const auto then_graph = c.node.attr_graph("then_branch");
  const auto else_graph = c.node.attr_graph("else_branch");
  if (const Tensor* known = c.constant(0)) {
    const Hlos results =
        c.inline_graph(known->to_int64().at(0) != 0 ? *then_graph : *else_graph, {});
    for (std::size_t k = 0; k < results.size(); ++k) c.out(k, results[k]);
    return;
  }
  const Hlo predicate = c.b.reshape(c.in(0), {});
  Hlos first;
  const Hlos results = c.b.if_else(
      predicate, [&] { return first = c.inline_graph(*then_graph, {}); },
      [&] {
        const Hlos second = c.inline_graph(*else_graph, {});
        c.need(first.size() == second.size(), "the branches' counts of results");
        for (std::size_t k = 0; k < first.size(); ++k) {
          c.need(first[k].dtype == second[k].dtype && first[k].dims == second[k].dims,
                 fmt::format("the branches return {} and {}", describe(first[k]),
                             describe(second[k])));
        }
        return second;
      });
  for (std::size_t k = 0; k < results.size(); ++k) c.out(k, results[k]);
}

// What a body hands on must have the type that it was handed.
void check_carried(NodeContext& c, const Hlos& before, const Hlos& after, std::size_t skip) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Hlo& now = after[i + skip];
    c.need(
        before[i].dtype == now.dtype && before[i].dims == now.dims,
        fmt::format("a carried value changes from {} to {}", describe(before[i]), describe(now)));
  }
}

void lower_loop(NodeContext& c) {
  HloBuilder& b = c.b;
  const auto body = c.node.attr_graph("body");
  Hlos init{b.scalar(0, DType::kInt64)};
  init.push_back(c.has(1) ? b.reshape(c.in(1), {}) : b.scalar(1, DType::kBool));
  const Hlo limit = c.has(0) ? b.reshape(c.in(0), {}) : b.scalar(0x1p62, DType::kInt64);
  for (std::size_t i = 2; i < c.input_count(); ++i) init.push_back(c.in(i));
  const std::size_t carried = init.size() - 2;
  c.need(body->outputs().size() == carried + 1,
         "a loop's scan outputs have a length that is not known before the run");
  const Hlos results = b.while_loop(
      init,
      [&](const Hlos& now) { return b.binary("and", now[1], b.compare("LT", now[0], limit)); },
      [&](const Hlos& now) {
        std::vector<Bound> inputs;
        for (const Hlo& value : now) inputs.push_back(bound_to(value));
        const Hlos next = c.inline_graph(*body, inputs);
        check_carried(c, {now.begin() + 2, now.end()}, next, 1);
        Hlos out{b.binary_scalar("add", now[0], 1), b.reshape(next[0], {})};
        out.insert(out.end(), next.begin() + 1, next.end());
        return out;
      });
  for (std::size_t k = 0; k < carried; ++k) c.out(k, results[k + 2]);
}

void lower_scan(NodeContext& c) {
  HloBuilder& b = c.b;
  const auto body = c.node.attr_graph("body");
  const std::size_t scanned = at(c.attr("num_scan_inputs"));
  const std::size_t states = c.input_count() - scanned;
  const std::size_t produced = c.node.outputs.size() - states;
  const Dims in_axes = c.node.attr_ints("scan_input_axes", Dims(scanned, 0));
  const Dims in_directions = c.node.attr_ints("scan_input_directions", Dims(scanned, 0));
  const Dims out_axes = c.node.attr_ints("scan_output_axes", Dims(produced, 0));
  const Dims out_directions = c.node.attr_ints("scan_output_directions", Dims(produced, 0));
  c.need(scanned > 0, "no scanned operand");
  Hlos sequences;
  Dims axes;
  for (std::size_t i = 0; i < scanned; ++i) {
    sequences.push_back(c.in(states + i));
    axes.push_back(c.axis(in_axes[i], sequences.back().rank()));
  }
  const std::int64_t length = sequences[0].dims[at(axes[0])];
  c.need(length > 0, "nothing to scan");
  const Hlo one_less = b.scalar(static_cast<double>(length - 1), DType::kInt64);

  // One step at place `step`: the body's results.
  const auto run_body = [&](const Hlo& step, const Hlos& state) {
    std::vector<Bound> inputs;
    for (const Hlo& value : state) inputs.push_back(bound_to(value));
    for (std::size_t i = 0; i < scanned; ++i) {
      const Hlo& x = sequences[i];
      const Hlo place = in_directions[i] != 0 ? b.sub(one_less, step) : step;
      Hlos starts(x.dims.size(), b.scalar(0, DType::kInt64));
      starts[at(axes[i])] = place;
      Dims sizes = x.dims;
      sizes[at(axes[i])] = 1;
      Dims dims = x.dims;
      dims.erase(dims.begin() + axes[i]);
      inputs.push_back(bound_to(b.reshape(b.dynamic_slice(x, starts, sizes), dims)));
    }
    return c.inline_graph(*body, inputs);
  };

  Hlos init{b.scalar(0, DType::kInt64)};
  for (std::size_t i = 0; i < states; ++i) init.push_back(c.in(i));
  // One step's results, stacked along a leading axis that is moved to its place at the end.
  std::vector<Bound> first;
  for (std::size_t i = 0; i < states; ++i) first.push_back(bound_to(init[i + 1]));
  for (std::size_t i = 0; i < scanned; ++i) {
    Hlo element = sequences[i];
    element.dims.erase(element.dims.begin() + axes[i]);
    first.push_back(bound_to(element));
  }
  const Hlos types = c.nested_types(*body, first);
  c.need(types.size() == states + produced, "the body's count of results");
  for (std::size_t k = 0; k < produced; ++k) {
    Dims collected = types[states + k].dims;
    collected.insert(collected.begin(), length);
    init.push_back(b.splat(0, types[states + k].dtype, collected));
  }
  const Hlos results = b.while_loop(
      init,
      [&](const Hlos& now) {
        return b.compare("LT", now[0], b.scalar(static_cast<double>(length), DType::kInt64));
      },
      [&](const Hlos& now) {
        const Hlos state(now.begin() + 1, now.begin() + 1 + static_cast<std::ptrdiff_t>(states));
        const Hlos next = run_body(now[0], state);
        check_carried(c, state, next, 0);
        Hlos out{b.binary_scalar("add", now[0], 1)};
        out.insert(out.end(), next.begin(), next.begin() + static_cast<std::ptrdiff_t>(states));
        for (std::size_t k = 0; k < produced; ++k) {
          const Hlo& collected = now[1 + states + k];
          const Hlo& value = next[states + k];
          Dims dims = value.dims;
          dims.insert(dims.begin(), 1);
          Hlos starts(collected.dims.size(), b.scalar(0, DType::kInt64));
          starts[0] = out_directions[k] != 0 ? b.sub(one_less, now[0]) : now[0];
          out.push_back(b.dynamic_update_slice(collected, b.reshape(value, dims), starts));
        }
        return out;
      });
  for (std::size_t k = 0; k < states; ++k) c.out(k, results[k + 1]);
  for (std::size_t k = 0; k < produced; ++k) {
    const Hlo& collected = results[1 + states + k];
    const std::int64_t axis = c.axis(out_axes[k], collected.rank());
    Dims permutation = range_dims(1, collected.rank());
    permutation.insert(permutation.begin() + axis, 0);
    c.out(states + k, b.transpose(collected, permutation));
  }
}

}  // namespace

void register_control(LoweringTable& t) {
  t.add("If", lower_if);
  t.add("Loop", lower_loop);
  t.add("Scan", lower_scan);
}

}  // namespace xrt::xla
