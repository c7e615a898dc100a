// SPDX-License-Identifier: Apache-2.0
// Ops that write where an operand says, and ops that go along an axis element by element.
#include <fmt/format.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engines/cuda/code.h"
#include "engines/cuda/lowering.h"
#include "engines/cuda/lowerings/places.h"

namespace xrt::cuda {
namespace scatters {
namespace {

// Of elements that several threads may change: change(to, f) writes f of what is there.
constexpr const char* kChange = R"(
template <typename T, typename Word, typename F>
__device__ inline void change_word(Word* at, int shift, const F& f) {
  Word old = *at, seen;
  do {
    seen = old;
    T value;
    const Word part = seen >> shift;
    memcpy(&value, &part, sizeof(T));
    value = f(value);
    Word made = 0;
    memcpy(&made, &value, sizeof(T));
    Word mask = sizeof(T) == sizeof(Word) ? ~(Word)0 : (((Word)1 << (8 * (int)sizeof(T) % 64)) - 1) << shift;
    old = atomicCAS(at, seen, (seen & ~mask) | (made << shift));
  } while (old != seen);
}
template <typename T, typename F> __device__ inline void change(T* to, const F& f) {
  if constexpr (sizeof(T) == 8) {
    change_word<T>((unsigned long long*)to, 0, f);
  } else if constexpr (sizeof(T) == 4) {
    change_word<T>((unsigned*)to, 0, f);
  } else {
    const unsigned long long place = (unsigned long long)to;
    change_word<T>((unsigned*)(place & ~3ull), (int)(place & 3ull) * 8, f);
  }
}
)";

// Counted from the end where it is negative. What is out of range is written nowhere.
std::string index_of(std::size_t number, const std::string& element, std::int64_t size) {
  return fmt::format(
      "i64 k{0} = (i64){1};\nk{0} = k{0} < 0 ? k{0} + {2}ll : k{0};\n"
      "if (k{0} < 0 || k{0} >= {2}ll) return;\n",
      number, element, size);
}

Support supports_scatter(const GraphView& graph, const NodeView& node) {
  const std::string reduction = node.attr_string("reduction", "none");
  if (reduction != "none" && graph.type(node.input(0)).dtype() == DType::kBool) {
    return Support::no("there is no kernel of its reduction for bool");
  }
  return Support::yes();
}

// One thread per element of the last operand; `place` gives the coordinates it goes to, behind the
// statements that find them.
template <typename Place>
void scatter(Planner& planner, const NodeView& node, const Place& place_of) {
  const View data = planner.view(node.input(0)), indices = planner.view(node.input(1)),
             updates = planner.view(node.input(2));
  const View to = planner.temporary_for(node.output(0));
  planner.copy(planner.what(), data, to);
  planner.define(node.output(0), to);
  std::vector<std::size_t> axes(updates.dims.size());
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  Space space;
  space.dims = updates.dims;
  space.strides = {updates.strides};
  if (space.dims.empty()) space.dims = {1}, space.strides[0] = {0};
  const std::int64_t count = updates.count();
  space.wide = count >= std::int64_t{1} << 31;
  Coordinates names;
  for (const std::size_t axis : axes) names.push_back(fmt::format("(i64)c{}", axis));
  std::string text =
      fmt::format("const {0} i = ({0})blockIdx.x * {1}u + threadIdx.x;\nif (i >= {2}u) return;\n",
                  space.index_type(), kThreads, count);
  text += coordinates(space, "i");
  std::string finds;
  const Coordinates place = place_of(data, indices, names, finds);
  text += finds;
  const DType dtype = data.dtype;
  text += fmt::format("const {} v = {};\nauto* const there = q0 + ({});\n", computed_type(dtype),
                      loaded(dtype, fmt::format("p1[{}]", at(updates, names))), at(to, place));
  const std::string reduction = node.attr_string("reduction", "none");
  std::string made = "v";
  if (reduction == "add") made = "a + v";
  if (reduction == "mul") made = "a * v";
  if (reduction == "max") made = "larger(a, v)";
  if (reduction == "min") made = "smaller(a, v)";
  if (reduction == "none") {
    text += fmt::format("*there = {};\n", stored(dtype, made));
  } else {
    planner.define_code(kChange);
    const bool is_plain = reduction == "add" && dtype == DType::kFloat32;
    text += is_plain
                ? std::string("atomicAdd(there, v);\n")
                : fmt::format("change(there, [&]({0} old) {{ const {1} a = {2}; return {3}; }});\n",
                              stored_type(dtype), computed_type(dtype), loaded(dtype, "old"),
                              stored(dtype, fmt::format("({})({})", computed_type(dtype), made)));
  }
  planner.kernel(planner.what(),
                 {static_cast<unsigned>((count + kThreads - 1) / kThreads), 1, 1, kThreads},
                 {indices, updates}, {to}, text);
}

void scatter_elements(Planner& planner, const NodeView& node) {
  scatter(planner, node,
          [&](const View& data, const View& indices, const Coordinates& c, std::string& finds) {
            const std::size_t axis = axis_of(node, data.dims.size());
            finds = index_of(0, fmt::format("p0[{}]", at(indices, c)), data.dims[axis]);
            Coordinates place = c;
            place[axis] = "k0";
            return place;
          });
}

void scatter_nd(Planner& planner, const NodeView& node) {
  scatter(planner, node,
          [](const View& data, const View& indices, const Coordinates& c, std::string& finds) {
            const auto outer = static_cast<std::ptrdiff_t>(indices.dims.size() - 1);
            Coordinates tuple(c.begin(), c.begin() + outer), place;
            tuple.emplace_back();
            for (std::int64_t i = 0; i < indices.dims.back(); ++i) {
              const auto axis = static_cast<std::size_t>(i);
              tuple.back() = fmt::format("{}", i);
              finds += index_of(axis, fmt::format("p0[{}]", at(indices, tuple)), data.dims[axis]);
              place.push_back(fmt::format("k{}", i));
            }
            place.insert(place.end(), c.begin() + outer, c.end());
            return place;
          });
}

void gather_nd(Planner& planner, const NodeView& node) {
  const View from = planner.view(node.input(0)), indices = planner.view(node.input(1));
  const View to = planner.temporary_for(node.output(0));
  const auto batches = static_cast<std::size_t>(node.attr_int("batch_dims", 0));
  planner.elementwise(planner.what(), {from, indices}, to, [&](const Coordinates& c) {
    const auto outer = static_cast<std::ptrdiff_t>(indices.dims.size() - 1);
    Coordinates tuple(c.begin(), c.begin() + outer);
    Coordinates source(c.begin(), c.begin() + static_cast<std::ptrdiff_t>(batches));
    tuple.emplace_back();
    std::string text;
    for (std::int64_t i = 0; i < indices.dims.back(); ++i) {
      const std::int64_t size = from.dims[batches + static_cast<std::size_t>(i)];
      tuple.back() = fmt::format("{}", i);
      text += fmt::format(
          "i64 k{0} = (i64)p1[{1}];\nk{0} = k{0} < 0 ? k{0} + {2}ll : k{0};\n"
          "k{0} = k{0} < 0 ? 0 : k{0} >= {2}ll ? {2}ll - 1 : k{0};\n",
          i, at(indices, tuple), size);
      source.push_back(fmt::format("k{}", i));
    }
    source.insert(source.end(), c.begin() + outer, c.end());
    return text + fmt::format("q0[at] = p0[{}];\n", at(from, source));
  });
  planner.define(node.output(0), to);
}

// --- along an axis ---

// One thread per line along `axis`; the body finds an element e of the line at "from + e * step"
// (of p0) and "at + e * {to's stride}" (of q0).
template <typename Body>
void along_axis(Planner& planner, const NodeView& node, std::size_t axis, const Body& body) {
  const View from = planner.view(node.input(0));
  const View to = planner.temporary_for(node.output(0));
  View lines = to;
  lines.dims[axis] = 1;
  planner.elementwise(planner.what(), {from}, lines, [&](const Coordinates& c) {
    Coordinates first = c;
    first[axis] = "0";
    return fmt::format("const auto* from = p0 + ({});\n", at(from, first)) +
           body(from.dims[axis], from.strides[axis], to.strides[axis]);
  });
  planner.define(node.output(0), to);
}

Support supports_running(const GraphView& graph, const NodeView& node) {
  if (graph.type(node.input(0)).dtype() == DType::kBool) {
    return Support::no("there is no kernel of it for bool");
  }
  return Support::yes();
}

// Along an axis that an operand names: each element by itself.
void running_along(Planner& planner, const NodeView& node, const char* combine, const char* first) {
  const View from = planner.view(node.input(0)), axis = planner.view(node.input(1));
  const View to = planner.temporary_for(node.output(0));
  const bool is_reverse = node.attr_int("reverse", 0) != 0;
  const int is_exclusive = node.attr_int("exclusive", 0) != 0 ? 1 : 0;
  planner.elementwise(planner.what(), {from, axis}, to, [&](const Coordinates& c) {
    std::string text = fmt::format(
        "const i64 given = (i64)p1[0], axis = given < 0 ? given + {}ll : given;\n"
        "i64 place = 0, size = 1, step = 0;\n",
        c.size());
    for (std::size_t i = 0; i < c.size(); ++i) {
      text += fmt::format("if (axis == {}) place = {}, size = {}ll, step = {}ll;\n", i, c[i],
                          from.dims[i], from.strides[i]);
    }
    text += fmt::format("{} all = {};\nconst auto* line = p0 + ({}) - place * step;\n",
                        computed_type(from.dtype), first, at(from, c));
    text += is_reverse ? fmt::format("for (i64 e = size - 1; e >= place + {}; --e) ", is_exclusive)
                       : fmt::format("for (i64 e = 0; e <= place - {}; ++e) ", is_exclusive);
    return text + fmt::format("all = all {} {};\nq0[at] = {};\n", combine,
                              loaded(from.dtype, "line[e * step]"), stored(from.dtype, "all"));
  });
  planner.define(node.output(0), to);
}

void running(Planner& planner, const NodeView& node, const char* combine, const char* first) {
  if (!is_constant(planner.graph(), node, 1)) {
    running_along(planner, node, combine, first);
    return;
  }
  const View from = planner.view(node.input(0));
  const std::int64_t given = numbers(planner.graph(), node, 1).front();
  const auto rank = static_cast<std::int64_t>(from.dims.size());
  const bool is_reverse = node.attr_int("reverse", 0) != 0;
  const bool is_exclusive = node.attr_int("exclusive", 0) != 0;
  along_axis(planner, node, static_cast<std::size_t>(given < 0 ? given + rank : given),
             [&](std::int64_t size, std::int64_t step, std::int64_t to_step) {
               const std::string value = loaded(from.dtype, fmt::format("from[e * {}ll]", step));
               const std::string keep =
                   fmt::format("q0[at + e * {}ll] = {};\n", to_step, stored(from.dtype, "all"));
               const std::string add = fmt::format("all = all {} {};\n", combine, value);
               return fmt::format(
                          "{} all = {};\nfor (i64 n = 0; n < {}ll; ++n) {{\nconst i64 e = {};\n",
                          computed_type(from.dtype), first, size,
                          is_reverse ? fmt::format("{}ll - n", size - 1) : "n") +
                      (is_exclusive ? keep + add : add + keep) + "}\n";
             });
}

// 1 where the first of the largest lies, else 0.
void hardmax(Planner& planner, const NodeView& node) {
  const View from = planner.view(node.input(0));
  along_axis(
      planner, node, axis_of(node, from.dims.size(), -1),
      [&](std::int64_t size, std::int64_t step, std::int64_t to_step) {
        const std::string value = loaded(from.dtype, fmt::format("from[e * {}ll]", step));
        return fmt::format(
            "i64 e = 0, where = 0;\n{0} most = {1};\n"
            "for (e = 1; e < {2}ll; ++e) {{ const {0} v = {1}; if (v > most) most = v, where "
            "= e; }}\n"
            "for (e = 0; e < {2}ll; ++e) q0[at + e * {3}ll] = {4};\n",
            computed_type(from.dtype), value, size, to_step,
            stored(from.dtype, "(e == where ? 1 : 0)"));
      });
}

// Divided by its norm; zeros stay.
void normalise(Planner& planner, const NodeView& node) {
  const View from = planner.view(node.input(0));
  const bool is_first = node.attr_int("p", 2) == 1;
  const std::string type = from.dtype == DType::kFloat64 ? "double" : "float";
  along_axis(
      planner, node, axis_of(node, from.dims.size(), -1),
      [&](std::int64_t size, std::int64_t step, std::int64_t to_step) {
        const std::string value = loaded(from.dtype, fmt::format("from[e * {}ll]", step));
        return fmt::format(
            "{0} sum = 0;\nfor (i64 e = 0; e < {1}ll; ++e) {{ const {0} v = {2}; sum += {3}; "
            "}}\n{4}"
            "for (i64 e = 0; e < {1}ll; ++e) q0[at + e * {5}ll] = {6};\n",
            type, size, value, is_first ? "v < 0 ? -v : v" : "v * v",
            is_first ? "" : "sum = sqrt(sum);\n", to_step,
            stored(from.dtype, fmt::format("(sum == 0 ? ({}){} : {} / sum)", type, "0", value)));
      });
}

Support supports_bit_cast(const GraphView& graph, const NodeView& node) {
  const DType from = graph.type(node.input(0)).dtype(), to = graph.type(node.output(0)).dtype();
  if (bytes_of(from) == bytes_of(to)) return Support::yes();
  return Support::no("its types are of several sizes");
}

void bit_cast(Planner& planner, const NodeView& node) {
  View same = planner.dense(node.input(0));
  same.dtype = planner.graph().type(node.output(0)).dtype();
  planner.define(node.output(0), same);
}

}  // namespace
}  // namespace scatters

void add_scatters(LoweringRegistry& registry) {
  registry.add("ScatterElements",
               {.supports = scatters::supports_scatter, .emit = scatters::scatter_elements});
  registry.add("ScatterND", {.supports = scatters::supports_scatter, .emit = scatters::scatter_nd});
  registry.add("BitCast", {.supports = scatters::supports_bit_cast, .emit = scatters::bit_cast});
  registry.add("GatherND", {.emit = scatters::gather_nd});
  registry.add("CumSum", {.supports = scatters::supports_running,
                          .emit = [](Planner& planner, const NodeView& node) {
                            scatters::running(planner, node, "+", "0");
                          }});
  registry.add("CumProd", {.supports = scatters::supports_running,
                           .emit = [](Planner& planner, const NodeView& node) {
                             scatters::running(planner, node, "*", "1");
                           }});
  registry.add("Hardmax", {.supports = needs_floats, .emit = scatters::hardmax});
  registry.add("LpNormalization", {.supports = needs_floats, .emit = scatters::normalise});
}

}  // namespace xrt::cuda
