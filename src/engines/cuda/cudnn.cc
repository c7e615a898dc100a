// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/cudnn.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "device/cuda/libraries.h"
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
};
// cudnnBackendAttributeName_t.
enum Name : int {
  kModeOfPointwise = 0,
  kPrecisionOfPointwise = 1,
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
  kHandleOfGraph = 800,
  kOperationsOfGraph = 801,
  kAlignment = 900,
  kDataTypeOfTensor = 901,
  kDimensions = 902,
  kStridesOfTensor = 903,
  kUniqueId = 906,
  kIsVirtual = 907,
  kIdsOfPack = 1000,
  kPointersOfPack = 1001,
  kWorkspaceOfPack = 1003,
  kNotesOfEngine = 1303,
};

constexpr int kCrossCorrelation = 1;
constexpr int kAdd = 0, kReluForward = 100;
constexpr int kFallback = 2, kModeA = 3;
// cudnnBackendNumericalNote_t.
constexpr int kTensorCore = 0, kDownConverts = 1, kReducedPrecision = 2, kNondeterministic = 4;

constexpr std::int64_t kWorkspaceLimit = std::int64_t{256} << 20;
constexpr std::size_t kMostWays = 6;

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
  static const Library api = [] {
    Library l = {};
    try {
      void* file = open_library({.title = kTitle,
                                 .package = "nvidia-cudnn-cu13",
                                 .variable = "XRT_CUDNN",
                                 .files = {"libcudnn.so.9"},
                                 .helpers = {}});
      resolve(file, kTitle, "cudnnCreate", l.create);
      resolve(file, kTitle, "cudnnSetStream", l.set_stream);
      resolve(file, kTitle, "cudnnGetErrorString", l.error);
      resolve(file, kTitle, "cudnnGetVersion", l.version);
      resolve(file, kTitle, "cudnnBackendCreateDescriptor", l.make);
      resolve(file, kTitle, "cudnnBackendDestroyDescriptor", l.destroy);
      resolve(file, kTitle, "cudnnBackendFinalize", l.finalize);
      resolve(file, kTitle, "cudnnBackendSetAttribute", l.set);
      resolve(file, kTitle, "cudnnBackendGetAttribute", l.get);
      resolve(file, kTitle, "cudnnBackendExecute", l.execute);
    } catch (const Error& error) {
      l.trouble = error.what();
    }
    return l;
  }();
  return api;
}

void check(int status, const char* what) {
  if (status == 0) return;
  constexpr int kNotSupported = 3000, kInternal = 4000;
  const bool unsupported = status >= kNotSupported && status < kInternal;
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
  check(library().finalize(descriptor.get()), "cudnnBackendFinalize");
}

int data_type(DType dtype) {
  if (dtype == DType::kFloat64) return 1;
  if (dtype == DType::kFloat16) return 2;
  return dtype == DType::kBFloat16 ? 9 : 0;
}

// Ids of the tensors of a graph, in the order of a pack's pointers.
enum Id : std::int64_t { kIdX = 1, kIdW, kIdY, kIdBias, kIdResidual, kIdFirstInner };

Owned tensor(std::int64_t id, DType dtype, Dims dims, Dims strides, bool is_virtual = false) {
  if (dims.size() == 3) {  // a line is a plane of one row
    dims.insert(dims.begin() + 2, 1);
    strides.insert(strides.begin() + 2, strides[2] * dims[3]);
  }
  constexpr std::int64_t kBytes = 16;
  Owned made = make(kTensor);
  set(made, kUniqueId, kInt64, id);
  set(made, kDataTypeOfTensor, kDataType, data_type(dtype));
  set_all(made, kDimensions, kInt64, dims);
  set_all(made, kStridesOfTensor, kInt64, strides);
  set(made, kAlignment, kInt64, kBytes);
  if (is_virtual) set(made, kIsVirtual, kBoolean, true);
  finalize(made);
  return made;
}

Owned pointwise(int mode, const Owned& x, const Owned& b, const Owned& y) {
  Owned description = make(kPointwise);
  set(description, kModeOfPointwise, kPointwiseMode, mode);
  set(description, kPrecisionOfPointwise, kDataType, data_type(DType::kFloat32));
  finalize(description);
  Owned operation = make(kPointwiseOperation);
  set_descriptor(operation, kOperationOfPointwise, description);
  set_descriptor(operation, kPointwiseX, x);
  if (b) set_descriptor(operation, kPointwiseB, b);
  set_descriptor(operation, kPointwiseY, y);
  finalize(operation);
  return operation;
}

// The convolution, then what is added, then the activation: the order that most engines know.
Owned operation_graph(void* handle, const ConvolutionStep& step) {
  const Dims& dims = step.y.dims;
  const bool is_double = step.y.dtype == DType::kFloat64;
  const DType inner_type = is_double ? DType::kFloat64 : DType::kFloat32;
  const Owned y = tensor(kIdY, step.y.dtype, dims, step.y.strides);
  const bool has_relu = step.activation == Activation::kRelu;
  int left = (step.residual ? 1 : 0) + (step.bias ? 1 : 0) + (has_relu ? 1 : 0);
  std::int64_t next_id = kIdFirstInner;
  // The next result: the last one is the graph's.
  const auto result = [&] {
    return left-- == 0 ? y : tensor(next_id++, inner_type, dims, step.y.strides, true);
  };
  std::vector<std::int64_t> strides = step.strides, dilations = step.dilations,
                            before = step.pads_begin, after = step.pads_end;
  if (dims.size() == 3) {
    strides.insert(strides.begin(), 1);
    dilations.insert(dilations.begin(), 1);
    before.insert(before.begin(), 0);
    after.insert(after.begin(), 0);
  }
  const Owned convolution = make(kConvolution);
  set(convolution, kComputedIn, kDataType, data_type(inner_type));
  set(convolution, kModeOfConvolution, kConvolutionMode, kCrossCorrelation);
  set(convolution, kSpatialDims, kInt64, static_cast<std::int64_t>(strides.size()));
  set_all(convolution, kDilations, kInt64, dilations);
  set_all(convolution, kStrides, kInt64, strides);
  set_all(convolution, kPadsBefore, kInt64, before);
  set_all(convolution, kPadsAfter, kInt64, after);
  finalize(convolution);
  Owned last = result();
  const Owned forward = make(kConvolutionForward);
  set(forward, kForwardAlpha, kFloat, 1.0F);
  set(forward, kForwardBeta, kFloat, 0.0F);
  set_descriptor(forward, kForwardConvolution, convolution);
  set_descriptor(forward, kForwardX, tensor(kIdX, step.x.dtype, step.x.dims, step.x.strides));
  set_descriptor(forward, kForwardW, tensor(kIdW, step.w.dtype, step.w.dims, step.w.strides));
  set_descriptor(forward, kForwardY, last);
  finalize(forward);
  std::vector<Owned> operations{forward};
  if (step.residual) {
    const Owned residual = tensor(kIdResidual, step.residual->dtype, dims, step.residual->strides);
    const Owned sum = result();
    operations.push_back(pointwise(kAdd, last, residual, sum));
    last = sum;
  }
  if (step.bias) {
    Dims ones(dims.size(), 1);
    ones[1] = dims[1];
    Dims apart(dims.size(), dims[1]);
    apart[1] = 1;
    const Owned sum = result();
    operations.push_back(
        pointwise(kAdd, last, tensor(kIdBias, step.bias->dtype, ones, apart), sum));
    last = sum;
  }
  if (has_relu) operations.push_back(pointwise(kReluForward, last, nullptr, result()));
  Owned graph = make(kOperationGraph);
  set(graph, kHandleOfGraph, kHandle, handle);
  std::vector<void*> raw;
  raw.reserve(operations.size());
  for (const Owned& operation : operations) raw.push_back(operation.get());
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

}  // namespace

const std::string& cudnn_trouble() { return library().trouble; }
std::string cudnn_version() { return std::to_string(library().version()); }

Convolution::Convolution(int device, const ConvolutionStep& step, bool tf32)
    : device_(device), step_(step) {
  DeviceHandle& own = handle_of(device);
  const std::lock_guard lock(own.mutex);
  graph_ = operation_graph(own.handle, step);
  for (const int mode : {kModeA, kFallback}) {
    for (const Owned& configuration : configurations(graph_, mode)) {
      if (ways_.size() == kMostWays) break;
      if (!is_allowed(configuration, step.y.dtype, tf32)) continue;
      const Owned plan = make(kPlan);
      set(plan, kHandleOfPlan, kHandle, own.handle);
      set_descriptor(plan, kConfigOfPlan, configuration);
      if (library().finalize(plan.get()) != 0) continue;
      std::int64_t workspace = 0, count = 0;
      check(library().get(plan.get(), kWorkspaceOfPlan, kInt64, 1, &count, &workspace),
            "cudnnBackendGetAttribute");
      if (workspace > kWorkspaceLimit) continue;
      ways_.push_back({plan, static_cast<std::size_t>(workspace)});
    }
    if (!ways_.empty()) return;
  }
  throw Error(ErrorCode::kUnsupported, "cuDNN: it has no way");
}

Convolution::~Convolution() = default;

void Convolution::queue(const Addresses& addresses, void* workspace, void* stream) const {
  DeviceHandle& own = handle_of(device_);
  const std::lock_guard lock(own.mutex);
  std::vector<std::int64_t> ids{kIdX, kIdW, kIdY};
  std::vector<void*> pointers{addresses(step_.x), addresses(step_.w), addresses(step_.y)};
  if (step_.bias) ids.push_back(kIdBias), pointers.push_back(addresses(*step_.bias));
  if (step_.residual) {
    ids.push_back(kIdResidual);
    pointers.push_back(addresses(*step_.residual));
  }
  const Owned pack = make(kVariantPack);
  set_all(pack, kIdsOfPack, kInt64, ids);
  set_all(pack, kPointersOfPack, kPointer, pointers);
  set(pack, kWorkspaceOfPack, kPointer, workspace);
  finalize(pack);
  check(library().set_stream(own.handle, stream), "cudnnSetStream");
  check(library().execute(own.handle, ways_[chosen_].plan.get(), pack.get()),
        "cudnnBackendExecute");
}

}  // namespace xrt::cuda
