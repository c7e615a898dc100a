// SPDX-License-Identifier: Apache-2.0
#include "exec/control_flow.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include "base/interrupt.h"
#include "exec/body.h"
#include "exec/scan.h"
#include "placement/control_flow.h"

namespace xrt {
namespace {

bool truth(const Data& data) {
  const Tensor& condition = data.tensor();
  if (condition.dtype() != DType::kBool || condition.count() != 1) {
    throw Error(ErrorCode::kInvalidArgument, "the condition is no single bool");
  }
  return condition.data<std::uint8_t>()[0] != 0;
}

// A value that the node reads: an input of the function, a constant, or left out.
struct Operand {
  std::size_t input = 0;
  bool is_input = false;
  Data constant;

  const Data& get(std::span<const Data> inputs) const {
    return is_input ? inputs[input] : constant;
  }
};

class Flow : public ControlFlow {
 public:
  Flow(const Graph& graph, const ProgramOptions& options, const std::string& scope)
      : node_name_(graph.node(graph.nodes().at(0)).name), op_(graph.node(graph.nodes()[0]).op) {
    const NodeId id = graph.nodes()[0];
    const Node& node = graph.node(id);
    for (const ValueId v : node.inputs) operands_.push_back(operand(graph, v));
    // The returned values are those of the node's outputs that somebody reads.
    for (const ValueId v : graph.outputs()) {
      const Value& value = graph.value(v);
      returned_.push_back(static_cast<std::size_t>(value.output_index));
    }
    output_count_ = node.outputs.size();
    const std::vector<const Graph*> originals = Graph::subgraphs(node);
    for (auto& [attribute, body] : detached_bodies(graph, id)) {
      BodyPart part;
      const Graph& original = *originals.at(bodies_.size());
      part.declared = original.inputs().size();
      part.input_names.resize(part.declared);
      for (const Capture& c : original.captures()) {
        part.captures.push_back(operand(graph, c.outer));
        part.input_names.push_back(graph.value(c.outer).name);
      }
      ProgramOptions own = options;
      own.node_engines = overrides_within(options.node_engines, node_name_, attribute);
      const std::string name = node_name_ + "/" + attribute;
      if (!own.dump_dir.empty()) own.dump_dir /= file_name(name);
      part.body = std::make_unique<Body>(std::move(body), name, scope, std::move(own));
      bodies_.push_back(std::move(part));
    }
  }

  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const BodyPart& part : bodies_) bytes = std::max(bytes, part.body->workspace_bytes());
    return bytes;
  }

  void explain(Explanation& to) const override {
    for (const BodyPart& part : bodies_) part.body->explain(part.input_names, to);
  }

  bool has_checked_functions() const override {
    return std::any_of(bodies_.begin(), bodies_.end(),
                       [](const BodyPart& part) { return part.body->has_checked_functions(); });
  }

  void run(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
           RunRecord* record) const override {
    std::vector<Data> results(output_count_);
    for (std::size_t i = 0; i < outputs.size(); ++i) results[returned_[i]] = outputs[i];
    try {
      compute(inputs, results, profiler, record);
      for (std::size_t i = 0; i < outputs.size(); ++i) deliver(results[returned_[i]], outputs[i]);
    } catch (const Error& error) {
      throw Error(error.code(), "node '" + node_name_ + "' (" + op_ + "): " + error.what());
    }
  }

 protected:
  struct BodyPart {
    std::unique_ptr<Body> body;
    std::size_t declared = 0;  // inputs without captures
    std::vector<Operand> captures;
    std::vector<std::string> input_names;  // outer names of captures; "" for declared inputs
  };

  // `outputs` has one entry per output of the node; a tensor in it is an offer of memory. What is
  // set must be memory of its own, never that of an input.
  virtual void compute(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
                       RunRecord* record) const = 0;

  const BodyPart& part(std::size_t i) const { return bodies_[i]; }
  std::size_t operand_count() const { return operands_.size(); }
  const Data& operand(std::span<const Data> inputs, std::size_t i) const {
    static const Data kNone;
    return i < operands_.size() ? operands_[i].get(inputs) : kNone;
  }

  // Room for the body's inputs, its captures in place.
  std::vector<Data> body_inputs(const BodyPart& part, std::span<const Data> inputs) const {
    std::vector<Data> values(part.declared);
    for (const Operand& capture : part.captures) values.push_back(capture.get(inputs));
    return values;
  }

  // A carried value that no iteration has replaced is still the node's input.
  static Data own_copy(const Data& data) {
    return data.is_tensor() ? Data(data.tensor().clone()) : data;
  }

 private:
  static Operand operand(const Graph& graph, ValueId v) {
    if (!v.valid()) return {};
    if (const Tensor* constant = graph.constant(v)) return {0, false, *constant};
    const auto it = std::find(graph.inputs().begin(), graph.inputs().end(), v);
    if (it == graph.inputs().end()) {
      throw Error(ErrorCode::kInternal,
                  "the value '" + graph.value(v).name + "' comes from nowhere");
    }
    return {static_cast<std::size_t>(it - graph.inputs().begin()), true, {}};
  }

  static std::string file_name(std::string name) {
    std::replace(name.begin(), name.end(), '/', '.');
    return name;
  }

  void deliver(Data& result, Data& output) const {
    if (!output.is_tensor()) {
      output = std::move(result);
      return;
    }
    const Tensor& from = std::as_const(result).tensor();
    Tensor& to = output.tensor();
    if (from.raw() == to.raw() && from.dims() == to.dims()) return;
    if (from.dtype() != to.dtype() || from.dims() != to.dims()) {
      throw Error(ErrorCode::kInvalidModel,
                  "an output was to be " + std::string(to_string(to.dtype())) +
                      to_string(to.dims()) + " and turned out " +
                      std::string(to_string(from.dtype())) + to_string(from.dims()));
    }
    if (from.dtype() == DType::kString) {
      std::copy_n(from.strings(), from.count(), to.strings());
    } else if (from.bytes() > 0) {
      std::memcpy(to.raw(), from.raw(), from.bytes());
    }
  }

  std::string node_name_, op_;
  std::vector<Operand> operands_;
  std::vector<std::size_t> returned_;  // function output → output of the node
  std::size_t output_count_ = 0;
  std::vector<BodyPart> bodies_;
};

class IfFlow final : public Flow {
 public:
  using Flow::Flow;

 private:
  void compute(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
               RunRecord* record) const override {
    // In order of attribute name: else_branch, then_branch.
    const BodyPart& taken = part(truth(operand(inputs, 0)) ? 1 : 0);
    const std::vector<Data> values = body_inputs(taken, inputs);
    std::vector<Data> results(outputs.begin(), outputs.end());
    results.resize(taken.body->output_count());
    BodyRun run(*taken.body, profiler, record);
    run(values, results);
    std::move(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(outputs.size()),
              outputs.begin());
  }
};

// The values that iterations hand on. Memory that a value leaves behind is offered to the body two
// iterations later, so that a loop allocates nothing once it runs.
class CarriedValues {
 public:
  explicit CarriedValues(std::size_t count) : is_ours_(count, false) {}

  // Moves what iteration n wrote to what iteration n + 1 reads.
  void hand_on(std::size_t i, Data& read, Data& written) {
    Data old = std::exchange(read, std::move(written));
    written = is_ours_[i] && is_free(old) ? std::move(old) : Data{};
    is_ours_[i] = true;
  }
  bool is_ours(std::size_t i) const { return is_ours_[i]; }

  // Nobody else can see its memory.
  static bool is_free(const Data& data) {
    if (!data.is_tensor()) return false;
    const Tensor& tensor = data.tensor();
    return tensor.dtype() != DType::kString && tensor.owner().use_count() == 1;
  }

 private:
  std::vector<bool> is_ours_;  // made by the body, not the caller's
};

class LoopFlow final : public Flow {
 public:
  using Flow::Flow;

 private:
  static Tensor shaped(DType dtype, const Type& declared) {
    const bool is_vector = declared.has_rank() && declared.rank() == 1;
    return Tensor::allocate(dtype, is_vector ? Dims{1} : Dims{});
  }

  void compute(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
               RunRecord* record) const override {
    const BodyPart& part = this->part(0);
    Body& body = *part.body;
    const std::size_t carried = part.declared - 2;
    const std::size_t scanned = body.output_count() - 1 - carried;
    std::int64_t trips = std::numeric_limits<std::int64_t>::max();
    if (const Data& limit = operand(inputs, 0); !limit.is_none()) {
      const std::vector<std::int64_t> values = limit.tensor().to_int64();
      if (values.size() != 1) {
        throw Error(ErrorCode::kInvalidArgument, "the trip count is no single number");
      }
      trips = values[0];
    }
    const Data& start = operand(inputs, 1);
    bool go_on = start.is_none() || truth(start);

    std::vector<Data> read = body_inputs(part, inputs);
    for (std::size_t i = 0; i < carried; ++i) read[2 + i] = operand(inputs, 2 + i);
    Tensor trip = shaped(DType::kInt64, body.input_type(0));
    Tensor condition = shaped(DType::kBool, body.input_type(1));
    condition.data<std::uint8_t>()[0] = 1;
    read[0] = trip;
    read[1] = condition;
    std::vector<ScanOutput> scans;
    for (std::size_t i = 0; i < scanned; ++i) {
      scans.emplace_back(carried + i < outputs.size() ? outputs[carried + i] : Data{}, trips);
    }
    std::vector<Data> written(body.output_count());
    CarriedValues values(carried);
    BodyRun run(body, profiler, record);
    for (std::int64_t t = 0; go_on && t < trips; ++t) {
      throw_if_interrupted();
      trip.data<std::int64_t>()[0] = t;
      run(read, written);
      go_on = truth(written[0]);
      for (std::size_t i = 0; i < scanned; ++i) {
        Data& part_written = written[1 + carried + i];
        scans[i].add(std::as_const(part_written).tensor());
        if (!CarriedValues::is_free(part_written)) part_written = Data{};
      }
      for (std::size_t i = 0; i < carried; ++i) values.hand_on(i, read[2 + i], written[1 + i]);
      if (!CarriedValues::is_free(written[0])) written[0] = Data{};
    }
    for (std::size_t i = 0; i < carried && i < outputs.size(); ++i) {
      outputs[i] = values.is_ours(i) ? std::move(read[2 + i]) : own_copy(read[2 + i]);
    }
    for (std::size_t i = 0; i < scanned && carried + i < outputs.size(); ++i) {
      outputs[carried + i] = scans[i].finish(body.output_type(1 + carried + i));
    }
  }
};

class ScanFlow final : public Flow {
 public:
  ScanFlow(const Graph& graph, const ProgramOptions& options, const std::string& scope)
      : Flow(graph, options, scope) {
    const Node& node = graph.node(graph.nodes()[0]);
    scanned_inputs_ = scanned_inputs(node);
    input_axes_ = node.attr_ints("scan_input_axes");
    input_directions_ = node.attr_ints("scan_input_directions");
    output_axes_ = node.attr_ints("scan_output_axes");
    output_directions_ = node.attr_ints("scan_output_directions");
  }

 private:
  void compute(std::span<const Data> inputs, std::span<Data> outputs, Profiler& profiler,
               RunRecord* record) const override {
    const BodyPart& part = this->part(0);
    Body& body = *part.body;
    const std::size_t states = operand_count() - scanned_inputs_;
    const std::size_t scanned = body.output_count() - states;
    std::vector<ScanInput> slices;
    for (std::size_t i = 0; i < scanned_inputs_; ++i) {
      slices.emplace_back(operand(inputs, states + i).tensor(), entry_or_zero(input_axes_, i),
                          entry_or_zero(input_directions_, i) != 0);
      if (slices[i].length() != slices[0].length()) {
        throw Error(ErrorCode::kInvalidArgument, "the scanned inputs have different lengths: " +
                                                     std::to_string(slices[0].length()) + " and " +
                                                     std::to_string(slices[i].length()));
      }
    }
    const std::int64_t length = slices[0].length();
    std::vector<ScanOutput> scans;
    for (std::size_t i = 0; i < scanned; ++i) {
      scans.emplace_back(states + i < outputs.size() ? outputs[states + i] : Data{}, length,
                         entry_or_zero(output_axes_, i), entry_or_zero(output_directions_, i) != 0);
    }
    std::vector<Data> read = body_inputs(part, inputs);
    for (std::size_t i = 0; i < states; ++i) read[i] = operand(inputs, i);
    std::vector<Data> written(body.output_count());
    CarriedValues values(states);
    BodyRun run(body, profiler, record);
    for (std::int64_t t = 0; t < length; ++t) {
      throw_if_interrupted();
      for (std::size_t i = 0; i < scanned_inputs_; ++i) read[states + i] = slices[i].at(t);
      run(read, written);
      for (std::size_t i = 0; i < scanned; ++i) {
        Data& part_written = written[states + i];
        scans[i].add(std::as_const(part_written).tensor());
        if (!CarriedValues::is_free(part_written)) part_written = Data{};
      }
      for (std::size_t i = 0; i < states; ++i) values.hand_on(i, read[i], written[i]);
    }
    for (std::size_t i = 0; i < states && i < outputs.size(); ++i) {
      outputs[i] = values.is_ours(i) ? std::move(read[i]) : own_copy(read[i]);
    }
    for (std::size_t i = 0; i < scanned && states + i < outputs.size(); ++i) {
      outputs[states + i] = scans[i].finish(body.output_type(states + i));
    }
  }

  std::size_t scanned_inputs_ = 0;
  std::vector<std::int64_t> input_axes_, input_directions_, output_axes_, output_directions_;
};

}  // namespace

std::shared_ptr<const ControlFlow> make_control_flow(const Graph& function,
                                                     const ProgramOptions& options,
                                                     const std::string& scope) {
  const std::vector<NodeId> nodes = function.nodes();
  if (nodes.size() != 1) {
    throw Error(ErrorCode::kInternal,
                "the runtime was given a function of " + std::to_string(nodes.size()) + " nodes");
  }
  if (const Support answer = can_drive(function, nodes[0]); !answer) {
    throw Error(ErrorCode::kUnsupported,
                "node '" + function.node(nodes[0]).name + "': " + answer.reason());
  }
  const std::string& op = function.node(nodes[0]).op;
  if (op == "If") return std::make_shared<IfFlow>(function, options, scope);
  if (op == "Loop") return std::make_shared<LoopFlow>(function, options, scope);
  return std::make_shared<ScanFlow>(function, options, scope);
}

}  // namespace xrt
