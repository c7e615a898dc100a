// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/cudnn/graph.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/log.h"
#include "xrt/error.h"

namespace xrt::cuda::cudnn {

Owned tensor(const TensorFacts& facts) {
  constexpr std::int64_t kBytes = 16;
  Owned made = make(kTensor);
  set(made, kUniqueId, kInt64, facts.id);
  set(made, kDataTypeOfTensor, kDataType, facts.type);
  set_all(made, kDimensions, kInt64, facts.dims);
  set_all(made, kStridesOfTensor, kInt64, facts.strides);
  set(made, kAlignment, kInt64, kBytes);
  if (facts.is_virtual) set(made, kIsVirtual, kBoolean, true);
  if (facts.is_by_value) set(made, kIsByValue, kBoolean, true);
  finalize(made);
  return made;
}
Owned tensor(std::int64_t id, const View& view) {
  return tensor(
      {.id = id, .type = data_type(view.dtype), .dims = view.dims, .strides = view.strides});
}
Owned number(std::int64_t id) {
  const Dims ones(4, 1);
  return tensor({.id = id,
                 .type = data_type(DType::kFloat32),
                 .dims = ones,
                 .strides = ones,
                 .is_by_value = true});
}

Owned pointwise(const PointwiseFacts& facts) {
  Owned description = make(kPointwise);
  set(description, kModeOfPointwise, kPointwiseMode, facts.mode);
  set(description, kPrecisionOfPointwise, kDataType, facts.computed_in);
  if (facts.axis) set(description, kAxisOfPointwise, kInt64, *facts.axis);
  finalize(description);
  Owned operation = make(kPointwiseOperation);
  set_descriptor(operation, kOperationOfPointwise, description);
  set_descriptor(operation, kPointwiseX, facts.x);
  if (facts.b) set_descriptor(operation, kPointwiseB, facts.b);
  if (facts.condition) set_descriptor(operation, kPointwiseCondition, facts.condition);
  set_descriptor(operation, kPointwiseY, facts.y);
  finalize(operation);
  return operation;
}

namespace {

constexpr int kFallback = 2, kModeA = 3;  // cudnnBackendHeurMode_t
// cudnnBackendNumericalNote_t.
constexpr int kTensorCore = 0, kDownConverts = 1, kReducedPrecision = 2, kNondeterministic = 4;

constexpr std::int64_t kWorkspaceLimit = std::int64_t{256} << 20;

Owned operation_graph(void* handle, const Formulation& formulation) {
  Owned graph = make(kOperationGraph);
  set(graph, kHandleOfGraph, kHandle, handle);
  std::vector<void*> raw;
  raw.reserve(formulation.operations.size());
  for (const Owned& operation : formulation.operations) raw.push_back(operation.get());
  set_all(graph, kOperationsOfGraph, kDescriptor, raw);
  finalize(graph);
  return graph;
}

// Ways to compute the graph, those first that the library holds for the fastest.
std::vector<Owned> configurations(const Owned& graph, int mode) {
  const Owned heuristic = make(kHeuristic);
  set_descriptor(heuristic, kGraphOfHeuristic, graph);
  set(heuristic, kModeOfHeuristic, kHeuristicMode, mode);
  if (library().finalize(heuristic.get()) != 0) return {};
  std::int64_t count = 0;
  if (library().get(heuristic.get(), kResultsOfHeuristic, kDescriptor, 0, &count, nullptr) != 0) {
    return {};
  }
  std::vector<Owned> made;
  std::vector<void*> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    made.push_back(make(kEngineConfig));
    raw.push_back(made.back().get());
  }
  std::int64_t given = 0;
  if (library().get(heuristic.get(), kResultsOfHeuristic, kDescriptor, count, &given, raw.data()) !=
      0) {
    return {};
  }
  made.resize(static_cast<std::size_t>(std::min(given, count)));
  return made;
}

// Whether a way computes what the step says: no rounding of factors that nobody asked for.
bool is_allowed(const Owned& configuration, DType dtype, bool tf32) {
  const Owned engine = make(kEngine);
  void* raw = engine.get();
  std::int64_t count = 0;
  if (library().get(configuration.get(), kEngineOfConfig, kDescriptor, 1, &count, &raw) != 0) {
    return false;
  }
  std::array<int, 16> notes = {};
  if (library().get(raw, kNotesOfEngine, kNumericalNote, static_cast<std::int64_t>(notes.size()),
                    &count, notes.data()) != 0) {
    return false;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const int note = notes[static_cast<std::size_t>(i)];
    if (note == kNondeterministic || note == kReducedPrecision) return false;
    const bool rounds = note == kTensorCore || note == kDownConverts;
    if (dtype == DType::kFloat32 && !tf32 && rounds) return false;
  }
  return true;
}

class GraphComputation final : public Computation {
 public:
  GraphComputation(const LibraryOptions& options, DType dtype,
                   std::vector<Formulation> formulations, std::size_t most, std::string_view saved);

  std::size_t way_count() const override { return ways_.size(); }
  using Computation::workspace_bytes;
  std::size_t workspace_bytes(std::size_t way) const override { return ways_[way].workspace; }
  void queue(const Addresses& addresses, void* workspace, void* stream) const override;
  std::string save() const override;

 private:
  struct Way {
    std::size_t formulation = 0;
    Owned plan;
    std::size_t workspace = 0;
  };
  void find_ways(void* handle, std::size_t formulation, DType dtype, std::size_t most);
  bool add_way(std::size_t formulation, const Owned& plan);

  LibraryOptions options_;
  std::vector<Formulation> formulations_;
  std::vector<Owned> graphs_;
  std::vector<Way> ways_;
};

GraphComputation::GraphComputation(const LibraryOptions& options, DType dtype,
                                   std::vector<Formulation> formulations, std::size_t most,
                                   std::string_view saved)
    : options_(options), formulations_(std::move(formulations)) {
  DeviceHandle& own = handle_of(options.device);
  const std::lock_guard lock(own.mutex);
  if (!saved.empty()) {
    const auto formulation = static_cast<std::size_t>(saved.front());
    const std::vector<char> text(saved.begin() + 1, saved.end());
    const Owned plan = make(kPlan);
    set_all(plan, kTextOfPlan, kText, text);
    set(plan, kHandleOfPlan, kHandle, own.handle);
    finalize(plan);
    if (formulation < formulations_.size() && add_way(formulation, plan)) return;
    throw Error(ErrorCode::kEngine, "cuDNN: a saved plan is none of this step");
  }
  for (std::size_t f = 0; f < formulations_.size(); ++f) {
    try {
      find_ways(own.handle, f, dtype, ways_.size() + most);
    } catch (const Error& error) {  // another formulation may do
      if (error.code() != ErrorCode::kUnsupported) throw;
      log_debug(error.what());
    }
  }
  if (ways_.empty()) throw Error(ErrorCode::kUnsupported, "cuDNN: it has no way");
}

void GraphComputation::find_ways(void* handle, std::size_t formulation, DType dtype,
                                 std::size_t most) {
  const Owned graph = operation_graph(handle, formulations_[formulation]);
  graphs_.push_back(graph);
  const std::size_t before = ways_.size();
  for (const int mode : {kModeA, kFallback}) {
    for (const Owned& configuration : configurations(graph, mode)) {
      if (ways_.size() == most) break;
      if (!is_allowed(configuration, dtype, options_.tf32)) continue;
      const Owned plan = make(kPlan);
      set(plan, kHandleOfPlan, kHandle, handle);
      set_descriptor(plan, kConfigOfPlan, configuration);
      if (library().finalize(plan.get()) == 0) add_way(formulation, plan);
    }
    if (ways_.size() != before) return;
  }
}

bool GraphComputation::add_way(std::size_t formulation, const Owned& plan) {
  std::int64_t workspace = 0, count = 0;
  check(library().get(plan.get(), kWorkspaceOfPlan, kInt64, 1, &count, &workspace),
        "cudnnBackendGetAttribute");
  if (workspace > kWorkspaceLimit) return false;
  ways_.push_back({formulation, plan, static_cast<std::size_t>(workspace)});
  return true;
}

std::string GraphComputation::save() const {
  const Way& way = ways_[chosen()];
  std::int64_t bytes = 0;
  check(library().get(way.plan.get(), kTextOfPlan, kText, 0, &bytes, nullptr),
        "cudnnBackendGetAttribute");
  std::string text(static_cast<std::size_t>(bytes), '\0');
  check(library().get(way.plan.get(), kTextOfPlan, kText, bytes, &bytes, text.data()),
        "cudnnBackendGetAttribute");
  return std::string(1, static_cast<char>(way.formulation)) + text;
}

void GraphComputation::queue(const Addresses& addresses, void* workspace, void* stream) const {
  DeviceHandle& own = handle_of(options_.device);
  const std::lock_guard lock(own.mutex);
  const Way& way = ways_[chosen()];
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  for (const Operand& operand : formulations_[way.formulation].operands) {
    ids.push_back(operand.id);
    pointers.push_back(operand.view ? addresses(*operand.view)
                                    : const_cast<float*>(&operand.value));
  }
  const Owned pack = make(kVariantPack);
  set_all(pack, kIdsOfPack, kInt64, ids);
  set_all(pack, kPointersOfPack, kPointer, pointers);
  set(pack, kWorkspaceOfPack, kPointer, workspace);
  finalize(pack);
  check(library().set_stream(own.handle, stream), "cudnnSetStream");
  check(library().execute(own.handle, way.plan.get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace

std::unique_ptr<Computation> make_graph_computation(const LibraryOptions& options, DType dtype,
                                                    std::vector<Formulation> formulations,
                                                    std::size_t most, std::string_view saved) {
  return std::make_unique<GraphComputation>(options, dtype, std::move(formulations), most, saved);
}

}  // namespace xrt::cuda::cudnn
