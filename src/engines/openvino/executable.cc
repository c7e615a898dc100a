// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/executable.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <openvino/runtime/infer_request.hpp>
#include <sstream>
#include <vector>

#include "engine/handles.h"
#include "engines/openvino/convert.h"
#include "engines/openvino/integers.h"
#include "engines/openvino/library.h"
#include "engines/openvino/types.h"
#include "ops/op_facts.h"

namespace xrt::openvino {
namespace {

// Memory for ov::Tensors without elements, which may not point to nothing.
alignas(64) std::byte no_data[64];

ov::Tensor over(const ov::element::Type& type, const Dims& dims, const void* data) {
  // OpenVINO takes inputs as mutable tensors and does not write to them.
  void* pointer = const_cast<void*>(data);
  return ov::Tensor(type, to_shape(dims), pointer != nullptr ? pointer : no_data);
}

template <typename T>
bool fits(const Tensor& tensor, std::int64_t bound) {
  const T* values = tensor.data<T>();
  bool fit = true;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    if constexpr (std::is_signed_v<T>) {
      fit &= values[i] <= bound && values[i] >= -bound - 1;
    } else {
      fit &= values[i] <= static_cast<std::uint64_t>(bound);
    }
  }
  return fit;
}

bool fits(const Tensor& tensor, std::int64_t bound) {
  switch (tensor.dtype()) {
    case DType::kInt64:
      return fits<std::int64_t>(tensor, bound);
    case DType::kUInt64:
      return fits<std::uint64_t>(tensor, bound);
    case DType::kUInt32:
      return fits<std::uint32_t>(tensor, bound);
    case DType::kInt32:
      return fits<std::int32_t>(tensor, bound);
    default:
      return true;
  }
}

// That of an input; 0 for dtypes that need none.
std::int64_t bound_of(const Graph& graph, ValueId id, const std::vector<std::int64_t>& bounds) {
  const DType dtype = graph.type(id).dtype;
  if (!is_integer(dtype) || bit_width(dtype) < 32) return 0;
  const std::int64_t bound = bounds[static_cast<std::size_t>(id.index)];
  return dtype == DType::kInt32 && bound == std::numeric_limits<std::int32_t>::max() ? 0 : bound;
}

// What the plugin exports of a recurrent node of one direction computes other numbers for batches
// above 1 once it is imported (2026.4.1: batch and steps change places once too often).
bool exports_faithfully(const Graph& graph) {
  const std::vector<NodeId> nodes = graph.nodes();
  return std::none_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    const Node& node = graph.node(id);
    if (node.domain.empty() && (node.op == "LSTM" || node.op == "GRU" || node.op == "RNN")) {
      return true;
    }
    const auto bodies = Graph::subgraphs(node);
    return std::any_of(bodies.begin(), bodies.end(),
                       [](const Graph* body) { return !exports_faithfully(*body); });
  });
}

bool has_open_sizes(const Graph& graph) {
  const std::vector<NodeId> nodes = graph.nodes();
  const auto is_open = [&](ValueId v) {
    return v.valid() && graph.type(v).is_tensor() && !graph.type(v).is_static();
  };
  return std::any_of(graph.inputs().begin(), graph.inputs().end(), is_open) ||
         std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
           const Node& node = graph.node(id);
           const auto bodies = Graph::subgraphs(node);
           return std::any_of(node.outputs.begin(), node.outputs.end(), is_open) ||
                  std::any_of(bodies.begin(), bodies.end(),
                              [](const Graph* body) { return has_open_sizes(*body); });
         });
}

// Whether the value is a product of matrices, or one times a number: scores of an attention without
// a mask.
bool is_scaled_product(const Graph& graph, ValueId id) {
  while (id.valid() && graph.value(id).origin == Origin::kNode) {
    const Node& node = graph.node(graph.value(id).producer);
    if (!node.domain.empty()) return false;
    if (node.op == "MatMul") return true;
    if (node.op != "Mul" && node.op != "Div") return false;
    const auto is_number = [&](std::size_t i) {
      const Tensor* constant = graph.constant(node.inputs[i]);
      return constant != nullptr && constant->count() == 1;
    };
    if (!is_number(0) && !is_number(1)) return false;
    id = node.inputs[is_number(0) ? 1 : 0];
  }
  return false;
}

// Open sizes that a node takes sums or extrema of such scores over.
void add_summed_sizes(const Graph& graph, const Node& node, std::vector<Dim>& sizes) {
  const bool is_softmax = node.op == "Softmax" || node.op == "LogSoftmax";
  if (!node.domain.empty() || (!is_softmax && !node.op.starts_with("Reduce"))) return;
  const Type& type = graph.type(node.input(0));
  if (!is_scaled_product(graph, node.input(0)) || !type.has_rank()) return;
  for (const Dim& dim : *type.shape) {
    if (!dim.is_known() && (!is_softmax || &dim == &type.shape->back())) sizes.push_back(dim);
  }
}

std::vector<Dim> summed_sizes(const Graph& graph) {
  std::vector<Dim> sizes;
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    add_summed_sizes(graph, node, sizes);
    for (const Graph* body : Graph::subgraphs(node)) {
      const std::vector<Dim> inner = summed_sizes(*body);
      sizes.insert(sizes.end(), inner.begin(), inner.end());
    }
  }
  return sizes;
}

bool overlap(const Tensor& a, const Tensor& b) {
  const auto* a0 = static_cast<const std::byte*>(a.raw());
  const auto* b0 = static_cast<const std::byte*>(b.raw());
  return a0 < b0 + b.bytes() && b0 < a0 + a.bytes();
}

// Puts `tensor` where the caller wants it.
void deliver(const Tensor& tensor, Data& output) {
  if (output.is_none()) {
    output = tensor.clone();
    return;
  }
  Tensor& target = output.tensor();
  if (target.raw() == tensor.raw()) return;
  if (target.dims() != tensor.dims()) {
    throw Error(ErrorCode::kInvalidArgument, "openvino: an output has shape " +
                                                 to_string(tensor.dims()) + ", its memory " +
                                                 to_string(target.dims()));
  }
  if (tensor.bytes() > 0) std::memmove(target.raw(), tensor.raw(), tensor.bytes());
}

}  // namespace

// One request, and what it is bound to: binding again costs more than a small run.
struct OpenVinoExecutable::Request {
  Request(ov::CompiledModel& model, std::size_t inputs, std::size_t outputs)
      : infer(model.create_infer_request()), bound_inputs(inputs), bound_outputs(outputs) {}

  struct Binding {
    const void* data = nullptr;
    Dims dims;
    bool is(const void* other, const Dims& other_dims) const {
      return data == other && dims == other_dims;
    }
  };

  ov::InferRequest infer;
  std::vector<Binding> bound_inputs, bound_outputs;
};

class OpenVinoExecutable::Context final : public RunContext {
 public:
  std::map<Counts, Request> requests;  // of models_
};

OpenVinoExecutable::OpenVinoExecutable(Make make, const Function& function,
                                       const CompileOptions& options)
    : make_(std::move(make)),
      name_(function.name),
      threads_(options.num_threads * options.streams),
      streams_(options.streams),
      // On one thread the plugin loses the error of a run of open sizes that it makes for its
      // caller: results of the last run come back, and memory is written that is not its own.
      waits_(threads_ == 1 && has_open_sizes(graph_of(function.graph))),
      exports_(exports_faithfully(graph_of(function.graph))) {
  const Graph& graph = graph_of(function.graph);
  const std::vector<ValueId> computed = computed_outputs(graph);
  const std::string place = "openvino: function '" + name_ + "'";
  const std::vector<std::int64_t> bounds = integer_bounds(graph);
  find_summed(graph);
  const ov::CompiledModel model = model_for(usual_counts());
  if (model.inputs().size() != graph.inputs().size() || model.outputs().size() != computed.size()) {
    throw Error(ErrorCode::kEngine, place + ": the compiled model has " +
                                        std::to_string(model.inputs().size()) + " inputs and " +
                                        std::to_string(model.outputs().size()) + " outputs");
  }
  const auto describe = [&](const ov::Output<const ov::Node>& port, ValueId id) {
    Port out;
    out.name = graph.value(id).name;
    out.type = port.get_element_type();
    out.dtype = graph.type(id).dtype;
    if (out.type != to_element_type(out.dtype)) {
      throw Error(ErrorCode::kEngine, place + ": OpenVINO gives '" + out.name + "' the type " +
                                          out.type.get_type_name() + " instead of " +
                                          std::string(to_string(out.dtype)));
    }
    out.is_static = port.get_partial_shape().is_static();
    if (out.is_static) out.dims = to_dims(port.get_shape());
    out.bound = bound_of(graph, id, bounds);
    return out;
  };
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    inputs_.push_back(describe(model.input(i), graph.inputs()[i]));
  }
  for (std::size_t i = 0; i < computed.size(); ++i) {
    results_.push_back(describe(model.output(i), computed[i]));
  }
  const auto position = [](const std::vector<ValueId>& list, ValueId id) {
    return static_cast<int>(std::find(list.begin(), list.end(), id) - list.begin());
  };
  for (const ValueId id : graph.outputs()) {
    Source source;
    switch (graph.value(id).origin) {
      case Origin::kConstant:
        source.constant = graph.value(id).constant;
        break;
      case Origin::kInput:
        source.input = position(graph.inputs(), id);
        break;
      default:
        source.computed = position(computed, id);
        break;
    }
    sources_.push_back(std::move(source));
  }
  for (const ValueId id : graph.constants()) weight_bytes_ += graph.value(id).constant.bytes();
}

// Sizes that inputs do not tell by themselves follow from these: then all open ones are looked at.
void OpenVinoExecutable::find_summed(const Graph& graph) {
  const std::vector<Dim> sizes = summed_sizes(graph);
  if (sizes.empty()) return;
  std::vector<Dim> found;
  std::vector<Place> open, of_sizes;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const Type& type = graph.type(graph.inputs()[i]);
    if (!type.is_tensor() || !type.has_rank()) continue;
    for (std::size_t axis = 0; axis < type.rank(); ++axis) {
      const Dim& dim = (*type.shape)[axis];
      if (dim.is_known()) continue;
      const bool has_name = dim.is_symbol();
      if (has_name && std::find(found.begin(), found.end(), dim) != found.end()) continue;
      if (has_name) found.push_back(dim);
      open.push_back({i, axis});
      if (std::find(sizes.begin(), sizes.end(), dim) != sizes.end()) of_sizes.push_back({i, axis});
    }
  }
  const bool all_told = std::all_of(sizes.begin(), sizes.end(), [&](const Dim& size) {
    return std::find(found.begin(), found.end(), size) != found.end();
  });
  summed_ = all_told ? of_sizes : open;
}

OpenVinoExecutable::Counts OpenVinoExecutable::counts_of(std::span<const Data> inputs) const {
  Counts counts;
  for (const Place& place : summed_) {
    const Dims& dims = inputs[place.input].tensor().dims();
    const std::int64_t size = place.axis < dims.size() ? dims[place.axis] : kSeveral;
    counts.push_back(static_cast<int>(std::min<std::int64_t>(size, kSeveral)));
  }
  return counts;
}

ov::CompiledModel OpenVinoExecutable::model_for(const Counts& counts) const {
  const std::lock_guard lock(mutex_);
  const auto it = models_.find(counts);
  if (it != models_.end()) return it->second;
  if (models_.size() == kMostModels) models_.clear();  // who runs one keeps it
  return models_.emplace(counts, make_()).first->second;
}

OpenVinoExecutable::Request& OpenVinoExecutable::request_for(Context& context,
                                                             const Counts& counts) const {
  const auto it = context.requests.find(counts);
  if (it != context.requests.end()) return it->second;
  if (context.requests.size() == kMostModels) context.requests.clear();
  ov::CompiledModel model = model_for(counts);
  return context.requests.try_emplace(counts, model, inputs_.size(), results_.size()).first->second;
}

std::unique_ptr<RunContext> OpenVinoExecutable::create_context() const {
  return translated("openvino: function '" + name_ + "'", [&] {
    auto context = std::make_unique<Context>();
    request_for(*context, usual_counts());
    return context;
  });
}

void OpenVinoExecutable::check_bound(const Port& port, const Tensor& tensor) const {
  if (port.bound == 0 || fits(tensor, port.bound)) return;
  throw Error(ErrorCode::kUnsupported,
              "openvino: function '" + name_ + "': input '" + port.name + "' (" +
                  std::string(to_string(port.dtype)) + ") holds a value beyond " +
                  std::to_string(port.bound) +
                  ", more than OpenVINO's CPU plugin, which computes in int32 and float32, "
                  "keeps exact; run this part on another engine");
}

ExecutableInfo OpenVinoExecutable::info() const {
  ExecutableInfo info;
  info.workspace_bytes.reset();  // the plugin does not tell
  info.weight_bytes = weight_bytes_;
  // The model has a pool, the callers sleep.
  info.threads = threads_;
  info.pool = this;
  if (streams_ > 1) info.runs_at_once = streams_;
  return info;
}

void OpenVinoExecutable::run(const RunArgs& args) const {
  RunContext* context = args.context();
  const RunData& data = data_of(args);
  const std::span<const Data> inputs = data.inputs;
  const std::span<Data> outputs = data.outputs;
  try {
    Request& state = request_for(*static_cast<Context*>(context), counts_of(inputs));
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Tensor& tensor = inputs[i].tensor();
      const Port& port = inputs_[i];
      check_bound(port, tensor);
      auto& bound = state.bound_inputs[i];
      if (bound.is(tensor.raw(), tensor.dims())) continue;
      state.infer.set_input_tensor(i, over(port.type, tensor.dims(), tensor.raw()));
      bound = {tensor.raw(), tensor.dims()};
    }
    // Where each result goes: the first output that wants it, or memory aside where a given output
    // shares memory with an input, which must not change while the model reads it.
    std::vector<Tensor> targets(results_.size());
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (sources_[i].computed < 0) continue;
      const auto r = static_cast<std::size_t>(sources_[i].computed);
      const Port& port = results_[r];
      if (!port.is_static || targets[r].defined()) continue;
      if (outputs[i].is_none()) {
        outputs[i] = targets[r] = Tensor::allocate(port.dtype, port.dims);
      } else {
        const Tensor& given = outputs[i].tensor();
        const bool shared = std::any_of(inputs.begin(), inputs.end(), [&](const Data& input) {
          return overlap(input.tensor(), given);
        });
        targets[r] = shared ? Tensor::allocate(port.dtype, port.dims) : given;
      }
      auto& bound = state.bound_outputs[r];
      if (bound.is(targets[r].raw(), targets[r].dims())) continue;
      state.infer.set_output_tensor(r, over(port.type, port.dims, targets[r].raw()));
      bound = {targets[r].raw(), targets[r].dims()};
    }
    if (waits_) {
      state.infer.start_async();
      state.infer.wait();
    } else {
      state.infer.infer();
    }
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const Source& source = sources_[i];
      if (source.input >= 0) {
        deliver(inputs[static_cast<std::size_t>(source.input)].tensor(), outputs[i]);
      } else if (source.computed < 0) {
        deliver(source.constant, outputs[i]);
      } else {
        const auto r = static_cast<std::size_t>(source.computed);
        if (!targets[r].defined()) {
          const ov::Tensor result = state.infer.get_output_tensor(r);
          // The request will write to its memory again: what is given away is a copy.
          targets[r] = Tensor::allocate(results_[r].dtype, to_dims(result.get_shape()));
          if (targets[r].bytes() > 0) {
            std::memcpy(targets[r].raw(), result.data(), targets[r].bytes());
          }
        }
        deliver(targets[r], outputs[i]);
      }
    }
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kResource, "openvino: function '" + name_ + "': out of memory");
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kEngine,
                "openvino: function '" + name_ + "': " + readable(error.what()));
  }
}

std::optional<std::string> OpenVinoExecutable::serialize() const {
  if (!exports_) return std::nullopt;
  return translated("openvino: function '" + name_ + "'", [&] {
    std::ostringstream stream(std::ios::binary);
    model_for(usual_counts()).export_model(stream);
    return std::optional<std::string>(std::move(stream).str());
  });
}

}  // namespace xrt::openvino
