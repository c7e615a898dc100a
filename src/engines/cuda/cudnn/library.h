// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph API (its backend interface, in C), opened at run time: the library, its descriptors
// and their attributes. The prototypes and numbers are those of its public API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "xrt/dtype.h"

namespace xrt::cuda::cudnn {

// cudnnBackendDescriptorType_t.
enum Descriptor : int {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristic = 4,
  kPlan = 5,
  kConvolutionForward = 10,
  kConvolutionBackwardFilter = 11,
  kConvolutionBackwardData = 12,
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
  kBackwardDataAlpha = 706,
  kBackwardDataBeta = 707,
  kBackwardDataConvolution = 708,
  kBackwardDataW = 709,
  kBackwardDataX = 710,
  kBackwardDataY = 711,
  kBackwardFilterAlpha = 712,
  kBackwardFilterBeta = 713,
  kBackwardFilterConvolution = 714,
  kBackwardFilterW = 715,
  kBackwardFilterX = 716,
  kBackwardFilterY = 717,
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

// cudnnDataType_t of what no tensor of ours has.
constexpr int kInt32Data = 4, kBoolData = 11;

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

// Its `trouble` says why it cannot be used; else empty.
const Library& library();

// From these statuses on: a description that makes no sense to the library, one that it does not
// support, and errors.
constexpr int kBadDescription = 2000, kNotSupported = 3000, kInternal = 4000;
// Throws where a call has failed: kUnsupported for statuses from `first_unsupported` to kInternal.
void check(int status, const char* what, int first_unsupported = kNotSupported);

// A device's handle, which one thread uses at a time.
struct DeviceHandle {
  std::mutex mutex;
  void* handle = nullptr;
};
DeviceHandle& handle_of(int device);

using Owned = std::shared_ptr<void>;  // a descriptor

Owned make(Descriptor kind);
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
void set_descriptor(const Owned& to, Name name, const Owned& value);
// Throws kUnsupported for what the library does not know or does not do.
void finalize(const Owned& descriptor);

int data_type(DType dtype);

}  // namespace xrt::cuda::cudnn
