// SPDX-License-Identifier: Apache-2.0
// Convolutions and attention by cuDNN's graph API (its backend interface, in C), opened at run
// time. The prototypes and numbers are those of its public API.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "device/cuda/libraries.h"
#include "engines/cuda/computation.h"
#include "xrt/error.h"

namespace xrt::cuda {
namespace {

constexpr std::string_view kTitle = "cuDNN";

// cudnnBackendDescriptorType_t.
enum Descriptor : int {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristic = 4,
  kPlan = 5,
  kConvolutionForward = 10,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kAttentionForward = 41,
};
// cudnnBackendAttributeType_t.
enum Type : int {
  kHandle = 0,
  kDataType = 1,
  kBoolean = 2,
  kInt64 = 3,
  kFloat = 4,
  kPointer = 6,
  kConvolutionMode = 7,
  kHeuristicMode = 8,
  kNumericalNote = 11,
  kPointwiseMode = 14,
  kDescriptor = 15,
  kReductionMode = 18,
  kText = 24,
};
// cudnnBackendAttributeName_t.
enum Name : int {
  kModeOfPointwise = 0,
  kPrecisionOfPointwise = 1,
  kAxisOfPointwise = 9,
  kComputedIn = 100,
  kModeOfConvolution = 101,
  kDilations = 102,
  kStrides = 103,
  kPadsAfter = 104,
  kPadsBefore = 105,
  kSpatialDims = 106,
  kModeOfHeuristic = 200,
  kGraphOfHeuristic = 201,
  kResultsOfHeuristic = 202,
  kEngineOfConfig = 300,
  kHandleOfPlan = 400,
  kConfigOfPlan = 401,
  kWorkspaceOfPlan = 402,
  kTextOfPlan = 405,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kOperationOfPointwise = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kPointwiseCondition = 758,
  kHandleOfGraph = 800,
  kOperationsOfGraph = 801,
  kAlignment = 900,
  kDataTypeOfTensor = 901,
  kDimensions = 902,
  kStridesOfTensor = 903,
  kUniqueId = 906,
  kIsVirtual = 907,
  kIsByValue = 908,
  kIdsOfPack = 1000,
  kPointersOfPack = 1001,
  kWorkspaceOfPack = 1003,
  kNotesOfEngine = 1303,
  kMatmulComputedIn = 1500,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kMatmulC = 1522,
  kOperationOfMatmul = 1523,
  kModeOfReduction = 1600,
  kReductionComputedIn = 1601,
  kReductionX = 1610,
  kReductionY = 1611,
  kOperationOfReduction = 1612,
  kAttentionQ = 2800,
  kAttentionK = 2801,
  kAttentionV = 2802,
  kAttentionO = 2803,
  kAttentionScale = 2805,
};

constexpr int kCrossCorrelation = 1;
// cudnnPointwiseMode_t and cudnnReduceTensorOp_t.
constexpr int kAdd = 0, kMultiply = 1, kDivide = 6, kSubtract = 9, kExponential = 13,
              kLogarithm = 15, kReluForward = 100, kNotLess = 303, kIndex = 501, kSelect = 601;
constexpr int kSumOf = 0, kMostOf = 3;
// cudnnDataType_t of what no tensor of ours has.
constexpr int kInt32Data = 4, kBoolData = 11;
constexpr int kFallback = 2, kModeA = 3;
// cudnnBackendNumericalNote_t.
constexpr int kTensorCore = 0, kDownConverts = 1, kReducedPrecision = 2, kNondeterministic = 4;

constexpr std::int64_t kWorkspaceLimit = std::int64_t{256} << 20;
// Of attention each is compiled by the library, which takes longer.
constexpr std::size_t kMostWays = 6, kMostWaysOfAttention = 2;

struct Library {
  int (*create)(void**);
  int (*set_stream)(void*, void*);
  const char* (*error)(int);
  std::size_t (*version)();
  int (*make)(int, void**);
  int (*destroy)(void*);
  int (*finalize)(void*);
  int (*set)(void*, int, int, std::int64_t, const void*);
  int (*get)(void*, int, int, std::int64_t, std::int64_t*, void*);
  int (*execute)(void*, void*, void*);
  std::string trouble;
};

const Library& library() {
  static const auto api = [] {
    const LibraryName name{.title = kTitle,
                           .package = "nvidia-cudnn-cu13",
                           .variable = "XRT_CUDNN",
                           .files = {"libcudnn.so.9"},
                           .helpers = {}};
    return open_if_there<Library>(name, [](Library& l, const auto& find) {
      find("cudnnCreate", l.create);
      find("cudnnSetStream", l.set_stream);
      find("cudnnGetErrorString", l.error);
      find("cudnnGetVersion", l.version);
      find("cudnnBackendCreateDescriptor", l.make);
      find("cudnnBackendDestroyDescriptor", l.destroy);
      find("cudnnBackendFinalize", l.finalize);
      find("cudnnBackendSetAttribute", l.set);
      find("cudnnBackendGetAttribute", l.get);
      find("cudnnBackendExecute", l.execute);
    });
  }();
  return api;
}

// From these statuses on: a description that makes no sense to the library, one that it does not
// support, and errors.
constexpr int kBadDescription = 2000, kNotSupported = 3000, kInternal = 4000;

void check(int status, const char* what, int first_unsupported = kNotSupported) {
  if (status == 0) return;
  const bool unsupported = status >= first_unsupported && status < kInternal;
  throw Error(unsupported ? ErrorCode::kUnsupported : ErrorCode::kEngine,
              std::string("cuDNN: ") + what + " failed: " + library().error(status) + " (" +
                  std::to_string(status) + ")");
}

// A device's handle, which one thread uses at a time.
struct DeviceHandle {
  std::mutex mutex;
  void* handle = nullptr;
};

DeviceHandle& handle_of(int device) {
  static std::mutex mutex;
  static auto* const handles = new std::map<int, DeviceHandle>();
  const std::lock_guard lock(mutex);
  DeviceHandle& own = (*handles)[device];
  if (own.handle == nullptr) check(library().create(&own.handle), "cudnnCreate");
  return own;
}

using Owned = std::shared_ptr<void>;

Owned make(Descriptor kind) {
  void* made = nullptr;
  check(library().make(kind, &made), "cudnnBackendCreateDescriptor");
  return {made, [](void* descriptor) { library().destroy(descriptor); }};
}

template <typename T>
void set(const Owned& to, Name name, Type type, const T& value) {
  check(library().set(to.get(), name, type, 1, &value), "cudnnBackendSetAttribute");
}
template <typename T>
void set_all(const Owned& to, Name name, Type type, const std::vector<T>& values) {
  check(
      library().set(to.get(), name, type, static_cast<std::int64_t>(values.size()), values.data()),
      "cudnnBackendSetAttribute");
}
void set_descriptor(const Owned& to, Name name, const Owned& value) {
  void* const raw = value.get();
  set(to, name, kDescriptor, raw);
}
void finalize(const Owned& descriptor) {
  // Which descriptions make sense depends on the version.
  check(library().finalize(descriptor.get()), "cudnnBackendFinalize", kBadDescription);
}

int data_type(DType dtype) {
  if (dtype == DType::kFloat64) return 1;
  if (dtype == DType::kFloat16) return 2;
  return dtype == DType::kBFloat16 ? 9 : 0;
}

// --- operations ---

// A tensor's number, by which a pack names its memory.
enum Id : std::int64_t {
  kIdX = 1,
  kIdW,
  kIdY,
  kIdBias,
  kIdResidual,
  kIdQ,
  kIdK,
  kIdV,
  kIdO,
  kIdSums,
  kIdMask,
  kIdScale,
  kIdLow,
  kIdFirstInner
};

struct TensorFacts {
  std::int64_t id = 0;
  int type = 0;
  Dims dims = {}, strides = {};
  bool is_virtual = false;   // inside the graph
  bool is_by_value = false;  // a number in the host's memory
};

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

struct PointwiseFacts {
  int mode = 0;
  Owned x = nullptr, b = nullptr, condition = nullptr, y = nullptr;
  std::optional<std::int64_t> axis = {};
  int computed_in = data_type(DType::kFloat32);
};

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

Owned reduction(int mode, const Owned& x, const Owned& y) {
  const Owned description = make(kReduction);
  set(description, kModeOfReduction, kReductionMode, mode);
  set(description, kReductionComputedIn, kDataType, data_type(DType::kFloat32));
  finalize(description);
  Owned operation = make(kReductionOperation);
  set_descriptor(operation, kReductionX, x);
  set_descriptor(operation, kReductionY, y);
  set_descriptor(operation, kOperationOfReduction, description);
  finalize(operation);
  return operation;
}

Owned matmul(const Owned& a, const Owned& b, const Owned& c) {
  const Owned description = make(kMatmul);
  set(description, kMatmulComputedIn, kDataType, data_type(DType::kFloat32));
  finalize(description);
  Owned operation = make(kMatmulOperation);
  set_descriptor(operation, kMatmulA, a);
  set_descriptor(operation, kMatmulB, b);
  set_descriptor(operation, kMatmulC, c);
  set_descriptor(operation, kOperationOfMatmul, description);
  finalize(operation);
  return operation;
}

// --- graphs of operations ---

// What a graph reads and writes: memory, or a number.
struct Operand {
  std::int64_t id = 0;
  std::optional<View> view = {};
  float value = 0;
};

// Operations that compute a step.
struct Formulation {
  std::vector<Owned> operations;
  std::vector<Operand> operands;
};

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

// A step by graphs of operations: the first formulation is always there, others are further ways.
class GraphComputation final : public Computation {
 public:
  // Takes up to so many ways of each formulation.
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

// --- convolutions ---

// A line is a plane of one row.
View as_plane(View view) {
  if (view.dims.size() == 3) {
    view.dims.insert(view.dims.begin() + 2, 1);
    view.strides.insert(view.strides.begin() + 2, view.strides[2] * view.dims[3]);
  }
  return view;
}

// The convolution, then what is added, then the activation: the order that most engines know.
Formulation formulation_of(const ConvolutionStep& step) {
  const View y = as_plane(step.y);
  const bool is_double = y.dtype == DType::kFloat64;
  const int inner_type = data_type(is_double ? DType::kFloat64 : DType::kFloat32);
  const Owned result = tensor(kIdY, y);
  const bool has_relu = step.activation == Activation::kRelu;
  int left = (step.residual ? 1 : 0) + (step.bias ? 1 : 0) + (has_relu ? 1 : 0);
  std::int64_t next_id = kIdFirstInner;
  // The next result: the last one is the graph's.
  const auto next = [&] {
    if (left-- == 0) return result;
    return tensor({.id = next_id++,
                   .type = inner_type,
                   .dims = y.dims,
                   .strides = y.strides,
                   .is_virtual = true});
  };
  std::vector<std::int64_t> strides = step.strides, dilations = step.dilations,
                            before = step.pads_begin, after = step.pads_end;
  if (step.y.dims.size() == 3) {
    strides.insert(strides.begin(), 1);
    dilations.insert(dilations.begin(), 1);
    before.insert(before.begin(), 0);
    after.insert(after.begin(), 0);
  }
  const Owned convolution = make(kConvolution);
  set(convolution, kComputedIn, kDataType, inner_type);
  set(convolution, kModeOfConvolution, kConvolutionMode, kCrossCorrelation);
  set(convolution, kSpatialDims, kInt64, static_cast<std::int64_t>(strides.size()));
  set_all(convolution, kDilations, kInt64, dilations);
  set_all(convolution, kStrides, kInt64, strides);
  set_all(convolution, kPadsBefore, kInt64, before);
  set_all(convolution, kPadsAfter, kInt64, after);
  finalize(convolution);
  Owned last = next();
  const Owned forward = make(kConvolutionForward);
  set(forward, kForwardAlpha, kFloat, 1.0F);
  set(forward, kForwardBeta, kFloat, 0.0F);
  set_descriptor(forward, kForwardConvolution, convolution);
  set_descriptor(forward, kForwardX, tensor(kIdX, as_plane(step.x)));
  set_descriptor(forward, kForwardW, tensor(kIdW, as_plane(step.w)));
  set_descriptor(forward, kForwardY, last);
  finalize(forward);
  Formulation made{{forward}, {{kIdX, step.x}, {kIdW, step.w}, {kIdY, step.y}}};
  if (step.residual) {
    const Owned sum = next();
    made.operations.push_back(pointwise(
        {.mode = kAdd, .x = last, .b = tensor(kIdResidual, as_plane(*step.residual)), .y = sum}));
    made.operands.push_back({kIdResidual, *step.residual});
    last = sum;
  }
  if (step.bias) {
    Dims ones(y.dims.size(), 1);
    ones[1] = y.dims[1];
    Dims apart(y.dims.size(), y.dims[1]);
    apart[1] = 1;
    const Owned sum = next();
    made.operations.push_back(pointwise(
        {.mode = kAdd,
         .x = last,
         .b = tensor(
             {.id = kIdBias, .type = data_type(step.bias->dtype), .dims = ones, .strides = apart}),
         .y = sum}));
    made.operands.push_back({kIdBias, *step.bias});
    last = sum;
  }
  if (has_relu) {
    made.operations.push_back(pointwise({.mode = kReluForward, .x = last, .y = next()}));
  }
  return made;
}

// --- attention ---

// Written out, with the logarithms of the sums: the form that kernels for all masks know.
Formulation formulation_of(const AttentionStep& step) {
  const Dims dims{step.q.dims[0], step.q.dims[1], step.q.dims[2], step.k.dims[2]};
  Dims row_dims = dims;
  row_dims.back() = 1;
  std::int64_t next_id = kIdFirstInner;
  const auto inner = [&](const Dims& of, int type = data_type(DType::kFloat32)) {
    return tensor({.id = next_id++,
                   .type = type,
                   .dims = of,
                   .strides = row_major_strides(of),
                   .is_virtual = true});
  };
  View keys = step.k;  // transposed
  std::swap(keys.dims[2], keys.dims[3]);
  std::swap(keys.strides[2], keys.strides[3]);
  Formulation made;
  const auto add = [&](Owned operation) { made.operations.push_back(std::move(operation)); };
  const Owned products = inner(dims);
  add(matmul(tensor(kIdQ, step.q), tensor(kIdK, keys), products));
  Owned scores = inner(dims);
  add(pointwise({.mode = kMultiply, .x = products, .b = number(kIdScale), .y = scores}));
  made.operands = {{kIdQ, step.q}, {kIdK, step.k},       {kIdV, step.v},
                   {kIdO, step.o}, {kIdSums, step.sums}, {kIdScale, std::nullopt, step.scale}};
  if (step.mask) {
    const Owned sum = inner(dims);
    add(pointwise({.mode = kAdd, .x = scores, .b = tensor(kIdMask, *step.mask), .y = sum}));
    made.operands.push_back({kIdMask, *step.mask});
    scores = sum;
  }
  if (step.causal) {
    const Owned row = inner(dims, kInt32Data), column = inner(dims, kInt32Data);
    for (const auto& [index, axis] : {std::pair{row, 2}, {column, 3}}) {
      add(pointwise(
          {.mode = kIndex, .x = scores, .y = index, .axis = axis, .computed_in = kInt32Data}));
    }
    const Owned visible = inner(dims, kBoolData);
    add(pointwise(
        {.mode = kNotLess, .x = row, .b = column, .y = visible, .computed_in = kInt32Data}));
    const Owned chosen = inner(dims);
    add(pointwise(
        {.mode = kSelect, .x = scores, .b = number(kIdLow), .condition = visible, .y = chosen}));
    made.operands.push_back({kIdLow, std::nullopt, -std::numeric_limits<float>::infinity()});
    scores = chosen;
  }
  const Owned most = inner(row_dims);
  add(reduction(kMostOf, scores, most));
  const Owned less = inner(dims), exponentials = inner(dims);
  add(pointwise({.mode = kSubtract, .x = scores, .b = most, .y = less}));
  add(pointwise({.mode = kExponential, .x = less, .y = exponentials}));
  const Owned sum = inner(row_dims), logarithm = inner(row_dims);
  add(reduction(kSumOf, exponentials, sum));
  add(pointwise({.mode = kLogarithm, .x = sum, .y = logarithm}));
  add(pointwise({.mode = kAdd, .x = most, .b = logarithm, .y = tensor(kIdSums, step.sums)}));
  const Owned weights = inner(dims, data_type(step.q.dtype));
  add(pointwise({.mode = kDivide, .x = exponentials, .b = sum, .y = weights}));
  add(matmul(weights, tensor(kIdV, step.v), tensor(kIdO, step.o)));
  return made;
}

// As one operation, which newer versions have, without masks.
std::optional<Formulation> formulation_as_whole(const AttentionStep& step) {
  constexpr std::size_t kFirstVersion = 91301;
  if (step.mask || step.causal || library().version() < kFirstVersion) return std::nullopt;
  const Owned operation = make(kAttentionForward);
  set_descriptor(operation, kAttentionQ, tensor(kIdQ, step.q));
  set_descriptor(operation, kAttentionK, tensor(kIdK, step.k));
  set_descriptor(operation, kAttentionV, tensor(kIdV, step.v));
  set_descriptor(operation, kAttentionO, tensor(kIdO, step.o));
  set_descriptor(operation, kAttentionScale, number(kIdScale));
  finalize(operation);
  return Formulation{{operation},
                     {{kIdQ, step.q},
                      {kIdK, step.k},
                      {kIdV, step.v},
                      {kIdO, step.o},
                      {kIdScale, std::nullopt, step.scale}}};
}

}  // namespace

const std::string& cudnn_trouble() { return library().trouble; }
std::string cudnn_version() { return std::to_string(library().version()); }

std::unique_ptr<Computation> make_convolution(const LibraryOptions& options,
                                              const ConvolutionStep& step, std::string_view saved) {
  return std::make_unique<GraphComputation>(
      options, step.y.dtype, std::vector<Formulation>{formulation_of(step)}, kMostWays, saved);
}

std::unique_ptr<Computation> make_attention(const LibraryOptions& options,
                                            const AttentionStep& step, std::string_view saved) {
  std::vector<Formulation> formulations{formulation_of(step)};
  try {
    if (auto whole = formulation_as_whole(step)) formulations.push_back(std::move(*whole));
  } catch (const Error& error) {  // the other one may do
    if (error.code() != ErrorCode::kUnsupported) throw;
    log_debug(error.what());
  }
  return std::make_unique<GraphComputation>(options, step.o.dtype, std::move(formulations),
                                            kMostWaysOfAttention, saved);
}

}  // namespace xrt::cuda
