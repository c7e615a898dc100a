// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan: their bodies are executables of their own.
#include <algorithm>
#include <optional>

#include "base/interrupt.h"
#include "base/work_scope.h"
#include "device/thread_gate.h"
#include "engines/native/context.h"
#include "engines/native/executable.h"
#include "engines/native/kernels/common/axes.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/register.h"
#include "engines/native/scratch.h"
#include "ir/attributes.h"
#include "ops/shape_inference.h"

namespace xrt::native {

namespace {

struct Body {
  std::shared_ptr<const NativeExecutable> executable;
  std::size_t inputs = 0;  // declared, without captures
  std::size_t outputs = 0;
  std::size_t first_capture = 0;  // position among the node's inputs
  std::size_t captures = 0;
  std::vector<Type> input_types;  // of the declared ones
  std::vector<Type> output_types;
  std::shared_ptr<const Graph> graph;  // where some of these are open: without its large constants
};

struct BodyContexts final : KernelState {
  std::vector<std::unique_ptr<RunContext>> contexts;
};

class BodyKernel : public Kernel {
 public:
  explicit BodyKernel(const KernelCreateContext& create)
      : Kernel({.allocates = false, .retains_inputs = true}), inputs_(create.input_count()) {
    std::size_t next = inputs_;
    const bool is_loop = create.node().op == "Loop";
    for (const Graph* given : Graph::subgraphs(create.node())) {
      std::optional<Graph> open;
      if (is_loop) open = with_open_sizes(*given);
      const Graph* graph = open ? &*open : given;
      Body body{std::static_pointer_cast<const NativeExecutable>(create.compile_body(*graph)),
                graph->inputs().size(),
                graph->outputs().size(),
                next,
                graph->captures().size(),
                {},
                {},
                nullptr};
      for (const ValueId id : graph->inputs()) body.input_types.push_back(graph->type(id));
      for (const ValueId id : graph->outputs()) body.output_types.push_back(graph->type(id));
      const bool collects = create.node().op != "If";
      if (collects && std::any_of(body.output_types.begin(), body.output_types.end(), is_open)) {
        body.graph = without_large_constants(*graph);
      }
      next += body.captures;
      bodies_.push_back(std::move(body));
    }
  }

  std::unique_ptr<KernelState> make_state() const override {
    auto state = std::make_unique<BodyContexts>();
    for (const Body& body : bodies_) state->contexts.push_back(body.executable->create_context());
    return state;
  }

  std::size_t weight_bytes() const override {
    std::size_t bytes = 0;
    for (const Body& body : bodies_) bytes += body.executable->weight_bytes();
    return bytes;
  }

 protected:
  const Body& body(std::size_t i) const { return bodies_.at(i); }
  std::size_t node_inputs() const { return inputs_; }

  // What a body reads. The declared inputs are given to it.
  struct Inputs {
    std::vector<Data> values;
    std::vector<InputUse> uses;
  };

  static Inputs declared_inputs(const Body& body) {
    return {std::vector<Data>(body.inputs), std::vector<InputUse>(body.inputs, InputUse::kGiven)};
  }

  // Appends the captured values. `once`: no other run of a body reads them.
  static void add_captures(const KernelContext& k, const Body& body, bool once, Inputs& inputs) {
    for (std::size_t i = 0; i < body.captures; ++i) {
      const std::size_t at = body.first_capture + i;
      const bool borrowed = k.is_borrowed(at);
      inputs.values.push_back(borrowed || !once ? k.input_data(at) : k.taken_input(at));
      inputs.uses.push_back(borrowed ? InputUse::kBorrowed
                            : once   ? InputUse::kGiven
                                     : InputUse::kShared);
    }
  }

  std::vector<Data> run_body(const KernelContext& k, std::size_t i, Inputs& inputs) const {
    const std::vector<Type>& declared = bodies_[i].input_types;
    for (std::size_t n = 0; n < declared.size(); ++n) check_shape(declared[n], inputs.values[n], n);
    std::vector<Data> outputs(bodies_[i].outputs);
    bodies_[i].executable->run_body(*k.state<BodyContexts>().contexts[i], inputs.values,
                                    inputs.uses, outputs);
    return outputs;
  }

  static Type type_of(DType dtype, const Dims& dims) {
    return Type::tensor(dtype, Shape(dims.begin(), dims.end()));
  }

  // Of what a body is given; of nothing where that is no tensor.
  static std::vector<Type> types_of(const Inputs& inputs) {
    std::vector<Type> types(inputs.values.size());
    for (std::size_t n = 0; n < types.size(); ++n) {
      if (!inputs.values[n].is_tensor()) continue;
      const Tensor& given = inputs.values[n].tensor();
      types[n] = type_of(given.dtype(), given.dims());
    }
    return types;
  }

  // Of the outputs of a body that is not run: where no turn is taken, the sizes of what would be
  // collected follow from those of its inputs.
  static std::vector<Type> output_types(const Body& body, const std::vector<Type>& given) {
    if (body.graph == nullptr) return body.output_types;
    Graph graph(*body.graph);
    for (std::size_t n = 0; n < given.size(); ++n) {
      if (!given[n].is_tensor() || !given[n].has_rank()) continue;
      const ValueId id =
          n < body.inputs ? graph.inputs()[n] : graph.captures()[n - body.inputs].inner;
      graph.set_type(id, given[n]);
    }
    try {
      infer_shapes(graph, /*reset=*/true);
    } catch (const Error& error) {
      const bool misfits =
          error.code() == ErrorCode::kInvalidModel || error.code() == ErrorCode::kInvalidArgument;
      if (!misfits) throw;
      return body.output_types;  // no turn is taken: what it would have said is no error
    }
    std::vector<Type> types;
    for (std::size_t n = 0; n < body.outputs; ++n) types.push_back(graph.type(graph.outputs()[n]));
    return types;
  }

 private:
  static bool is_open(const Type& type) { return type.is_tensor() && !type.is_static(); }

  static std::shared_ptr<const Graph> without_large_constants(const Graph& body) {
    constexpr std::size_t kSmallBytes = 4096;
    auto copy = std::make_shared<Graph>(body);
    const std::vector<ValueId> constants = copy->constants();
    for (const ValueId v : constants) {
      if (copy->constant(v)->bytes() <= kSmallBytes) continue;
      copy->replace_uses(v, copy->add_input({}, copy->type(v)));
      copy->remove_value(v);
    }
    return copy;
  }

  // Sizes that a body declares of what it carries, and does not surely make, change from turn to
  // turn, maybe. Nothing where there are none.
  static std::optional<Graph> with_open_sizes(const Graph& body) {
    Graph open(body);
    if (!loosen_carried(open, /*unsure=*/true)) return std::nullopt;
    int turn = 0;
    do {
      if (turn++ == kMostLoosenings) forget_carried(open);
      infer_shapes(open, /*reset=*/true);
    } while (loosen_carried(open, /*unsure=*/true));
    return open;
  }

  // Kernels of the body rely on the sizes that its inputs are declared with.
  static void check_shape(const Type& declared, const Data& given, std::size_t n) {
    if (!declared.is_tensor() || !declared.has_rank() || !given.is_tensor()) return;
    const Dims& dims = given.tensor().dims();
    bool is_right = dims.size() == declared.rank();
    for (std::size_t a = 0; is_right && a < dims.size(); ++a) {
      const Dim& size = (*declared.shape)[a];
      is_right = !size.is_known() || size.value() == dims[a];
    }
    if (is_right) return;
    fail("input " + std::to_string(n) + " of the body is declared " + to_string(declared) +
         ", and is given " + shape_text(dims));
  }

  std::vector<Body> bodies_;
  std::size_t inputs_;
};

bool truth(const Tensor& condition) {
  if (condition.dtype() != DType::kBool || condition.count() != 1) {
    fail("the condition is no single bool");
  }
  return condition.data<std::uint8_t>()[0] != 0;
}

class IfKernel final : public BodyKernel {
 public:
  using BodyKernel::BodyKernel;
  void run(KernelContext& k) const override {
    // In order of attribute name: else_branch, then_branch.
    const std::size_t branch = truth(k.input(0)) ? 1 : 0;
    Inputs inputs;
    add_captures(k, body(branch), /*once=*/true, inputs);
    std::vector<Data> outputs = run_body(k, branch, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) k.set_output(i, std::move(outputs[i]));
  }
};

// The parts of one scanned output, joined along a new axis.
class Stack {
 public:
  void add(const Tensor& part) {
    if (count_ == 0) first_ = part;
    if (part.dims() != first_.dims() || part.dtype() != first_.dtype()) {
      fail("a scanned output changes its shape from " + shape_text(first_.dims()) + " to " +
           shape_text(part.dims()));
    }
    ++count_;
    if (is_small()) {
      const auto* bytes = static_cast<const std::byte*>(part.raw());
      small_.insert(small_.end(), bytes, bytes + part.bytes());
    } else {
      parts_.push_back(part);
    }
  }

  Tensor joined(std::int64_t given_axis, bool reverse, const Type& type) const {
    const std::int64_t count = count_;
    Dims part;
    if (count > 0) {
      part = first_.dims();
    } else if (type.has_rank()) {
      for (const Dim& dim : *type.shape) part.push_back(dim.is_known() ? dim.value() : 0);
    }
    const std::size_t axis = normalize_axis(given_axis, part.size() + 1);
    Dims dims = part;
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), count);
    Tensor y = allocate_checked(count == 0 ? type.dtype : first_.dtype(), dims);
    if (y.count() == 0) return y;
    const std::int64_t outer = product(part, 0, axis);
    const std::int64_t inner = product(part, axis, part.size());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto from = static_cast<std::size_t>(reverse ? count - 1 - i : i);
      const void* source = is_small() ? small_.data() + from * first_.bytes() : parts_[from].raw();
      for (std::int64_t o = 0; o < outer; ++o) {
        copy_elements(y.dtype(), source, o * inner, y.raw(), (o * count + i) * inner, inner);
      }
    }
    settle_characters(y);
    return y;
  }

 private:
  // Of small ones there may be millions: they lie side by side.
  bool is_small() const {
    constexpr std::size_t kSmallBytes = 4096;
    return first_.dtype() != DType::kString && !is_packed(first_.dtype()) &&
           first_.bytes() < kSmallBytes;
  }

  std::int64_t count_ = 0;
  Tensor first_;
  std::vector<Tensor> parts_;
  Scratch<std::byte> small_;
};

class LoopKernel final : public BodyKernel {
 public:
  using BodyKernel::BodyKernel;
  void run(KernelContext& k) const override {
    const Body& body = this->body(0);
    if (body.inputs < 2 || body.outputs < body.inputs - 1) fail("the body has too few values");
    const std::size_t carried = body.inputs - 2;
    const std::size_t scanned = body.outputs - 1 - carried;
    std::int64_t trips = INT64_MAX;
    if (k.has_input(0)) trips = k.input(0).to_int64().at(0);
    bool go_on = !k.has_input(1) || k.input_data(1).is_none() || truth(k.input(1));

    Inputs given = declared_inputs(body);
    std::vector<Data>& inputs = given.values;
    for (std::size_t i = 0; i < carried; ++i) {
      // An optional carried value may start absent.
      if (k.has_input(2 + i)) inputs[2 + i] = k.taken_input(2 + i);
    }
    add_captures(k, body, /*once=*/false, given);
    std::vector<Stack> stacks(scanned);
    Tensor condition = Tensor::allocate(DType::kBool, {});
    std::vector<Type> types = body.output_types;
    if (scanned > 0 && (!go_on || trips <= 0)) types = output_types(body, types_of(given));
    for (std::int64_t trip = 0; go_on && trip < trips; ++trip) {
      throw_if_interrupted();
      ThreadGate::give_way();
      condition.data<std::uint8_t>()[0] = 1;
      inputs[0] = Tensor::scalar(trip);
      inputs[1] = condition;
      std::vector<Data> outputs = run_body(k, 0, given);
      go_on = truth(outputs[0].tensor());
      for (std::size_t i = 0; i < carried; ++i) inputs[2 + i] = std::move(outputs[1 + i]);
      for (std::size_t i = 0; i < scanned; ++i) stacks[i].add(outputs[1 + carried + i].tensor());
    }
    for (std::size_t i = 0; i < carried; ++i) k.set_output(i, std::move(inputs[2 + i]));
    for (std::size_t i = 0; i < scanned; ++i) {
      if (!k.wants_output(carried + i)) continue;
      k.set_output(carried + i, stacks[i].joined(0, false, types[1 + carried + i]));
    }
  }
};

class ScanKernel final : public BodyKernel {
 public:
  explicit ScanKernel(const KernelCreateContext& create)
      : BodyKernel(create),
        scanned_inputs_(static_cast<std::size_t>(need_int(create.node(), "num_scan_inputs"))),
        input_axes_(create.node().attr_ints("scan_input_axes")),
        input_directions_(create.node().attr_ints("scan_input_directions")),
        output_axes_(create.node().attr_ints("scan_output_axes")),
        output_directions_(create.node().attr_ints("scan_output_directions")) {
    if (scanned_inputs_ < 1 || scanned_inputs_ > node_inputs()) {
      fail("'num_scan_inputs' does not fit the inputs");
    }
  }

  void run(KernelContext& k) const override {
    const Body& body = this->body(0);
    const std::size_t states = node_inputs() - scanned_inputs_;
    if (body.inputs != node_inputs() || body.outputs < states) fail("the body does not fit");
    const std::size_t scanned = body.outputs - states;
    std::optional<std::int64_t> length;
    for (std::size_t i = 0; i < scanned_inputs_; ++i) {
      const Tensor& x = k.input(states + i);
      const std::int64_t size = x.dims()[normalize_axis(at(input_axes_, i), x.rank())];
      if (length && *length != size) fail("the scanned inputs have different lengths");
      length = size;
    }
    Inputs given = declared_inputs(body);
    std::vector<Data>& inputs = given.values;
    for (std::size_t i = 0; i < states; ++i) inputs[i] = k.taken_input(i);
    add_captures(k, body, /*once=*/false, given);
    std::vector<Stack> stacks(scanned);
    std::vector<Type> types = body.output_types;
    if (*length == 0) {
      std::vector<Type> elements = types_of(given);
      for (std::size_t i = 0; i < scanned_inputs_; ++i) {
        const Tensor& x = k.input(states + i);
        Dims dims = x.dims();
        const std::size_t axis = normalize_axis(at(input_axes_, i), x.rank());
        dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
        elements[states + i] = type_of(x.dtype(), dims);
      }
      types = output_types(body, elements);
    }
    for (std::int64_t t = 0; t < *length; ++t) {
      throw_if_interrupted();
      ThreadGate::give_way();
      for (std::size_t i = 0; i < scanned_inputs_; ++i) {
        const std::int64_t step = at(input_directions_, i) != 0 ? *length - 1 - t : t;
        inputs[states + i] = slice(k, k.input(states + i), at(input_axes_, i), step);
      }
      std::vector<Data> outputs = run_body(k, 0, given);
      for (std::size_t i = 0; i < states; ++i) inputs[i] = std::move(outputs[i]);
      for (std::size_t i = 0; i < scanned; ++i) stacks[i].add(outputs[states + i].tensor());
    }
    for (std::size_t i = 0; i < states; ++i) k.set_output(i, std::move(inputs[i]));
    for (std::size_t i = 0; i < scanned; ++i) {
      if (!k.wants_output(states + i)) continue;
      k.set_output(states + i, stacks[i].joined(at(output_axes_, i), at(output_directions_, i) != 0,
                                                types[states + i]));
    }
  }

 private:
  static std::int64_t at(const std::vector<std::int64_t>& list, std::size_t i) {
    return i < list.size() ? list[i] : 0;
  }

  static Tensor slice(const KernelContext& k, const Tensor& x, std::int64_t given_axis,
                      std::int64_t index) {
    const std::size_t axis = normalize_axis(given_axis, x.rank());
    if (is_packed(x.dtype())) return packed_slice(x, axis, index);
    StridedView view{x.dims(), dense_strides(x.dims()), 0};
    view.offset = index * view.strides[axis];
    view.dims.erase(view.dims.begin() + static_cast<std::ptrdiff_t>(axis));
    view.strides.erase(view.strides.begin() + static_cast<std::ptrdiff_t>(axis));
    Tensor y = allocate_checked(x.dtype(), view.dims);
    copy_view(k, x.raw(), view, x.dtype(), y.raw());
    return y;
  }

  static Tensor packed_slice(const Tensor& x, std::size_t axis, std::int64_t index) {
    Dims dims = x.dims();
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
    Tensor y = allocate_checked(x.dtype(), dims);
    const std::int64_t outer = product(x.dims(), 0, axis);
    const std::int64_t inner = product(x.dims(), axis + 1, x.rank());
    for (std::int64_t o = 0; o < outer; ++o) {
      copy_elements(x.dtype(), x.raw(), (o * x.dims()[axis] + index) * inner, y.raw(), o * inner,
                    inner);
    }
    return y;
  }

  std::size_t scanned_inputs_;
  std::vector<std::int64_t> input_axes_, input_directions_, output_axes_, output_directions_;
};

template <typename T>
std::unique_ptr<Kernel> create_body_kernel(const KernelCreateContext& create) {
  return std::make_unique<T>(create);
}

}  // namespace

void register_control_flow_kernels(KernelRegistry& registry) {
  registry.add({.op = "If", .create = create_body_kernel<IfKernel>});
  registry.add({.op = "Loop", .create = create_body_kernel<LoopKernel>});
  registry.add({.op = "Scan", .create = create_body_kernel<ScanKernel>});
}

}  // namespace xrt::native
